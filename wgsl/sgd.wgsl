// Stochastic gradient descent; one invocation updates one element.
// update: g += decay p; p -= lr g. momentum: v = momentum v + (1 - dampening) g, the first time v = g;
//   p -= lr v, or with Nesterov p -= lr (g + momentum v). advance: one step more for each parameter.
// What changes between two steps comes in buffers: `hyper` from the host; `progress`, one slot a parameter, from the
// device. Nothing is stored where the verdict on the gradients is not 1.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
  slot: u32,
}

struct Hyper {
  lr: f32,
  momentum: f32,
  one_minus_dampening: f32,
  decay: f32,
  nesterov: f32,
}

struct Progress {
  steps: f32,
  c1: f32,
  c2: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> parameter: array<f32>;
@group(0) @binding(2) var<storage, read> gradient: array<f32>;
@group(0) @binding(3) var<storage, read> hyper: Hyper;
@group(0) @binding(4) var<storage, read> progress: array<Progress>;
@group(0) @binding(5) var<storage, read_write> velocity: array<f32>;
@group(0) @binding(6) var<storage, read> verdict: vec2<u32>;
@group(0) @binding(1) var<storage, read_write> next_progress: array<Progress>;

@compute @workgroup_size(WORKGROUP)
fn update(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || verdict.x != 1u) { return; }
  let g = gradient[i] + hyper.decay * parameter[i];
  parameter[i] -= hyper.lr * g;
}

@compute @workgroup_size(WORKGROUP)
fn momentum(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || verdict.x != 1u) { return; }
  let g = gradient[i] + hyper.decay * parameter[i];
  let share = select(hyper.one_minus_dampening, 1.0, progress[params.slot].steps == 1.0);
  let v = hyper.momentum * velocity[i] + share * g;
  velocity[i] = v;
  parameter[i] -= hyper.lr * select(v, g + hyper.momentum * v, hyper.nesterov != 0.0);
}

@compute @workgroup_size(WORKGROUP)
fn advance(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || verdict.x != 1u) { return; }
  next_progress[params.slot + i].steps += 1.0;
}
