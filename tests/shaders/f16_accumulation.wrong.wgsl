// Wrong: a sum in f16 stops growing at 2048.
enable f16;
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;

@compute @workgroup_size(1)
fn main() {
  var sum = 0.0h;
  for (var i = 0u; i < arrayLength(&x); i++) { sum += x[i]; }
  y[0] = sum;
}
