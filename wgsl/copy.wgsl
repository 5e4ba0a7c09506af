// Movement of elements as words, whatever their type: y[i] = x[offset of i] (gather), y = x (duplicate), y = number (fill).
// The backward of a permutation is the gather of the inverse one; that of a broadcast is a sum (reduction.wgsl).
// One invocation makes four elements.
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

fn element(index: u32) -> u32 {
  let at = strided_offset(index, params.rank, params.shape, params.strides);
  return x[at >> 2u][at & 3u];
}

fn store(quad: u32, made: vec4<u32>) {
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}
