// Movement of elements as words, whatever their type: y[i] = x[offset of i] (gather), y = x (duplicate), y = number
// (fill), and y[b, c, r] = x[b, r, c] (transpose), for which shape holds the extents of r, c and b.
// The backward of a permutation is the gather of the inverse one; that of a broadcast is a sum (reduction.wgsl).
// One invocation makes four elements; of a transpose, a block of 4 x 4.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  shape: array<vec4<u32>, 2>,
  strides: array<vec4<u32>, 2>,
  size: u32,
  rank: u32,
  number: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y_words: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn gather(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let first = 4u * quad;
  store(quad, vec4<u32>(element(first), element(first + 1u), element(first + 2u), element(first + 3u)));
}

@compute @workgroup_size(WORKGROUP)
fn duplicate(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  store(quad, x[quad]);
}

@compute @workgroup_size(WORKGROUP)
fn fill(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  store(quad, vec4<u32>(params.number));
}

@compute @workgroup_size(WORKGROUP)
fn transpose(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let rows = params.shape[0].x;
  let cols = params.shape[0].y;
  let row_blocks = (rows + 3u) / 4u;
  let block = group_index(group, groups) * WORKGROUP + lane;
  let line = block / row_blocks;
  let column_blocks = (cols + 3u) / 4u;
  let batch = line / column_blocks;
  if (batch >= params.shape[0].z) { return; }
  let row = 4u * (block - line * row_blocks);
  let col = 4u * (line - batch * column_blocks);
  let base = batch * rows * cols;
  let a = x_quad(base + row * cols + col, cols);
  let b = x_quad(base + min(row + 1u, rows - 1u) * cols + col, cols);
  let c = x_quad(base + min(row + 2u, rows - 1u) * cols + col, cols);
  let d = x_quad(base + min(row + 3u, rows - 1u) * cols + col, cols);
  for (var k = 0u; k < min(cols - col, 4u); k++) {
    let made = vec4<u32>(a[k], b[k], c[k], d[k]);
    let first = base + (col + k) * rows + row;
    for (var i = 0u; i < min(rows - row, 4u); i++) { y_words[first + i] = made[i]; }
  }
}

// Four words from `at` on; what lies past the end of a row is not stored.
fn x_quad(at: u32, cols: u32) -> vec4<u32> {
  if (cols % 4u == 0u) { return x[at >> 2u]; }
  return vec4<u32>(x_word(at), x_word(at + 1u), x_word(at + 2u), x_word(at + 3u));
}

fn x_word(at: u32) -> u32 { return x[at >> 2u][at & 3u]; }

fn element(index: u32) -> u32 {
  let at = strided_offset(index, params.rank, params.shape, params.strides);
  return x_word(at);
}

fn store(quad: u32, made: vec4<u32>) {
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}
