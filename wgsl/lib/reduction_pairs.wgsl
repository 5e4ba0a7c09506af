// Provides: <name>_value, functions of two floats, steps of logsumexp, std and norm, for binary.wgsl; those of norm take
// its order as a third number. Wants: alias elem, f32. q is what a slice has in common: its maximum, its norm.
// uses: lib/exponential, lib/numeric, lib/power

// q where it is finite, else 0: what logsumexp shifts by, so that infinities do not cancel.
fn finite(q: f32) -> f32 { return select(q, 0.0, (bitcast<u32>(q) & 0x7f800000u) == 0x7f800000u); }

fn shifted_exp_value(p: f32, q: f32) -> f32 { return exp_value(p - finite(q)); }
fn shifted_log_value(p: f32, q: f32) -> f32 { return log_value(p) + finite(q); }

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

// The slope of the norm q for an element p: its sign times (|p| / q)^(order - 1); 0 where p is 0.
fn norm_slope_value(p: f32, q: f32, order: f32) -> f32 {
  if (p == 0.0) { return 0.0; }
  return signed_value(order_power(ratio_value(abs(p), q), order - 1.0), p);
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
