// y = a x + y. One invocation makes one element.
override WORKGROUP: u32 = 64u;

struct Params {
  n: u32,
  a: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= params.n) { return; }
  y[i] = params.a * x[i] + y[i];
}
