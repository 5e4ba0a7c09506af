@group(0) @binding(0) var<storage, read> x: array<i32>;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&y)) { return; }
  let quotient = x[i] / 7;
  let rest = x[i] - 7 * quotient;
  y[i] = select(rest, rest + 7, rest < 0);
}
