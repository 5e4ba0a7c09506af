// Softmax along the columns of (rows, cols): y = exp(x - m) / sum exp(x - m), m the largest of the row;
// log_softmax: y = x - m - log sum exp(x - m). A row of -inf alone has no distribution and gives NaN.
// Backward: dx = y (dy - sum(dy y)); of log_softmax: dx = dy - exp(y) sum(dy).
// One workgroup makes one row.
// uses: lib/exponential, lib/index, lib/numeric, lib/reduce

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  cols: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read> saved_y: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  let largest = row_max(base, lane);
  let total = row_sum_exp(base, lane, largest);
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    y[base + c] = exp_value(x[base + c] - largest) / total;
  }
}

@compute @workgroup_size(WORKGROUP)
fn log_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  let largest = row_max(base, lane);
  let log_total = log_value(row_sum_exp(base, lane, largest));
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    y[base + c] = x[base + c] - largest - log_total;
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
  var part = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += dy[base + c] * saved_y[base + c]; }
  let total = workgroup_sum(lane, part);
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    dx[base + c] = saved_y[base + c] * (dy[base + c] - total);
  }
}

@compute @workgroup_size(WORKGROUP)
fn log_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  var part = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += dy[base + c]; }
  let total = workgroup_sum(lane, part);
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    dx[base + c] = dy[base + c] - exp_value(saved_y[base + c]) * total;
  }
}

fn row_max(base: u32, lane: u32) -> f32 {
  var part = -infinity();
  for (var c = lane; c < params.cols; c += WORKGROUP) { part = larger(part, x[base + c]); }
  return workgroup_max(lane, part);
}

fn row_sum_exp(base: u32, lane: u32, largest: f32) -> f32 {
  var part = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += exp_value(x[base + c] - largest); }
  return workgroup_sum(lane, part);
}
