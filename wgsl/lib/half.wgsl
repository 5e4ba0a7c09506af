// Provides: half_bits, from_half_bits: float16 as the low half of a word, by bits. Every adapter has these, not only those
// with the feature shader-f16, and all round alike: to the nearest, of two the even one. NaN stays some NaN.

fn half_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
  if (magnitude >= 0x47800000u) { return sign | 0x7c00u; }
  if (magnitude >= 0x38800000u) {
    // The carry of the rounding may move into the exponent, up to infinity.
    let moved = magnitude - 0x38000000u;
    return sign | ((moved + 0xfffu + ((moved >> 13u) & 1u)) >> 13u);
  }
  if (magnitude < 0x33000000u) { return sign; }
  // Subnormal: whole multiples of 2^-24.
  let shift = 126u - (magnitude >> 23u);
  let mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  let down = mantissa >> shift;
  let rest = mantissa & ((1u << shift) - 1u);
  let middle = 1u << (shift - 1u);
  return sign | (down + u32(rest > middle || (rest == middle && (down & 1u) == 1u)));
}

fn from_half_bits(half: u32) -> f32 {
  let sign = (half & 0x8000u) << 16u;
  let magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13u)); }
  if (magnitude >= 0x400u) { return bitcast<f32>(sign | ((magnitude << 13u) + 0x38000000u)); }
  return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8));
}
