// Provides: power, atan2, hypot, logaddexp, copysign, prelu, <name>_value, <name>_left, <name>_right, functions of two
// floats and their partial derivatives, for binary.wgsl. Wants: alias elem, f32.
// uses: lib/exponential, lib/power, lib/trigonometric

// d/dp = q p^(q - 1), 0 for q = 0; d/dq = p^q log(p), 0 where p = 0, NaN below.
fn power_value(p: f32, q: f32) -> f32 { return float_power(p, q); }
fn power_left(p: f32, q: f32) -> f32 {
  if (q == 0.0) { return 0.0; }
  return q * float_power(p, q - 1.0);
}
fn power_right(p: f32, q: f32) -> f32 {
  if (p == 0.0 && q >= 0.0) { return 0.0; }
  return float_power(p, q) * log_value(p);
}

// (q, -p) / (p^2 + q^2), scaled by the larger; 0 at the origin.
fn atan2_value(p: f32, q: f32) -> f32 { return atan2(p, q); }
fn atan2_left(p: f32, q: f32) -> f32 {
  let m = max(abs(p), abs(q));
  if (m == 0.0) { return 0.0; }
  let u = p / m;
  let v = q / m;
  return v / (u * u + v * v) / m;
}
fn atan2_right(p: f32, q: f32) -> f32 { return -atan2_left(q, p); }

// The root of p^2 + q^2, scaled by the larger, which neither overflows nor vanishes; infinite if either is.
fn hypot_value(p: f32, q: f32) -> f32 {
  let m = max(abs(p), abs(q));
  if (abs(p) >= infinity() || abs(q) >= infinity()) { return infinity(); }
  if (is_nan(p) || is_nan(q)) { return not_a_number(); }
  if (m == 0.0) { return 0.0; }
  let u = min(abs(p), abs(q)) / m;
  return m * sqrt(1.0 + u * u);
}
fn hypot_left(p: f32, q: f32) -> f32 {
  let m = max(abs(p), abs(q));
  if (m == 0.0) { return 0.0; }
  let u = p / m;
  let v = q / m;
  return u / sqrt(u * u + v * v);
}
fn hypot_right(p: f32, q: f32) -> f32 { return hypot_left(q, p); }

// log(e^p + e^q); equal infinities have a difference of 0. The derivatives are the shares of the two terms.
fn logaddexp_value(p: f32, q: f32) -> f32 {
  if (is_nan(p) || is_nan(q)) { return not_a_number(); }
  if (p == q) { return p + 0.693147181; }
  return max(p, q) + log1p_value(exp_value(-abs(p - q)));
}
fn logaddexp_left(p: f32, q: f32) -> f32 {
  if (p == q) { return 0.5; }
  return sigmoid_value(p - q);
}
fn logaddexp_right(p: f32, q: f32) -> f32 { return logaddexp_left(q, p); }

// |p| with the sign of q, by bits; d/dp is 1 or -1, 0 where p = 0.
fn copysign_value(p: f32, q: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(p) & 0x7fffffffu) | (bitcast<u32>(q) & 0x80000000u));
}
fn copysign_left(p: f32, q: f32) -> f32 {
  if (p == 0.0) { return 0.0; }
  return select(1.0, -1.0, (bitcast<u32>(p) ^ bitcast<u32>(q)) >> 31u == 1u);
}
fn copysign_right(p: f32, q: f32) -> f32 { return 0.0; }

// p where it is positive, else q p; q is the slope.
fn prelu_value(p: f32, q: f32) -> f32 { return select(q * p, p, p > 0.0); }
fn prelu_left(p: f32, q: f32) -> f32 { return select(q, 1.0, p > 0.0); }
fn prelu_right(p: f32, q: f32) -> f32 { return select(p, 0.0, p > 0.0); }
