// Wrong: the transpose is stored with the stride of the input.
struct Params {
  rows: u32,
  cols: u32,
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.cols || id.y >= params.rows) { return; }
  y[id.x * params.cols + id.y] = x[id.y * params.cols + id.x];
}
