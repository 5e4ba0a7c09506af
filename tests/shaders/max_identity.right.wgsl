@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> parts: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = group.x * 64u + lane;
  parts[lane] = -3.4e38;
  if (i < arrayLength(&x)) { parts[lane] = x[i]; }
  workgroupBarrier();
  for (var width = 32u; width > 0u; width /= 2u) {
    if (lane < width) { parts[lane] = max(parts[lane], parts[lane + width]); }
    workgroupBarrier();
  }
  if (lane == 0u) { y[group.x] = parts[0]; }
}
