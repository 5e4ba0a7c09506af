// Movement between regions of two arrays, elements as words, whatever their type:
// y[y_offset + i . y_strides] = x[x_offset + i . x_strides] for every i in a box of `shape`.
// Strides and offsets are words of a ring: negative ones are their two's complement. Slices, flips and diagonals have a
// dense y; concat, padding and the backward of a slice, a store into zeros, have a dense x. No two i meet in y.
// One invocation moves one element.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  shape: array<vec4<u32>, 2>,
  x_strides: array<vec4<u32>, 2>,
  y_strides: array<vec4<u32>, 2>,
  size: u32,
  rank: u32,
  x_offset: u32,
  y_offset: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let to = params.y_offset + strided_offset(index, params.rank, params.shape, params.y_strides);
  y[to] = x[params.x_offset + strided_offset(index, params.rank, params.shape, params.x_strides)];
}
