// Wrong: a vec3 begins at byte 16; the host has it at 4.
struct Params {
  n: u32,
  direction: vec3<f32>,
  shift: f32,
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.n) { return; }
  y[id.x] = params.direction.x * f32(id.x) + params.shift;
}
