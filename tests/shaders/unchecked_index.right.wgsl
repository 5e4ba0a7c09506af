@group(0) @binding(0) var<storage, read> table: array<f32>;
@group(0) @binding(1) var<storage, read> index: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&y)) { return; }
  let place = index[i];
  if (place >= arrayLength(&table)) {
    y[i] = 0.0;
    return;
  }
  y[i] = table[place];
}
