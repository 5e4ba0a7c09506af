// Layer norm of the rows of (rows, cols): with m the mean and v the variance of a row, xhat = (x - m) / sqrt(v + eps)
// and y = xhat weight + bias. Backward: with g = dy weight, dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(v + eps);
// dweight = dy xhat summed over rows; dbias = dy summed over rows (reduction.wgsl).
// m is kept as a sum of two floats, a mean and the mean of what it leaves: far from 0 one float would be off by much of
// the deviation. v by the corrected two-pass algorithm (Chan, Golub and LeVeque, 1983). `statistics` has the three
// numbers m, rest and 1 / sqrt(v + eps) of each row.
// One workgroup makes one row; weight_backward: one invocation sums a column over `chunk` rows.
// The prelude gives weight_at and bias_at: an element of `weight` and of `bias`, or 1 and 0.
// uses: lib/index, lib/reduce

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  cols: u32,
  chunk: u32,
  eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read_write> statistics: array<f32>;
@group(0) @binding(3) var<storage, read> saved_statistics: array<f32>;
@group(0) @binding(4) var<storage, read> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> dx: array<f32>;
@group(0) @binding(5) var<storage, read_write> dweight_parts: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  let count = f32(params.cols);
  var part = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += x[base + c]; }
  let mean = workgroup_sum(lane, part) / count;
  part = 0.0;
  var squares = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    let left = x[base + c] - mean;
    part += left;
    squares += left * left;
  }
  let rest = workgroup_sum(lane, part) / count;
  let variance = max(workgroup_sum(lane, squares) / count - rest * rest, 0.0);
  let factor = 1.0 / sqrt(variance + params.eps);
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    y[base + c] = ((x[base + c] - mean) - rest) * factor * weight_at(c) + bias_at(c);
  }
  if (lane == 0u) {
    statistics[3u * row] = mean;
    statistics[3u * row + 1u] = rest;
    statistics[3u * row + 2u] = factor;
  }
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  let count = f32(params.cols);
  var part = 0.0;
  var weighted = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    let g = dy[base + c] * weight_at(c);
    part += g;
    weighted += g * normalized(row, c);
  }
  let mean = workgroup_sum(lane, part) / count;
  let slope = workgroup_sum(lane, weighted) / count;
  let factor = saved_statistics[3u * row + 2u];
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    dx[base + c] = (dy[base + c] * weight_at(c) - mean - normalized(row, c) * slope) * factor;
  }
}

const BLOCK = 16u;

@compute @workgroup_size(WORKGROUP)
fn weight_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  let first = index / params.cols * params.chunk;
  if (first >= params.rows) { return; }
  let c = index - index / params.cols * params.cols;
  let last = min(first + params.chunk, params.rows);
  // Blocks of sixteen keep the running total from swallowing small terms.
  var total = 0.0;
  for (var block = first; block < last; block += BLOCK) {
    var part = 0.0;
    for (var row = block; row < min(block + BLOCK, last); row++) {
      part += dy[row * params.cols + c] * normalized(row, c);
    }
    total += part;
  }
  dweight_parts[index] = total;
}

fn normalized(row: u32, c: u32) -> f32 {
  let left = x[row * params.cols + c] - saved_statistics[3u * row];
  return (left - saved_statistics[3u * row + 1u]) * saved_statistics[3u * row + 2u];
}
