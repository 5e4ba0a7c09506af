// Elementwise functions of one array: y = f(x); dx = dy * f'(x), the slope taken from what was saved, x or y.
// One invocation makes four elements. The prelude gives `elem` and `result`, the types of x and of y, and `value` and
// `slope` from the library that it names. What a function takes besides x, the same for all elements, it finds as
// `params.first`, `params.second` and `params.third`.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
  first: f32,
  second: f32,
  third: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<result>>;
@group(0) @binding(1) var<storage, read> dy: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> saved: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dx: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let v = x[quad];
  let made = vec4<result>(value(v.x), value(v.y), value(v.z), value(v.w));
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let v = saved[quad];
  let made = dy[quad] * vec4<f32>(slope(v.x), slope(v.y), slope(v.z), slope(v.w));
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { dx[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { dx[quad][c] = made[c]; }
}
