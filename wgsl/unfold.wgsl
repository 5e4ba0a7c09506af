// The windows of images as columns: y_n(c, t)p = x_ncq, q = p stride - pad + t dilation, outside of the image 0; of
// x (N, C, H, W), y (N, C taps, positions). Backward, and fold: dx_ncq = sum of dy_n(c, t)p over the t and p that meet q.
// One invocation makes four neighbouring elements of a row of y, or of a channel of x.
// uses: lib/index, lib/window

override WORKGROUP: u32 = 64u;

struct Params {
  items: u32,
  quads: u32,
  volume: u32,
  positions: u32,
  taps: vec4<u32>,
  source_extents: vec4<u32>,
  result_extents: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
  dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let row = index / params.quads;
  let first = (index - row * params.quads) * 4u;
  let channel = row / params.taps.w;
  let tap = coordinates(vec4<u32>(row - channel * params.taps.w), params.taps);
  let offset = vec3<u32>(tap.w.x, tap.h.x, tap.d.x) * params.dilation.xyz;
  let at = coordinates(first + vec4<u32>(0u, 1u, 2u, 3u), params.result_extents);
  let found = met(window_start(at, params.stride, params.pad), offset, params.source_extents);
  for (var i = 0u; i < min(params.positions - first, 4u); i++) {
    let element = x[channel * params.volume + found.at[i]];
    y[row * params.positions + first + i] = select(0.0, element, found.there[i]);
  }
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let channel = index / params.quads;
  let first = (index - channel * params.quads) * 4u;
  let at = coordinates(first + vec4<u32>(0u, 1u, 2u, 3u), params.source_extents);
  var total = vec4<f32>();
  var tap = vec3<u32>();
  for (var number = 0u; number < params.taps.w; number++) {
    let offset = tap * params.dilation.xyz;
    let found = met_backward(at, offset, params.result_extents, params.stride, params.pad);
    let i = (channel * params.taps.w + number) * params.positions + found.at;
    total += select(vec4<f32>(), vec4<f32>(dy[i.x], dy[i.y], dy[i.z], dy[i.w]), found.there);
    tap = next_tap(tap, params.taps);
  }
  for (var i = 0u; i < min(params.volume - first, 4u); i++) { dx[channel * params.volume + first + i] = total[i]; }
}
