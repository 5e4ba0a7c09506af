// Cross entropy of logits (rows, cols) with class indices (rows,): loss = logsumexp(x) - x[target], per row.
// Backward: dx = (exp(x - logsumexp(x)) - [c == target]) dloss. dloss has one element per row, or one for all
// (`dloss_step` 0), and is multiplied by `scale`.
// A target outside 0 .. cols - 1 gives NaN and puts the op's number, the target and cols into `fault`, once.
// One workgroup makes one row.
// uses: lib/index, lib/numeric, lib/reduce

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
@group(0) @binding(4) var<storage, read_write> log_sum: array<f32>;
@group(0) @binding(5) var<storage, read_write> fault: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> saved_log_sum: array<f32>;
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
  for (var c = lane; c < params.cols; c += WORKGROUP) { part += exp(logits[base + c] - largest); }
  let logsumexp = largest + log(workgroup_sum(lane, part));
  if (lane != 0u) { return; }
  log_sum[row] = logsumexp;
  let goal = targets[row];
  if (goal >= 0 && u32(goal) < params.cols) {
    loss[row] = logsumexp - logits[base + u32(goal)];
  } else {
    loss[row] = not_a_number();
    report(goal);
  }
}

// The first to report wins. The exchange may fail for no reason, so it is tried until someone has won.
fn report(goal: i32) {
  loop {
    let before = atomicCompareExchangeWeak(&fault[0], 0u, params.op);
    if (before.exchanged) {
      atomicStore(&fault[1], bitcast<u32>(goal));
      atomicStore(&fault[2], params.cols);
    }
    if (before.exchanged || before.old_value != 0u) { break; }
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
  let factor = dloss[row * params.dloss_step] * params.scale;
  for (var c = lane; c < params.cols; c += WORKGROUP) {
    let probability = exp(logits[base + c] - saved_log_sum[row]);
    dlogits[base + c] = (probability - select(0.0, 1.0, i32(c) == targets[row])) * factor;
  }
}
