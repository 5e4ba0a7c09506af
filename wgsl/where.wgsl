// y = a where the condition holds, else b; all three broadcast, a or b may be a number.
// Backward uses the same entry point: da = where(condition, dy, 0), db = where(condition, 0, dy).
// Elements are copied as words, so one pipeline serves every type and NaN keeps its bits.
// One invocation makes four elements.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  shape: array<vec4<u32>, 2>,
  condition_strides: array<vec4<u32>, 2>,
  a_strides: array<vec4<u32>, 2>,
  b_strides: array<vec4<u32>, 2>,
  size: u32,
  rank: u32,
  a_is_number: u32,
  b_is_number: u32,
  a_number: u32,
  b_number: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> condition: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> b: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<u32>>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let first = 4u * quad;
  let made = vec4<u32>(choose(first), choose(first + 1u), choose(first + 2u), choose(first + 3u));
  let rest = params.size - first;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}

fn choose(index: u32) -> u32 {
  let at = strided_offset(index, params.rank, params.shape, params.condition_strides);
  if (condition[at >> 2u][at & 3u] != 0u) {
    if (params.a_is_number != 0u) { return params.a_number; }
    let from_a = strided_offset(index, params.rank, params.shape, params.a_strides);
    return a[from_a >> 2u][from_a & 3u];
  }
  if (params.b_is_number != 0u) { return params.b_number; }
  let from_b = strided_offset(index, params.rank, params.shape, params.b_strides);
  return b[from_b >> 2u][from_b & 3u];
}
