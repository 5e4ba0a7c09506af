@group(0) @binding(0) var<storage, read> scale: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
var<workgroup> shared_scale: f32;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
  for (var row = 0u; row < arrayLength(&scale); row++) {
    if (lane == 0u) { shared_scale = scale[row]; }
    workgroupBarrier();
    let i = row * 64u + lane;
    if (i < arrayLength(&y)) { y[i] = shared_scale * x[i]; }
    workgroupBarrier();
  }
}
