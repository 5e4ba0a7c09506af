// Two dispatches in the right program; here one workgroup does it all.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> parts: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  if (group.x > 0u) { return; }
  var sum = 0.0;
  for (var i = lane; i < arrayLength(&x); i += 64u) { sum += x[i]; }
  parts[lane] = sum;
  workgroupBarrier();
  if (lane == 0u) {
    var total = 0.0;
    for (var k = 0u; k < 64u; k++) { total += parts[k]; }
    for (var k = 0u; k < arrayLength(&y); k++) { y[k] = total; }
  }
}
