// Provides: <name>_value and <name>_slope for sin, cos, tan, asin, acos, atan; and atan2.
// WGSL promises the built-ins only between -pi and pi, and there an absolute error of 2^-11 is enough. Here the angle is
// reduced to a quarter turn: by subtraction in three parts (Cody and Waite) up to 256, by integer arithmetic with the
// bits of 2 / pi past that (Payne and Hanek, Radian reduction for trigonometric functions, 1983).
// uses: lib/numeric, lib/wide_product

struct Angle {
  rest: f32,
  quadrant: u32,
}

fn reduced_angle(a: f32) -> Angle {
  if (a >= 256.0) { return reduced_large_angle(a); }
  let k = round(a * 0.636619772);
  return Angle(((a - k * 1.5703125) - k * 4.83751297e-4) - k * 7.54978995e-8, u32(k) & 3u);
}

// a = m 2^e; of 2 / pi the 96 bits matter that neither make whole turns nor vanish.
fn reduced_large_angle(a: f32) -> Angle {
  let bits = bitcast<u32>(a);
  let m = (bits & 0x7fffffu) | 0x800000u;
  let start = (bits >> 23u) - 120u;
  let high = wide_product(m, two_over_pi(start));
  let middle = wide_product(m, two_over_pi(start + 32u));
  let low = wide_product(m, two_over_pi(start + 64u));
  let second = middle.x + low.y;
  let first = high.x + middle.y + u32(second < low.y);
  let quadrant = first >> 30u;
  var f = vec2<u32>((first << 2u) | (second >> 30u), (second << 2u) | (low.x >> 30u));
  let is_upper = f.x >= 0x80000000u;
  if (is_upper) { f = ~f; }
  let turn = f32(f.x) * 2.32830644e-10 + f32(f.y) * 5.42101086e-20;
  let rest = turn * 1.57079633;
  return Angle(select(rest, -rest, is_upper), (quadrant + u32(is_upper)) & 3u);
}

// 32 bits of 2 / pi from a place on, behind one word of zeros.
fn two_over_pi(place: u32) -> u32 {
  var words = array<u32, 9>(
    0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
  );
  let word = place >> 5u;
  let shift = place & 31u;
  if (shift == 0u) { return words[word]; }
  return (words[word] << shift) | (words[word + 1u] >> (32u - shift));
}

fn sine_kernel(r: f32) -> f32 {
  let q = r * r;
  return r + r * q * (-1.0 / 6.0 + q * (1.0 / 120.0 + q * (-1.0 / 5040.0 + q / 362880.0)));
}

fn cosine_kernel(r: f32) -> f32 {
  let q = r * r;
  return 1.0 - q * (0.5 - q * (1.0 / 24.0 - q * (1.0 / 720.0 - q * (1.0 / 40320.0 - q / 3628800.0))));
}

fn is_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn sin_value(x: f32) -> f32 {
  if (!is_finite(x)) { return not_a_number(); }
  let angle = reduced_angle(abs(x));
  let made = select(sine_kernel(angle.rest), cosine_kernel(angle.rest), (angle.quadrant & 1u) == 1u);
  return select(made, -made, (angle.quadrant >= 2u) != (x < 0.0));
}
fn sin_slope(x: f32) -> f32 { return cos_value(x); }

fn cos_value(x: f32) -> f32 {
  if (!is_finite(x)) { return not_a_number(); }
  let angle = reduced_angle(abs(x));
  let made = select(cosine_kernel(angle.rest), sine_kernel(angle.rest), (angle.quadrant & 1u) == 1u);
  return select(made, -made, angle.quadrant == 1u || angle.quadrant == 2u);
}
fn cos_slope(x: f32) -> f32 { return -sin_value(x); }

fn tan_value(x: f32) -> f32 {
  if (!is_finite(x)) { return not_a_number(); }
  let angle = reduced_angle(abs(x));
  let s = sine_kernel(angle.rest);
  let c = cosine_kernel(angle.rest);
  let made = select(s / c, -c / s, (angle.quadrant & 1u) == 1u);
  return select(made, -made, x < 0.0);
}
fn tan_slope(y: f32) -> f32 { return 1.0 + y * y; }

// asin(t) for 0 <= t <= 1/2: a fit of (asin(t) - t) / t^3 in t^2.
fn arcsine_kernel(t: f32) -> f32 {
  let q = t * t;
  return t + t * q * (0.16666673 + q * (0.07498756 + q * (0.04502105 + q * (0.02642895 + q * 0.03833608))));
}

fn asin_value(x: f32) -> f32 {
  let a = abs(x);
  if (a > 1.0 || is_nan(x)) { return not_a_number(); }
  let made = select(arcsine_kernel(a), 1.57079633 - 2.0 * arcsine_kernel(sqrt(0.5 * (1.0 - a))), a > 0.5);
  return select(made, -made, x < 0.0);
}
fn asin_slope(x: f32) -> f32 { return 1.0 / sqrt((1.0 - x) * (1.0 + x)); }

fn acos_value(x: f32) -> f32 {
  let a = abs(x);
  if (a > 1.0 || is_nan(x)) { return not_a_number(); }
  if (a <= 0.5) { return 1.57079633 - select(arcsine_kernel(a), -arcsine_kernel(a), x < 0.0); }
  let near = 2.0 * arcsine_kernel(sqrt(0.5 * (1.0 - a)));
  return select(near, 3.14159265 - near, x < 0.0);
}
fn acos_slope(x: f32) -> f32 { return -asin_slope(x); }

// atan(t) for |t| <= tan(pi / 8): a fit of (atan(t) - t) / t^3 in t^2.
fn arctangent_kernel(t: f32) -> f32 {
  let q = t * t;
  return t + t * q * (-0.33333332 + q * (0.19999556 + q * (-0.14264432 + q * (0.10748247 - q * 0.06465173))));
}

fn atan_value(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  var made = 0.0;
  if (a > 1e20) { made = 1.57079633; }
  else if (a > 2.41421356) { made = 1.57079633 - arctangent_kernel(1.0 / a); }
  else if (a > 0.41421356) { made = 0.785398163 + arctangent_kernel((a - 1.0) / (a + 1.0)); }
  else { made = arctangent_kernel(a); }
  return select(made, -made, x < 0.0);
}
fn atan_slope(x: f32) -> f32 {
  if (abs(x) > 1e18) { return 0.0; }
  return 1.0 / (1.0 + x * x);
}

// The angle of the point (x, y); the sign of a zero tells the side, as in C.
fn atan2(y: f32, x: f32) -> f32 {
  if (is_nan(x) || is_nan(y)) { return not_a_number(); }
  let a = abs(y);
  let b = abs(x);
  let is_left = (bitcast<u32>(x) >> 31u) == 1u;
  var made = 0.0;
  if (a == 0.0) { made = 0.0; }
  else if (a >= infinity() && b >= infinity()) { made = 0.785398163; }
  else if (b <= a) { made = 1.57079633 - atan_value(b / a); }
  else { made = atan_value(a / b); }
  if (is_left) { made = 3.14159265 - made; }
  return select(made, -made, (bitcast<u32>(y) >> 31u) == 1u);
}
