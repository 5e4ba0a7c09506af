// Provides: float_power, x^y as in IEEE 754: any base to the power 0 is 1, a negative base takes whole exponents only.
// The built-in is 2^(y log2 x), NaN for every negative base.
// uses: lib/exponential

fn float_power(x: f32, y: f32) -> f32 {
  if (y == 0.0 || x == 1.0) { return 1.0; }
  if (is_nan(x) || is_nan(y)) { return not_a_number(); }
  let a = abs(x);
  let is_whole = trunc(y) == y;
  let is_odd = is_whole && abs(y) < 16777216.0 && (u32(abs(y)) & 1u) == 1u;
  if (x < 0.0 && !is_whole && a < infinity()) { return not_a_number(); }
  let made = positive_power(a, y);
  return select(made, -made, is_odd && (bitcast<u32>(x) >> 31u) == 1u);
}

fn positive_power(a: f32, y: f32) -> f32 {
  if (a == 1.0) { return 1.0; }
  if (a == 0.0) { return select(0.0, infinity(), y < 0.0); }
  if (a >= infinity()) { return select(infinity(), 0.0, y < 0.0); }
  if (abs(y) >= infinity()) { return select(0.0, infinity(), (a > 1.0) == (y > 0.0)); }
  if (trunc(y) == y && abs(y) <= 32.0) { return whole_power(a, y); }
  if (y == 0.5) { return sqrt(a); }
  // a = 2^e e^r: the parts of y e that have few bits are exact, so little is lost where y log2(a) is large.
  let l = logarithm(a);
  let y_high = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
  let exact = y_high * l.exponent;
  let rest = y * l.rest * LOG2_E + (y - y_high) * l.exponent;
  let n = round(exact + rest);
  if (n > 129.0) { return infinity(); }
  if (n < -150.0) { return 0.0; }
  return scaled(1.0 + expm1_kernel(((exact - n) + rest) * 0.693147181), i32(n));
}

// By squaring, which is exact as long as the numbers are small.
fn whole_power(a: f32, y: f32) -> f32 {
  var rest = u32(abs(y));
  var square = a;
  var made = 1.0;
  while (rest > 0u) {
    if ((rest & 1u) == 1u) { made *= square; }
    square *= square;
    rest >>= 1u;
  }
  return select(made, 1.0 / made, y < 0.0);
}
