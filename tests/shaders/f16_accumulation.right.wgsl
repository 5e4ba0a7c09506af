enable f16;
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;

@compute @workgroup_size(1)
fn main() {
  var sum = 0.0f;
  for (var i = 0u; i < arrayLength(&x); i++) { sum += f32(x[i]); }
  y[0] = f16(sum);
}
