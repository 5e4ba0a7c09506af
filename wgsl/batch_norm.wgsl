// Batch norm of x (N, C, V), V positions: with m the mean and v the variance of a channel over its n = N V elements,
// xhat = (x - m) / sqrt(v + eps) and y = xhat weight + bias. Backward: dbias = sum of dy, dweight = sum of dy xhat over
// the channel, dx = weight (dy - dbias / n - xhat dweight / n) / sqrt(v + eps).
// `statistics` has three numbers a channel: m as the sum of two floats, since far from 0 one would be off by much of the
// deviation, and v. They come from parts of `chunk` elements, by the corrected two-pass algorithm, and are merged by the
// pairwise formula (Chan, Golub and LeVeque, 1983).
// statistics_parts, gradient_parts: one workgroup makes a part of a channel. statistics_total: one workgroup merges the
// parts of a channel. forward, backward: one invocation makes one element. The gradient's parts are summed by
// reduction.wgsl.
// The prelude gives weight_at and bias_at: an element of `weight` and of `bias`, or 1 and 0.
// uses: lib/index, lib/reduce

override WORKGROUP: u32 = 64u;

struct Params {
  channels: u32,
  volume: u32,
  count: u32,
  items: u32,
  chunk: u32,
  parts: u32,
  eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> statistics: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> dx: array<f32>;
@group(0) @binding(6) var<storage, read> dweight: array<f32>;
@group(0) @binding(7) var<storage, read> dbias: array<f32>;
@group(0) @binding(6) var<storage, read_write> dweight_parts: array<f32>;
@group(0) @binding(7) var<storage, read_write> dbias_parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> made_parts: array<f32>;
@group(0) @binding(1) var<storage, read> statistics_of_parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> made_statistics: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn statistics_parts(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups);
  let channel = index / params.parts;
  if (channel >= params.channels) { return; }
  let first = (index - channel * params.parts) * params.chunk;
  let last = min(first + params.chunk, params.count);
  let n = f32(last - first);
  var part = 0.0;
  for (var i = first + lane; i < last; i += WORKGROUP) { part += x[address(channel, i)]; }
  let mean = workgroup_sum(lane, part) / n;
  part = 0.0;
  var squares = 0.0;
  for (var i = first + lane; i < last; i += WORKGROUP) {
    let left = x[address(channel, i)] - mean;
    part += left;
    squares += left * left;
  }
  let rest = workgroup_sum(lane, part) / n;
  let deviations = workgroup_sum(lane, squares) - n * rest * rest;
  if (lane == 0u) {
    made_parts[3u * index] = mean;
    made_parts[3u * index + 1u] = rest;
    made_parts[3u * index + 2u] = max(deviations, 0.0);
  }
}

@compute @workgroup_size(WORKGROUP)
fn statistics_total(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let channel = group_index(group, groups);
  if (channel >= params.channels) { return; }
  let base = channel * params.parts;
  var sum = 0.0;
  for (var i = lane; i < params.parts; i += WORKGROUP) { sum += statistics_of_parts[3u * (base + i)] * share(i); }
  let mean = workgroup_sum(lane, sum);
  sum = 0.0;
  for (var i = lane; i < params.parts; i += WORKGROUP) {
    let at = 3u * (base + i);
    sum += ((statistics_of_parts[at] - mean) + statistics_of_parts[at + 1u]) * share(i);
  }
  let rest = workgroup_sum(lane, sum);
  sum = 0.0;
  for (var i = lane; i < params.parts; i += WORKGROUP) {
    let at = 3u * (base + i);
    let apart = ((statistics_of_parts[at] - mean) - rest) + statistics_of_parts[at + 1u];
    sum += statistics_of_parts[at + 2u] / f32(params.count) + apart * apart * share(i);
  }
  let variance = workgroup_sum(lane, sum);
  if (lane == 0u) {
    made_statistics[3u * channel] = mean;
    made_statistics[3u * channel + 1u] = rest;
    made_statistics[3u * channel + 2u] = variance;
  }
}

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let channel = index / params.volume % params.channels;
  y[index] = normalized(index, channel) * weight_at(channel) + bias_at(channel);
}

@compute @workgroup_size(WORKGROUP)
fn gradient_parts(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups);
  let channel = index / params.parts;
  if (channel >= params.channels) { return; }
  let part = index - channel * params.parts;
  let last = min((part + 1u) * params.chunk, params.count);
  var sum = 0.0;
  var products = 0.0;
  for (var i = part * params.chunk + lane; i < last; i += WORKGROUP) {
    let at = address(channel, i);
    sum += dy[at];
    products += dy[at] * normalized(at, channel);
  }
  let whole = workgroup_sum(lane, sum);
  let whole_products = workgroup_sum(lane, products);
  if (lane == 0u) {
    dbias_parts[part * params.channels + channel] = whole;
    dweight_parts[part * params.channels + channel] = whole_products;
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
  let channel = index / params.volume % params.channels;
  let n = f32(params.count);
  let left = (dy[index] - dbias[channel] / n) - normalized(index, channel) * (dweight[channel] / n);
  dx[index] = left * weight_at(channel) / deviation(channel);
}

// Element i of a channel, in memory order.
fn address(channel: u32, i: u32) -> u32 {
  let n = i / params.volume;
  return (n * params.channels + channel) * params.volume + i - n * params.volume;
}

fn deviation(channel: u32) -> f32 { return sqrt(statistics[3u * channel + 2u] + params.eps); }

fn normalized(at: u32, channel: u32) -> f32 {
  return ((x[at] - statistics[3u * channel]) - statistics[3u * channel + 1u]) / deviation(channel);
}

// What part i has of a channel.
fn share(i: u32) -> f32 {
  return f32(min(params.chunk, params.count - i * params.chunk)) / f32(params.count);
}
