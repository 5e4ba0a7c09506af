// Gated activations: x is halved along an axis into a and b, y = a f(b); da = dy f(b), db = dy a f'(b).
// x is (outer, 2, half), y (outer, half), half counting what follows the axis too. One invocation makes one element of y,
// or the two of dx that belong to it. The prelude gives `gate` and `gate_slope`, f and its slope.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
  half: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let at = index + index / params.half * params.half;
  y[index] = x[at] * gate(x[at + params.half]);
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let at = index + index / params.half * params.half;
  let b = x[at + params.half];
  dx[at] = dy[index] * gate(b);
  dx[at + params.half] = dy[index] * x[at] * gate_slope(b);
}
