// Wrong: a barrier orders one workgroup, not several.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  if (lane == 0u) {
    var sum = 0.0;
    for (var i = group.x * 64u; i < min(group.x * 64u + 64u, arrayLength(&x)); i++) { sum += x[i]; }
    y[group.x] = sum;
  }
  storageBarrier();
  if (lane == 0u && group.x == groups.x - 1u) {
    var total = 0.0;
    for (var k = 0u; k < groups.x; k++) { total += y[k]; }
    for (var k = 0u; k < groups.x; k++) { y[k] = total; }
  }
}
