// Adam and AdamW; one invocation updates one element.
// update: g += l2 p; p -= lr decay p; m += (1 - beta1)(g - m); v += (1 - beta2)(g^2 - v);
//   p -= lr (m / c1) / (sqrt(v / c2) + eps), with c = 1 - beta^t.
// advance: t <- t + 1, c <- beta c + (1 - beta) for each parameter, 1 - beta rounded from float64 on the host.
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
  beta1: f32,
  one_minus_beta1: f32,
  beta2: f32,
  one_minus_beta2: f32,
  eps: f32,
  decay: f32,
  l2: f32,
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
@group(0) @binding(5) var<storage, read_write> first_moment: array<f32>;
@group(0) @binding(6) var<storage, read_write> second_moment: array<f32>;
@group(0) @binding(7) var<storage, read> verdict: vec2<u32>;
@group(0) @binding(1) var<storage, read_write> next_progress: array<Progress>;

@compute @workgroup_size(WORKGROUP)
fn update(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || verdict.x != 1u) { return; }
  let now = progress[params.slot];
  let g = gradient[i] + hyper.l2 * parameter[i];
  let p = parameter[i] - hyper.lr * hyper.decay * parameter[i];
  let m = first_moment[i] + hyper.one_minus_beta1 * (g - first_moment[i]);
  let v = second_moment[i] + hyper.one_minus_beta2 * (g * g - second_moment[i]);
  first_moment[i] = m;
  second_moment[i] = v;
  parameter[i] = p - hyper.lr * (m / now.c1) / (sqrt(v / now.c2) + hyper.eps);
}

@compute @workgroup_size(WORKGROUP)
fn advance(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || verdict.x != 1u) { return; }
  let now = next_progress[params.slot + i];
  let c1 = hyper.beta1 * now.c1 + hyper.one_minus_beta1;
  let c2 = hyper.beta2 * now.c2 + hyper.one_minus_beta2;
  next_progress[params.slot + i] = Progress(now.steps + 1.0, c1, c2);
}
