// Change of element type: y = goal(x). float32 to an integer cuts towards zero, stops at the ends of the range and
// makes 0 of NaN; anything to bool is "not zero". The backward of a float-to-float cast is the cast back.
// One invocation makes four elements. The prelude gives `source`, `goal` and `convert`, a function from below.
// uses: lib/index, lib/numeric

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<source>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<goal>>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let v = x[quad];
  let made = vec4<goal>(convert(v.x), convert(v.y), convert(v.z), convert(v.w));
  let rest = params.size - 4u * quad;
  if (rest >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < rest; c++) { y[quad][c] = made[c]; }
}

fn to_float32(x: source) -> f32 { return f32(x); }

fn to_bool(x: source) -> u32 { return u32(x != source(0) || is_nan(f32(x))); }

fn integer_to_int32(x: source) -> i32 { return bitcast<i32>(x); }
fn integer_to_uint32(x: source) -> u32 { return bitcast<u32>(x); }

// 2147483520 and 4294967040 are the largest floats below the ends of the two ranges.
fn float32_to_int32(x: source) -> i32 {
  let v = f32(x);
  if (is_nan(v)) { return 0; }
  if (v >= 2147483648.0) { return 2147483647; }
  return i32(clamp(v, -2147483648.0, 2147483520.0));
}

fn float32_to_uint32(x: source) -> u32 {
  let v = f32(x);
  if (is_nan(v)) { return 0u; }
  if (v >= 4294967296.0) { return 4294967295u; }
  return u32(clamp(v, 0.0, 4294967040.0));
}
