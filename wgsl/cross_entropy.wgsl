// Cross entropy of logits (rows, cols) with class indices (rows,): with m the largest of the row and
// l = log sum exp(x - m), loss = l - (x[target] - m). m + l is never formed: far from 0 it would round l away.
// Backward: dx = (exp(x - m - l) - [c == target]) dloss. dloss has one element per row, or one for all
// (`dloss_step` 0), and is multiplied by `scale`.
// A target outside 0 .. cols - 1 gives NaN, a gradient of 0, and puts the op's number, the target and cols into `fault`, once.
// One workgroup makes one row.
// uses: lib/exponential, lib/fault, lib/index, lib/numeric, lib/reduce

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  cols: u32,
  op: u32,
  dloss_step: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<i32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;
@group(0) @binding(4) var<storage, read_write> normalizer: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> fault: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> saved_normalizer: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> dloss: array<f32>;
@group(0) @binding(5) var<storage, read_write> dlogits: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups);
  if (row >= params.rows) { return; }
  let base = row * params.cols;
  var part = -infinity();
  for (var c = lane; c < params.cols; c += WORKGROUP) { part = larger(part, logits[base + c]); }
  let largest = workgroup_max(lane, part);
  part = 0.0;
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += exp_value(logits[base + c] - largest); }
  let log_sum = log_value(workgroup_sum(lane, part));
  if (lane != 0u) { return; }
  normalizer[row] = vec2<f32>(largest, log_sum);
  let goal = targets[row];
  if (in_range(goal)) {
    loss[row] = log_sum - (logits[base + u32(goal)] - largest);
  } else {
    loss[row] = not_a_number();
    report(goal, params.cols);
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
  let goal = targets[row];
  let saved = saved_normalizer[row];
  let factor = dloss[row * params.dloss_step] * params.scale;
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    let probability = exp_value(logits[base + c] - saved.x - saved.y);
    dlogits[base + c] = select((probability - select(0.0, 1.0, i32(c) == goal)) * factor, 0.0, !in_range(goal));
  }
}

fn in_range(goal: i32) -> bool { return goal >= 0 && u32(goal) < params.cols; }
