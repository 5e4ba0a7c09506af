@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  let n = arrayLength(&y);
  if (i >= n) { return; }
  y[i] = x[(i + n - 1u) % n] + x[(i + 1u) % n];
}
