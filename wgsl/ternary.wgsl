// Elementwise functions of three floats that broadcast, each an array or a number: y = f(a, b, c); the gradient of an
// operand is dy times its partial derivative, in the broadcast shape. One invocation makes one element.
// lerp: a + c (b - a), from the end that is nearer. addcmul: a + constant b c.
// The prelude gives `value`, `first`, `second` and `third`, the function and its partial derivatives from below.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  shape: array<vec4<u32>, 2>,
  a_strides: array<vec4<u32>, 2>,
  b_strides: array<vec4<u32>, 2>,
  c_strides: array<vec4<u32>, 2>,
  size: u32,
  rank: u32,
  a_is_number: u32,
  b_is_number: u32,
  c_is_number: u32,
  a_number: f32,
  b_number: f32,
  c_number: f32,
  constant: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> c: array<f32>;
@group(0) @binding(4) var<storage, read> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  y[index] = value(a_at(index), b_at(index), c_at(index));
}

@compute @workgroup_size(WORKGROUP)
fn first_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  y[index] = dy[index] * first(a_at(index), b_at(index), c_at(index));
}

@compute @workgroup_size(WORKGROUP)
fn second_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  y[index] = dy[index] * second(a_at(index), b_at(index), c_at(index));
}

@compute @workgroup_size(WORKGROUP)
fn third_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  y[index] = dy[index] * third(a_at(index), b_at(index), c_at(index));
}

fn a_at(index: u32) -> f32 {
  if (params.a_is_number != 0u) { return params.a_number; }
  return a[strided_offset(index, params.rank, params.shape, params.a_strides)];
}

fn b_at(index: u32) -> f32 {
  if (params.b_is_number != 0u) { return params.b_number; }
  return b[strided_offset(index, params.rank, params.shape, params.b_strides)];
}

fn c_at(index: u32) -> f32 {
  if (params.c_is_number != 0u) { return params.c_number; }
  return c[strided_offset(index, params.rank, params.shape, params.c_strides)];
}

fn lerp_value(p: f32, q: f32, r: f32) -> f32 { return select(q - (q - p) * (1.0 - r), p + r * (q - p), r < 0.5); }
fn lerp_first(p: f32, q: f32, r: f32) -> f32 { return 1.0 - r; }
fn lerp_second(p: f32, q: f32, r: f32) -> f32 { return r; }
fn lerp_third(p: f32, q: f32, r: f32) -> f32 { return q - p; }

fn addcmul_value(p: f32, q: f32, r: f32) -> f32 { return p + params.constant * q * r; }
fn addcmul_first(p: f32, q: f32, r: f32) -> f32 { return 1.0; }
fn addcmul_second(p: f32, q: f32, r: f32) -> f32 { return params.constant * r; }
fn addcmul_third(p: f32, q: f32, r: f32) -> f32 { return params.constant * q; }
