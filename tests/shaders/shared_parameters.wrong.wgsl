// Wrong: all workgroups write the same block of parameters.
// Each workgroup scales its row by parameters that it makes itself.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> parameters: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = group.x * 64u + lane;
  if (lane == 0u) { parameters[0] = f32(group.x + 1u); }
  if (i < arrayLength(&y)) { y[i] = f32(group.x + 1u) * x[i]; }
}
