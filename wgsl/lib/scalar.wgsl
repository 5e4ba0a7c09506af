// Provides: <name>_value and <name>_slope, functions of one number, for unary.wgsl and for the epilogue of matmul.wgsl.
// A slope takes what the op saves: x or y, as the comment says. Where a built-in might drop a NaN, it is kept by hand.
// uses: lib/numeric

// For the epilogue alone.
fn identity_value(x: f32) -> f32 { return x; }

fn negative_value(x: f32) -> f32 { return -x; }
fn negative_slope(x: f32) -> f32 { return -1.0; }

fn exp_value(x: f32) -> f32 { return select(exp(x), x, is_nan(x)); }
fn exp_slope(y: f32) -> f32 { return y; }

// The built-in is good to an absolute error near 1, where the logarithm is small: there by the series of
// 2 artanh(s), s = (x - 1) / (x + 1).
fn log_value(x: f32) -> f32 {
  if (x == 0.0) { return -infinity(); }
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  if (x > 0.75 && x < 1.34) {
    let s = (x - 1.0) / (x + 1.0);
    let q = s * s;
    return 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0)))));
  }
  return log(x);
}
fn log_slope(x: f32) -> f32 { return 1.0 / x; }

fn sqrt_value(x: f32) -> f32 {
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  return sqrt(x);
}
fn sqrt_slope(y: f32) -> f32 { return 0.5 / y; }

// tanh is 1 to the last bit from 9.02 on; past 88 the built-in may overflow. Near 0 it is good to an absolute error
// only, so there by the Taylor series.
fn tanh_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (abs(x) < 0.25) {
    let q = x * x;
    return x * (1.0 + q * (-1.0 / 3.0 + q * (2.0 / 15.0 + q * (-17.0 / 315.0 + q * (62.0 / 2835.0)))));
  }
  return tanh(clamp(x, -10.0, 10.0));
}
fn tanh_slope(y: f32) -> f32 { return 1.0 - y * y; }

fn sigmoid_value(x: f32) -> f32 {
  let small = exp(-abs(x));
  return select(select(1.0, small, x < 0.0) / (1.0 + small), x, is_nan(x));
}
fn sigmoid_slope(y: f32) -> f32 { return y * (1.0 - y); }

// The slope at 0 is 0.
fn relu_value(x: f32) -> f32 { return select(0.0, x, x > 0.0 || is_nan(x)); }
fn relu_slope(y: f32) -> f32 { return select(0.0, 1.0, y > 0.0 || is_nan(y)); }
