// Elementwise functions of two arrays that broadcast against each other, or of an array and a number:
// y = f(a, b); dx = dy * df/da (left_backward) or dy * df/db (right_backward), in the broadcast shape.
// One invocation makes four elements. The prelude gives `elem` and `result`, the types of operands and of y, and
// `value`, `left`, `right`, the function and its two partial derivatives from the families below.
// uses: lib/index, lib/numeric

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

// Arithmetic. add passes dy through on both sides and subtract on its left, so they have fewer derivatives.
fn add_value(p: elem, q: elem) -> elem { return p + q; }

fn subtract_value(p: elem, q: elem) -> elem { return p - q; }

fn multiply_value(p: elem, q: elem) -> elem { return p * q; }
fn multiply_left(p: elem, q: elem) -> f32 { return f32(q); }
fn multiply_right(p: elem, q: elem) -> f32 { return f32(p); }

fn divide_value(p: elem, q: elem) -> elem { return p / q; }
fn divide_left(p: elem, q: elem) -> f32 { return 1.0 / f32(q); }
fn divide_right(p: elem, q: elem) -> f32 { return -(f32(p) / f32(q)) / f32(q); }

// Comparisons: 1 or 0, and 0 where an operand is NaN, except not_equal, which is 1 there.
fn ordered(p: elem, q: elem) -> bool { return !(is_nan(f32(p)) || is_nan(f32(q))); }

fn equal_value(p: elem, q: elem) -> u32 { return u32(p == q && ordered(p, q)); }
fn not_equal_value(p: elem, q: elem) -> u32 { return u32(p != q || !ordered(p, q)); }
fn less_value(p: elem, q: elem) -> u32 { return u32(p < q && ordered(p, q)); }
fn less_equal_value(p: elem, q: elem) -> u32 { return u32(p <= q && ordered(p, q)); }
fn greater_value(p: elem, q: elem) -> u32 { return u32(p > q && ordered(p, q)); }
fn greater_equal_value(p: elem, q: elem) -> u32 { return u32(p >= q && ordered(p, q)); }

// 1 where an element reached the extreme of its slice, NaN counting as equal to NaN: the backward of max.
fn tie_value(p: elem, q: elem) -> f32 {
  return select(0.0, 1.0, p == q || (is_nan(f32(p)) && is_nan(f32(q))));
}
