// Provides: erf and the activation functions, <name>_value and <name>_slope, functions of one float for unary.wgsl and
// gated.wgsl. Every slope takes x; at a corner it is that of the side on which the function is constant.
// uses: lib/exponential, lib/scalar

// erf(x) / x below 0.9, and e^(x^2) erfc(x) in 1 / (1 + x / 2) above: least maximum fits of this project.
fn erf_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  let made = select(1.0 - tail(a), a * erf_ratio(a * a), a < 0.9);
  return select(made, -made, x < 0.0);
}
fn erf_slope(x: f32) -> f32 { return 1.12837917 * exp_value(-x * x); }

fn erf_ratio(q: f32) -> f32 {
  return 1.12837917 + q * (-0.376126353 + q * (0.112837196 + q * (-0.0268607479
    + q * (0.00520442599 + q * (-8.18182794e-4 + q * 8.53846118e-5)))));
}

// erfc(a) for a >= 0.9.
fn tail(a: f32) -> f32 {
  if (a > 10.0) { return 0.0; }
  let t = 1.0 / (1.0 + 0.5 * a);
  return exp_value(-a * a) * (-3.05813455e-5 + t * (0.282853954 + t * (0.27416825 + t * (0.292122209
    + t * (0.0226453312 + t * (0.394548794 + t * (-0.348192244 + t * 0.0815977184)))))));
}

// The distribution function of the standard normal.
fn normal_cdf(x: f32) -> f32 {
  let a = abs(x) * 0.707106781;
  let upper = 0.5 * select(tail(a), 1.0 - a * erf_ratio(a * a), a < 0.9);
  return select(upper, 1.0 - upper, x > 0.0);
}

fn gelu_value(x: f32) -> f32 { return x * normal_cdf(x); }
fn gelu_slope(x: f32) -> f32 {
  if (abs(x) > 15.0) { return select(0.0, 1.0, x > 0.0); }
  return normal_cdf(x) + x * 0.39894228 * exp_value(-0.5 * x * x);
}

fn gelu_angle(x: f32) -> f32 { return 0.797884561 * (x + 0.044715 * x * x * x); }

fn gelu_tanh_value(x: f32) -> f32 { return x * sigmoid_value(2.0 * gelu_angle(x)); }
fn gelu_tanh_slope(x: f32) -> f32 {
  if (abs(x) > 15.0) { return select(0.0, 1.0, x > 0.0); }
  let s = sigmoid_value(2.0 * gelu_angle(x));
  return s + x * 2.0 * s * (1.0 - s) * 0.797884561 * (1.0 + 0.134145 * x * x);
}

fn silu_value(x: f32) -> f32 { return x * sigmoid_value(x); }
fn silu_slope(x: f32) -> f32 {
  if (abs(x) > 100.0) { return select(0.0, 1.0, x > 0.0); }
  let s = sigmoid_value(x);
  return s * (1.0 + x * (1.0 - s));
}

fn leaky_relu_value(x: f32, slope: f32) -> f32 { return select(slope * x, x, x > 0.0); }
fn leaky_relu_slope(x: f32, slope: f32) -> f32 { return select(slope, 1.0, x > 0.0); }

fn elu_value(x: f32, alpha: f32) -> f32 { return select(alpha * expm1_value(x), x, x > 0.0); }
fn elu_slope(x: f32, alpha: f32) -> f32 { return select(alpha * exp_value(x), 1.0, x > 0.0); }

fn selu_value(x: f32) -> f32 { return 1.05070099 * elu_value(x, 1.67326324); }
fn selu_slope(x: f32) -> f32 { return 1.05070099 * elu_slope(x, 1.67326324); }

fn celu_value(x: f32, alpha: f32) -> f32 { return select(alpha * expm1_value(x / alpha), x, x > 0.0); }
fn celu_slope(x: f32, alpha: f32) -> f32 { return select(exp_value(x / alpha), 1.0, x > 0.0); }

// log(1 + e^x) without overflow.
fn log1p_exp(x: f32) -> f32 { return relu_value(x) + log1p_value(exp_value(-abs(x))); }

fn softplus_value(x: f32, beta: f32, threshold: f32) -> f32 {
  return select(log1p_exp(beta * x) / beta, x, beta * x > threshold);
}
fn softplus_slope(x: f32, beta: f32, threshold: f32) -> f32 {
  return select(sigmoid_value(beta * x), 1.0, beta * x > threshold);
}

fn logsigmoid_value(x: f32) -> f32 { return -log1p_exp(-x); }
fn logsigmoid_slope(x: f32) -> f32 { return sigmoid_value(-x); }

fn softsign_value(x: f32) -> f32 { return x / (1.0 + abs(x)); }
fn softsign_slope(x: f32) -> f32 {
  let d = 1.0 + abs(x);
  return 1.0 / d / d;
}

fn hardtanh_value(x: f32, low: f32, high: f32) -> f32 { return clip_value(x, low, high); }
fn hardtanh_slope(x: f32, low: f32, high: f32) -> f32 { return select(0.0, 1.0, x > low && x < high); }

fn relu6_value(x: f32) -> f32 { return clip_value(x, 0.0, 6.0); }
fn relu6_slope(x: f32) -> f32 { return hardtanh_slope(x, 0.0, 6.0); }

fn hardsigmoid_value(x: f32) -> f32 { return clip_value(x + 3.0, 0.0, 6.0) / 6.0; }
fn hardsigmoid_slope(x: f32) -> f32 { return select(0.0, 1.0 / 6.0, abs(x) < 3.0); }

fn hardswish_value(x: f32) -> f32 { return x * hardsigmoid_value(x); }
fn hardswish_slope(x: f32) -> f32 {
  if (abs(x) >= 3.0) { return select(0.0, 1.0, x > 0.0); }
  return (2.0 * x + 3.0) / 6.0;
}

fn mish_value(x: f32) -> f32 { return x * tanh_value(log1p_exp(x)); }
fn mish_slope(x: f32) -> f32 {
  if (abs(x) > 100.0) { return select(0.0, 1.0, x > 0.0); }
  let t = tanh_value(log1p_exp(x));
  return t + x * (1.0 - t * t) * sigmoid_value(x);
}
