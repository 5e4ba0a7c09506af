// In-place updates; one invocation updates one element.
// accumulate: y += x.
// sgd: g += decay p; p -= lr g. sgd_momentum: v = momentum v + (1 - dampening) g, the first time v = g;
//   p -= lr v, or with Nesterov p -= lr (g + momentum v).
// adamw: p -= lr decay p; m += (1 - beta1)(g - m); v += (1 - beta2)(g^2 - v);
//   p -= lr (m / c1) / (sqrt(v / c2) + eps), with c = 1 - beta^t.
// What changes between two steps comes in buffers: `hyper` from the host; `progress`, one slot a parameter, from the
// device, where the advance entry points move it: t <- t + 1, c <- beta c + (1 - beta), 1 - beta rounded from float64.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
  slot: u32,
}

struct SGDHyper {
  lr: f32,
  momentum: f32,
  one_minus_dampening: f32,
  decay: f32,
  nesterov: f32,
}

struct AdamWHyper {
  lr: f32,
  beta1: f32,
  one_minus_beta1: f32,
  beta2: f32,
  one_minus_beta2: f32,
  eps: f32,
  decay: f32,
}

struct Progress {
  steps: f32,
  c1: f32,
  c2: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> parameter: array<f32>;
@group(0) @binding(2) var<storage, read> gradient: array<f32>;
@group(0) @binding(3) var<storage, read> sgd_hyper: SGDHyper;
@group(0) @binding(4) var<storage, read> sgd_progress: array<Progress>;
@group(0) @binding(5) var<storage, read_write> velocity: array<f32>;
@group(0) @binding(3) var<storage, read> adamw_hyper: AdamWHyper;
@group(0) @binding(4) var<storage, read> adamw_progress: array<Progress>;
@group(0) @binding(5) var<storage, read_write> first_moment: array<f32>;
@group(0) @binding(6) var<storage, read_write> second_moment: array<f32>;
@group(0) @binding(1) var<storage, read_write> progress: array<Progress>;
@group(0) @binding(2) var<storage, read> hyper: AdamWHyper;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn accumulate(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  y[i] += x[i];
}

@compute @workgroup_size(WORKGROUP)
fn sgd(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  let g = gradient[i] + sgd_hyper.decay * parameter[i];
  parameter[i] -= sgd_hyper.lr * g;
}

@compute @workgroup_size(WORKGROUP)
fn sgd_momentum(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  let g = gradient[i] + sgd_hyper.decay * parameter[i];
  let share = select(sgd_hyper.one_minus_dampening, 1.0, sgd_progress[params.slot].steps == 1.0);
  let v = sgd_hyper.momentum * velocity[i] + share * g;
  velocity[i] = v;
  parameter[i] -= sgd_hyper.lr * select(v, g + sgd_hyper.momentum * v, sgd_hyper.nesterov != 0.0);
}

@compute @workgroup_size(WORKGROUP)
fn adamw(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  let g = gradient[i];
  let p = parameter[i] - adamw_hyper.lr * adamw_hyper.decay * parameter[i];
  let m = first_moment[i] + adamw_hyper.one_minus_beta1 * (g - first_moment[i]);
  let v = second_moment[i] + adamw_hyper.one_minus_beta2 * (g * g - second_moment[i]);
  first_moment[i] = m;
  second_moment[i] = v;
  parameter[i] = p - adamw_hyper.lr * (m / adamw_progress[params.slot].c1) / (sqrt(v / adamw_progress[params.slot].c2) + adamw_hyper.eps);
}

@compute @workgroup_size(WORKGROUP)
fn sgd_advance(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  progress[params.slot + i].steps += 1.0;
}

@compute @workgroup_size(WORKGROUP)
fn adamw_advance(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  let now = progress[params.slot + i];
  let c1 = hyper.beta1 * now.c1 + hyper.one_minus_beta1;
  let c2 = hyper.beta2 * now.c2 + hyper.one_minus_beta2;
  progress[params.slot + i] = Progress(now.steps + 1.0, c1, c2);
}
