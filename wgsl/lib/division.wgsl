// Provides: fmod, remainder and floor_divide of two floats, <name>_value, <name>_left, <name>_right, for binary.wgsl.
// p = q n + r: fmod cuts n towards zero, so that r has the sign of p; remainder and floor_divide round n down, so that r
// has the sign of q. The remainder is exact: long division of the mantissas, bit by bit. Wants: alias elem, f32.
// uses: lib/numeric

fn fmod_value(p: f32, q: f32) -> f32 {
  let a = bitcast<u32>(p) & 0x7fffffffu;
  let b = bitcast<u32>(q) & 0x7fffffffu;
  if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) { return not_a_number(); }
  if (a < b) { return p; }
  let exponent = max(b >> 23u, 1u);
  let divisor = (b & 0x7fffffu) | select(0x800000u, 0u, b < 0x800000u);
  var rest = (a & 0x7fffffu) | select(0x800000u, 0u, a < 0x800000u);
  for (var step = max(a >> 23u, 1u) - exponent; step > 0u; step--) {
    rest = (rest % divisor) << 1u;
  }
  rest %= divisor;
  // rest 2^(exponent - 150), put together from its bits.
  var bits = 0u;
  if (rest != 0u) {
    let shift = min(23u - firstLeadingBit(rest), exponent - 1u);
    rest <<= shift;
    bits = select(rest, (rest & 0x7fffffu) | ((exponent - shift) << 23u), rest >= 0x800000u);
  }
  return bitcast<f32>(bits | (bitcast<u32>(p) & 0x80000000u));
}
fn fmod_left(p: f32, q: f32) -> f32 { return 1.0; }
fn fmod_right(p: f32, q: f32) -> f32 { return -trunc(p / q); }

fn remainder_value(p: f32, q: f32) -> f32 {
  let r = fmod_value(p, q);
  if (r == 0.0) { return bitcast<f32>(bitcast<u32>(q) & 0x80000000u); }
  return select(r, r + q, (r < 0.0) != (q < 0.0));
}
fn remainder_left(p: f32, q: f32) -> f32 { return 1.0; }
fn remainder_right(p: f32, q: f32) -> f32 { return -floor_divide_value(p, q); }

// As numpy: from the exact remainder, so that a quotient near a whole number is not rounded past it.
fn floor_divide_value(p: f32, q: f32) -> f32 {
  if (q == 0.0) {
    if (p == 0.0 || is_nan(p)) { return not_a_number(); }
    return select(infinity(), -infinity(), (bitcast<u32>(p) ^ bitcast<u32>(q)) >> 31u == 1u);
  }
  let r = fmod_value(p, q);
  var n = (p - r) / q;
  if (r != 0.0 && (r < 0.0) != (q < 0.0)) { n -= 1.0; }
  let down = floor(n);
  return select(down, down + 1.0, n - down > 0.5);
}
