// Wrong: % takes the sign of the dividend, numpy that of the divisor.
@group(0) @binding(0) var<storage, read> x: array<i32>;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&y)) { return; }
  y[i] = x[i] % 7;
}
