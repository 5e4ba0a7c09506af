// Candidates for benchmarks/matmul.py: y = a b with a register tile of ROW_BLOCKS x COLUMN_BLOCKS blocks of 4 x 4, set
// by the prelude, beside a naive kernel. M, N and K are multiples of 4.
// uses: lib/index

struct Params {
  M: u32,
  N: u32,
  K: u32,
  column_groups: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(8, 8)
fn naive(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let id = place(group_index(group, groups), local);
  if (id.y >= params.M || id.x >= params.N) { return; }
  var total = 0.0;
  for (var k = 0u; k < params.K; k++) {
    let at = k * params.N + id.x;
    total += a_element(id.y * params.K + k) * b[at >> 2u][at & 3u];
  }
  let at = id.y * params.N + id.x;
  y[at >> 2u][at & 3u] = total;
}

@compute @workgroup_size(8, 8)
fn tile(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let id = place(group_index(group, groups), local);
  let row = id.y * 4u * ROW_BLOCKS;
  let column = id.x * 4u * COLUMN_BLOCKS;
  if (row >= params.M || column >= params.N) { return; }
  var blocks: array<mat4x4<f32>, ROW_BLOCKS * COLUMN_BLOCKS>;
  for (var k = 0u; k < params.K; k++) {
    var right: array<vec4<f32>, COLUMN_BLOCKS>;
    for (var j = 0u; j < COLUMN_BLOCKS; j++) { right[j] = b[(k * params.N + column + 4u * j) >> 2u]; }
    for (var i = 0u; i < ROW_BLOCKS; i++) {
      let at = (row + 4u * i) * params.K + k;
      let u = vec4<f32>(
        a_element(at), a_element(at + params.K), a_element(at + 2u * params.K), a_element(at + 3u * params.K),
      );
      for (var j = 0u; j < COLUMN_BLOCKS; j++) {
        let v = right[j];
        blocks[i * COLUMN_BLOCKS + j] += mat4x4<f32>(u.x * v, u.y * v, u.z * v, u.w * v);
      }
    }
  }
  for (var i = 0u; i < ROW_BLOCKS; i++) {
    for (var j = 0u; j < COLUMN_BLOCKS; j++) {
      for (var r = 0u; r < 4u; r++) {
        let y_row = row + 4u * i + r;
        let y_column = column + 4u * j;
        if (y_row < params.M && y_column < params.N) {
          y[(y_row * params.N + y_column) >> 2u] = blocks[i * COLUMN_BLOCKS + j][r];
        }
      }
    }
  }
}

// Column and row of an invocation in the grid of invocations.
fn place(index: u32, local: vec3<u32>) -> vec2<u32> {
  let row_group = index / params.column_groups;
  return vec2<u32>((index - row_group * params.column_groups) * 8u + local.x, row_group * 8u + local.y);
}

fn a_element(at: u32) -> f32 { return a[at >> 2u][at & 3u]; }
