// Provides: <name>_value and <name>_slope for exp, exp2, expm1, log, log2, log1p, the hyperbolic functions and their
// inverses, sigmoid; and float_power. A slope takes what the op saves: x or y, as its parameter is named.
// The built-ins are good to an absolute error only (tanh, log near 1) or lose a digit for large arguments (exp), and
// differ from adapter to adapter; these are series after a reduction of the argument, within 5 ulp everywhere.
// uses: lib/numeric

const LN2_HIGH = 0.693359375; // nine bits: times a small whole number it is exact
const LN2_LOW = -2.12194440e-4;
const LOG2_E = 1.44269504;

// e^r - 1 for |r| <= ln(2) / 2.
fn expm1_kernel(r: f32) -> f32 {
  return r + r * r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r / 5040.0)))));
}

// y 2^n for whole n in -150 .. 150, in two steps, so that neither factor overflows.
fn scaled(y: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return y * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(n - half + 127) << 23u);
}

fn exp_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.8) { return infinity(); }
  if (x < -104.0) { return 0.0; }
  let n = round(x * LOG2_E);
  return scaled(1.0 + expm1_kernel((x - n * LN2_HIGH) - n * LN2_LOW), i32(n));
}
fn exp_slope(y: f32) -> f32 { return y; }

fn exp2_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x >= 128.0) { return infinity(); }
  if (x < -150.0) { return 0.0; }
  let n = round(x);
  return scaled(1.0 + expm1_kernel((x - n) * 0.693147181), i32(n));
}
fn exp2_slope(y: f32) -> f32 { return 0.693147181 * y; }

fn expm1_value(x: f32) -> f32 {
  if (abs(x) < 0.35) { return expm1_kernel(x); }
  return exp_value(x) - 1.0;
}
fn expm1_slope(y: f32) -> f32 { return y + 1.0; }

// 2 artanh(s) = log((1 + s) / (1 - s)) for |s| <= 0.172.
fn artanh_kernel(s: f32) -> f32 {
  let q = s * s;
  return 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0)))));
}

struct Logarithm {
  exponent: f32,
  rest: f32,
}

// x = 2^exponent e^rest for x > 0, with a mantissa between sqrt(1/2) and sqrt(2); by bits, so also for subnormals.
fn logarithm(x: f32) -> Logarithm {
  var bits = bitcast<u32>(x);
  var exponent = i32(bits >> 23u) - 127;
  if (exponent == -127) {
    let place = firstLeadingBit(bits);
    bits <<= 23u - place;
    exponent = i32(place) - 149;
  }
  var mantissa = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
  if (mantissa > 1.41421356) {
    mantissa *= 0.5;
    exponent += 1;
  }
  return Logarithm(f32(exponent), artanh_kernel((mantissa - 1.0) / (mantissa + 1.0)));
}

fn log_value(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) == 0u) { return -infinity(); }
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  if (x >= infinity()) { return x; }
  let l = logarithm(x);
  return l.exponent * LN2_HIGH + (l.exponent * LN2_LOW + l.rest);
}
fn log_slope(x: f32) -> f32 { return 1.0 / x; }

fn log2_value(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) == 0u) { return -infinity(); }
  if (x < 0.0 || is_nan(x)) { return not_a_number(); }
  if (x >= infinity()) { return x; }
  let l = logarithm(x);
  return l.exponent + l.rest * LOG2_E;
}
fn log2_slope(x: f32) -> f32 { return LOG2_E / x; }

fn log10_value(x: f32) -> f32 { return log2_value(x) * 0.301029996; }
fn log10_slope(x: f32) -> f32 { return 0.434294482 / x; }

fn log1p_value(x: f32) -> f32 {
  if (x > -0.29 && x < 0.41) { return artanh_kernel(x / (2.0 + x)); }
  return log_value(1.0 + x);
}
fn log1p_slope(x: f32) -> f32 { return 1.0 / (1.0 + x); }

// x (1 + q/6 (1 + q/20 (...))), the Taylor series, below 1; past 88 e^x overflows before sinh does.
fn sinh_value(x: f32) -> f32 {
  let a = abs(x);
  if (a < 1.0) {
    let q = x * x;
    return x * (1.0 + q / 6.0 * (1.0 + q / 20.0 * (1.0 + q / 42.0 * (1.0 + q / 72.0))));
  }
  if (is_nan(x)) { return x; }
  if (a > 88.0) {
    let half = exp_value(0.5 * a);
    return select(0.5, -0.5, x < 0.0) * half * half;
  }
  let e = exp_value(a);
  return select(0.5, -0.5, x < 0.0) * (e - 1.0 / e);
}
fn sinh_slope(x: f32) -> f32 { return cosh_value(x); }

fn cosh_value(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x)) { return x; }
  if (a > 88.0) {
    let half = exp_value(0.5 * a);
    return 0.5 * half * half;
  }
  let e = exp_value(a);
  return 0.5 * (e + 1.0 / e);
}
fn cosh_slope(x: f32) -> f32 { return sinh_value(x); }

// 1 to the last bit from 9.02 on; near 0 by the Taylor series.
fn tanh_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a < 0.25) {
    let q = x * x;
    return x * (1.0 + q * (-1.0 / 3.0 + q * (2.0 / 15.0 + q * (-17.0 / 315.0 + q * (62.0 / 2835.0)))));
  }
  let made = 1.0 - 2.0 / (exp_value(min(2.0 * a, 40.0)) + 1.0);
  return select(made, -made, x < 0.0);
}
fn tanh_slope(y: f32) -> f32 { return 1.0 - y * y; }

fn asinh_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  var made = 0.0;
  if (a > 4096.0) { made = log_value(a) + 0.693147181; }
  else { made = log1p_value(a + a * a / (1.0 + sqrt(1.0 + a * a))); }
  return select(made, -made, x < 0.0);
}
fn asinh_slope(x: f32) -> f32 {
  let a = abs(x);
  return select(1.0 / sqrt(1.0 + x * x), 1.0 / a, a > 1e9);
}

fn acosh_value(x: f32) -> f32 {
  if (x < 1.0 || is_nan(x)) { return not_a_number(); }
  if (x > 4096.0) { return log_value(x) + 0.693147181; }
  let t = x - 1.0;
  return log1p_value(t + sqrt(2.0 * t + t * t));
}
fn acosh_slope(x: f32) -> f32 { return 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)); }

fn atanh_value(x: f32) -> f32 {
  let a = abs(x);
  if (a > 1.0 || is_nan(x)) { return not_a_number(); }
  if (a == 1.0) { return select(infinity(), -infinity(), x < 0.0); }
  let made = 0.5 * log1p_value(2.0 * a / (1.0 - a));
  return select(made, -made, x < 0.0);
}
fn atanh_slope(x: f32) -> f32 { return 1.0 / ((1.0 - x) * (1.0 + x)); }

fn sigmoid_value(x: f32) -> f32 {
  let small = exp_value(-abs(x));
  return select(1.0, small, x < 0.0) / (1.0 + small);
}
fn sigmoid_slope(y: f32) -> f32 { return y * (1.0 - y); }
