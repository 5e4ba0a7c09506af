// What is done to gradients before an update.
// accumulate: y += x. scale: y *= coefficient, or y = y / m * coefficient where m is not 0. clamp_value: y <- max(-bound, min(y, bound)), NaN stays.
// norm_parts: one workgroup takes CHUNK elements to (m, s), m = max |y|, s = sum (y / m)^2, which does not overflow.
// norm_total: one workgroup takes all parts to m sqrt(s) and to the coefficient min(1, max_norm / (norm + 1e-6)).
// verdict_begin: the verdict is 1 again, and a skipped step is counted. verdict_check: 0 where y is not finite.
// uses: lib/index, lib/numeric, lib/reduce

override WORKGROUP: u32 = 64u;
override CHUNK: u32 = 4096u;

struct Params {
  size: u32,
  first: u32,
  bound: f32,
}

struct Norm {
  norm: f32,
  coefficient: f32,
  m: f32,
}

struct Verdict {
  ok: atomic<u32>,
  skipped: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> gradient: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> total: Norm;
@group(0) @binding(2) var<storage, read_write> parts: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> next_total: Norm;
@group(0) @binding(3) var<storage, read_write> verdict: Verdict;

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
fn scale(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  y[i] = select(y[i], y[i] / total.m, total.m != 0.0) * total.coefficient;
}

@compute @workgroup_size(WORKGROUP)
fn clamp_value(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size || is_nan(y[i])) { return; }
  y[i] = clamp(y[i], -params.bound, params.bound);
}

@compute @workgroup_size(WORKGROUP)
fn norm_parts(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = group_index(group, groups);
  if (part * CHUNK >= params.size) { return; }
  let end = min(params.size - part * CHUNK, CHUNK);
  var largest = 0.0;
  for (var i = lane; i < end; i += WORKGROUP) { largest = larger(largest, abs(gradient[part * CHUNK + i])); }
  let m = workgroup_max(lane, largest);
  var sum = 0.0;
  for (var i = lane; i < end; i += WORKGROUP) { sum += squared_ratio(gradient[part * CHUNK + i], m); }
  let s = workgroup_sum(lane, sum);
  if (lane == 0u) { parts[params.first + part] = vec2<f32>(m, s); }
}

@compute @workgroup_size(WORKGROUP)
fn norm_total(@builtin(local_invocation_index) lane: u32) {
  var largest = 0.0;
  for (var i = lane; i < params.size; i += WORKGROUP) { largest = larger(largest, parts[i].x); }
  let m = workgroup_max(lane, largest);
  var sum = 0.0;
  for (var i = lane; i < params.size; i += WORKGROUP) { sum += parts[i].y * squared_ratio(parts[i].x, m); }
  let s = workgroup_sum(lane, sum);
  if (lane == 0u) {
    let norm = m * sqrt(s);
    // The norm of finite gradients may be past the range of f32, and what it divides by a denormal: two factors then.
    let is_wide = norm >= infinity() && m < infinity();
    let coefficient = params.bound / (norm + 1e-6);
    next_total = Norm(norm, select(coefficient, 1.0, coefficient > 1.0), 0.0);
    if (is_wide) { next_total = Norm(norm, params.bound / sqrt(s), m); }
  }
}

@compute @workgroup_size(1)
fn verdict_begin() {
  verdict.skipped += 1u - atomicLoad(&verdict.ok);
  atomicStore(&verdict.ok, 1u);
}

@compute @workgroup_size(WORKGROUP)
fn verdict_check(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.size) { return; }
  if ((bitcast<u32>(gradient[i]) & 0x7f800000u) == 0x7f800000u) { atomicStore(&verdict.ok, 0u); }
}

// (x / m)^2; 0 where all is 0, 1 for the infinite among infinite, NaN for NaN.
fn squared_ratio(x: f32, m: f32) -> f32 {
  if (m == 0.0) { return 0.0; }
  if (m >= infinity()) { return select(0.0, 1.0, abs(x) >= m); }
  let ratio = x / m;
  return ratio * ratio;
}
