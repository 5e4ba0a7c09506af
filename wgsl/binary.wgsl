// Elementwise functions of two arrays that broadcast against each other, or of an array and a number:
// y = f(a, b); dx = dy * df/da (left_backward) or dy * df/db (right_backward), in the broadcast shape.
// One invocation makes four elements. The prelude gives `elem` and `result`, the types of operands and of y, and
// `value`, `left`, `right`, the function and its two partial derivatives, from the library that it names. A function
// that takes a third number, the same for all elements, finds it as `params.constant`.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  shape: array<vec4<u32>, 2>,
  a_strides: array<vec4<u32>, 2>,
  b_strides: array<vec4<u32>, 2>,
  size: u32,
  rank: u32,
  a_mode: u32,
  b_mode: u32,
  number: elem,
  constant: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<elem>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<result>>;
@group(0) @binding(3) var<storage, read> dy: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dx: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let p = a_quad(quad);
  let q = b_quad(quad);
  let made = vec4<result>(value(p.x, q.x), value(p.y, q.y), value(p.z, q.z), value(p.w, q.w));
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}

@compute @workgroup_size(WORKGROUP)
fn left_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let p = a_quad(quad);
  let q = b_quad(quad);
  store_dx(quad, dy[quad] * vec4<f32>(left(p.x, q.x), left(p.y, q.y), left(p.z, q.z), left(p.w, q.w)));
}

@compute @workgroup_size(WORKGROUP)
fn right_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let p = a_quad(quad);
  let q = b_quad(quad);
  store_dx(quad, dy[quad] * vec4<f32>(right(p.x, q.x), right(p.y, q.y), right(p.z, q.z), right(p.w, q.w)));
}

fn store_dx(quad: u32, made: vec4<f32>) {
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { dx[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { dx[quad][c] = made[c]; }
}

const FLAT = 0u;
const STRIDED = 1u;

fn a_quad(quad: u32) -> vec4<elem> {
  if (params.a_mode == FLAT) { return a[quad]; }
  if (params.a_mode == STRIDED) {
    let first = 4u * quad;
    return vec4<elem>(a_element(first), a_element(first + 1u), a_element(first + 2u), a_element(first + 3u));
  }
  return vec4<elem>(params.number);
}

fn b_quad(quad: u32) -> vec4<elem> {
  if (params.b_mode == FLAT) { return b[quad]; }
  if (params.b_mode == STRIDED) {
    let first = 4u * quad;
    return vec4<elem>(b_element(first), b_element(first + 1u), b_element(first + 2u), b_element(first + 3u));
  }
  return vec4<elem>(params.number);
}

fn a_element(index: u32) -> elem {
  let at = strided_offset(index, params.rank, params.shape, params.a_strides);
  return a[at >> 2u][at & 3u];
}

fn b_element(index: u32) -> elem {
  let at = strided_offset(index, params.rank, params.shape, params.b_strides);
  return b[at >> 2u][at & 3u];
}
