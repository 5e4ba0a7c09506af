// Provides: <name>_value, functions of two floats, steps of logsumexp, std and norm, for binary.wgsl; those of norm take
// its order as a third number. Wants: alias elem, f32. q is what a slice has in common: its maximum, its norm.
// uses: lib/exponential, lib/numeric, lib/power

// e^(p - q) for the maximum q: 1 where p reaches it, also an infinite one, and 0 where all are -inf.
fn shifted_exp_value(p: f32, q: f32) -> f32 {
  if (q == -infinity()) { return 0.0; }
  return select(exp_value(p - q), 1.0, p == q);
}
fn shifted_log_value(p: f32, q: f32) -> f32 { return select(log_value(p) + q, q, abs(q) >= infinity()); }

// p / q, 0 where q is 0. Both are scaled by a power of two that brings q near 1, since an adapter may divide by way of
// 1 / q, which is subnormal for a large q.
fn ratio_value(p: f32, q: f32) -> f32 {
  if (q == 0.0) { return 0.0; }
  if (is_nan(p) || is_nan(q)) { return not_a_number(); }
  let factor = inverse_scale(q);
  return p * factor / (q * factor);
}

// 2^-e for the exponent e of q, both normal numbers.
fn inverse_scale(q: f32) -> f32 {
  let biased = clamp((bitcast<u32>(q) >> 23u) & 0xffu, 1u, 253u);
  return bitcast<f32>((254u - biased) << 23u);
}

// (|p| / q)^order, at most 1, for the largest |p| q, which may be infinite.
fn norm_term_value(p: f32, q: f32, order: f32) -> f32 {
  if (is_nan(p)) { return p; }
  if (q >= infinity()) { return select(0.0, 1.0, abs(p) >= infinity()); }
  return order_power(ratio_value(abs(p), q), order);
}

// q times the root of the sum p of such terms.
fn norm_root_value(p: f32, q: f32, order: f32) -> f32 {
  if (q == 0.0) { return 0.0; }
  if (order == 2.0) { return q * sqrt(p); }
  return q * float_power(p, 1.0 / order);
}

// The slope of the norm for an element p is its sign times (|p| / q)^(order - 1), q the largest |p|, 0 where p is 0,
// times what all have in common, s^(1 / order - 1) for the sum s of such terms.
fn norm_slope_value(p: f32, q: f32, order: f32) -> f32 {
  if (p == 0.0) { return 0.0; }
  return signed_value(order_power(ratio_value(abs(p), q), order - 1.0), p);
}
fn norm_share_value(p: f32, s: f32, order: f32) -> f32 {
  if (s == 0.0) { return 0.0; }
  if (order == 2.0) { return p / sqrt(s); }
  return p * float_power(s, 1.0 / order - 1.0);
}

fn order_power(ratio: f32, order: f32) -> f32 {
  if (order == 1.0) { return ratio; }
  if (order == 2.0) { return ratio * ratio; }
  return float_power(ratio, order);
}

// 1 where an element has the largest absolute value, q; NaN counts as equal to NaN.
fn peak_value(p: f32, q: f32) -> f32 { return select(0.0, 1.0, abs(p) == q || (is_nan(p) && is_nan(q))); }

// p with the sign of q, 0 where q is 0.
fn signed_value(p: f32, q: f32) -> f32 { return select(select(p, -p, q < 0.0), 0.0, q == 0.0); }
