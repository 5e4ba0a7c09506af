// Convolution in groups so small that a block of a matrix product would be mostly empty; above all depthwise, where
// each channel is a group. Formulas and names are those of conv.wgsl.
// forward, input_backward: one invocation makes four neighbouring positions of one channel, so that they share a weight.
// weight_backward: one workgroup makes four taps of dweight from `chunk` positions of all images; the sums of all chunks
// lie one after the other in dweight_parts and are added by reduction.wgsl.
// What is too much work for one dispatch comes in several, each from `first_group` on.
// uses: lib/index, lib/reduce, lib/window

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  terms: u32,
  channels: u32,
  quads: u32,
  items: u32,
  first_group: u32,
  positions: u32,
  chunk: u32,
  parts: u32,
  groups: u32,
  row_stride: u32,
  term_stride: u32,
  source_volume: u32,
  result_volume: u32,
  taps: vec4<u32>,
  source_extents: vec4<u32>,
  result_extents: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
  dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dweight_parts: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (params.first_group + group_index(group, groups)) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let quad = place(index);
  store(quad, product(quad, false));
}

@compute @workgroup_size(WORKGROUP)
fn bias_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (params.first_group + group_index(group, groups)) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let quad = place(index);
  store(quad, product(quad, false) + bias[quad.channel]);
}

@compute @workgroup_size(WORKGROUP)
fn input_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (params.first_group + group_index(group, groups)) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let quad = place(index);
  store(quad, product(quad, true));
}

@compute @workgroup_size(WORKGROUP)
fn weight_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = params.first_group + group_index(group, groups);
  let volume = params.taps.w;
  let tap_quads = (volume + 3u) / 4u;
  let line = index / tap_quads;
  let part = line / (params.channels * params.terms);
  if (part >= params.parts) { return; }
  let first = (index - line * tap_quads) * 4u;
  let pair = line - part * params.channels * params.terms;
  let channel = pair / params.terms;
  let channel_group = channel / params.rows;
  let term = channel_group * params.terms + pair - channel * params.terms;
  let taps = coordinates(first + vec4<u32>(0u, 1u, 2u, 3u), params.taps);
  let dilation = params.dilation;
  let offset = Coordinates(taps.w * dilation.x, taps.h * dilation.y, taps.d * dilation.z);
  let last = min((part + 1u) * params.chunk, params.positions);
  var total = vec4<f32>();
  for (var position = part * params.chunk + lane; position < last; position += WORKGROUP) {
    let n = position / params.result_volume;
    let p = position - n * params.result_volume;
    let start = window_start(coordinates(vec4<u32>(p), params.result_extents), params.stride, params.pad);
    let met_by_taps = Coordinates(start.w + offset.w, start.h + offset.h, start.d + offset.d);
    let found = met(met_by_taps, vec3<u32>(), params.source_extents);
    let i = (n * params.groups * params.terms + term) * params.source_volume + found.at;
    let elements = vec4<f32>(source[i.x], source[i.y], source[i.z], source[i.w]);
    let gradient = dy[(n * params.channels + channel) * params.result_volume + p];
    total += select(vec4<f32>(), elements, found.there) * gradient;
  }
  for (var i = 0u; i < 4u; i++) {
    let made = workgroup_sum(lane, total[i]);
    if (lane == 0u && first + i < volume) { dweight_parts[line * volume + first + i] = made; }
  }
}

// Four neighbouring positions of one channel of one image.
struct Quad {
  image: u32,
  channel: u32,
  position: u32,
}

fn place(index: u32) -> Quad {
  let plane = index / params.quads;
  let image = plane / params.channels;
  return Quad(image, plane - image * params.channels, (index - plane * params.quads) * 4u);
}

fn product(quad: Quad, backward: bool) -> vec4<f32> {
  let channel_group = quad.channel / params.rows;
  let row = quad.channel - channel_group * params.rows;
  let at = coordinates(quad.position + vec4<u32>(0u, 1u, 2u, 3u), params.result_extents);
  let start = window_start(at, params.stride, params.pad);
  let volume = params.taps.w;
  let weights = channel_group * params.rows * params.terms + row * params.row_stride;
  let base = (quad.image * params.groups + channel_group) * params.terms * params.source_volume;
  var total = vec4<f32>();
  var block = vec4<f32>();
  var tap = vec3<u32>();
  for (var number = 0u; number < volume; number++) {
    let offset = tap * params.dilation.xyz;
    var found: Met;
    if (backward) {
      found = met_backward(at, offset, params.source_extents, params.stride, params.pad);
    } else {
      found = met(start, offset, params.source_extents);
    }
    var part = vec4<f32>();
    for (var term = 0u; term < params.terms; term++) {
      let i = base + term * params.source_volume + found.at;
      let elements = vec4<f32>(source[i.x], source[i.y], source[i.z], source[i.w]);
      part += weight[(weights + term * params.term_stride) * volume + number] * select(vec4<f32>(), elements, found.there);
    }
    block += part;
    tap = next_tap(tap, params.taps);
    if ((number & 63u) == 63u) { // so that many taps do not swallow small ones
      total += block;
      block = vec4<f32>();
    }
  }
  return total + block;
}

fn store(quad: Quad, made: vec4<f32>) {
  let plane = quad.image * params.channels + quad.channel;
  let at = plane * params.result_volume + quad.position;
  for (var i = 0u; i < min(params.result_volume - quad.position, 4u); i++) { result[at + i] = made[i]; }
}
