// Provides: <name>_value and <name>_slope, functions of one float, for unary.wgsl; identity, relu, tanh and sigmoid serve
// the epilogue of matmul.wgsl too. A slope takes what the op saves: x or y, as its parameter is named. Where a built-in
// might drop a NaN, it is kept by hand. The slopes of steps are 0.
// uses: lib/exponential, lib/numeric

fn identity_value(x: f32) -> f32 { return x; }

fn negative_value(x: f32) -> f32 { return -x; }
fn negative_slope(x: f32) -> f32 { return -1.0; }

fn abs_value(x: f32) -> f32 { return abs(x); }
fn abs_slope(x: f32) -> f32 { return sign_value(x); }

fn sign_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0);
}
fn sign_slope(x: f32) -> f32 { return 0.0; }

fn square_value(x: f32) -> f32 { return x * x; }
fn square_slope(x: f32) -> f32 { return 2.0 * x; }

fn reciprocal_value(x: f32) -> f32 {
  if (x == 0.0) { return select(infinity(), -infinity(), bitcast<u32>(x) >> 31u == 1u); }
  return 1.0 / x;
}
fn reciprocal_slope(y: f32) -> f32 { return -y * y; }

fn sqrt_value(x: f32) -> f32 {
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  return sqrt(x);
}
fn sqrt_slope(y: f32) -> f32 { return 0.5 / y; }

fn rsqrt_value(x: f32) -> f32 {
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  if (x == 0.0) { return reciprocal_value(x); }
  return 1.0 / sqrt(x);
}
fn rsqrt_slope(y: f32) -> f32 { return -0.5 * y * y * y; }

fn floor_value(x: f32) -> f32 { return floor(x); }
fn floor_slope(x: f32) -> f32 { return 0.0; }

fn ceil_value(x: f32) -> f32 { return ceil(x); }
fn ceil_slope(x: f32) -> f32 { return 0.0; }

fn round_value(x: f32) -> f32 { return round(x); }
fn round_slope(x: f32) -> f32 { return 0.0; }

fn trunc_value(x: f32) -> f32 { return trunc(x); }
fn trunc_slope(x: f32) -> f32 { return 0.0; }

fn frac_value(x: f32) -> f32 { return x - trunc(x); }
fn frac_slope(x: f32) -> f32 { return 1.0; }

// The slope at 0 is 0.
fn relu_value(x: f32) -> f32 { return select(0.0, x, x > 0.0 || is_nan(x)); }
fn relu_slope(y: f32) -> f32 { return select(0.0, 1.0, y > 0.0 || is_nan(y)); }

// NaN stays; at the bounds the slope is 1.
fn clip_value(x: f32, low: f32, high: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return select(select(x, low, x < low), high, x > high || low > high);
}
fn clip_slope(x: f32, low: f32, high: f32) -> f32 { return select(0.0, 1.0, x >= low && x <= high); }

fn isnan_value(x: f32) -> u32 { return u32(is_nan(x)); }
fn isinf_value(x: f32) -> u32 { return u32((bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u); }
fn isfinite_value(x: f32) -> u32 { return u32((bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u); }
fn signbit_value(x: f32) -> u32 { return bitcast<u32>(x) >> 31u; }

// The slope is 1 where x was finite.
fn nan_to_num_value(x: f32, for_nan: f32, for_infinity: f32, for_minus_infinity: f32) -> f32 {
  if (is_nan(x)) { return for_nan; }
  if (isinf_value(x) == 0u) { return x; }
  return select(for_infinity, for_minus_infinity, x < 0.0);
}
fn nan_to_num_slope(x: f32, for_nan: f32, for_infinity: f32, for_minus_infinity: f32) -> f32 {
  return f32(isfinite_value(x));
}

fn logical_not_value(x: f32) -> u32 { return u32(x == 0.0 && !is_nan(x)); }
