// Provides: is_nan, infinity, not_a_number, larger, smaller.
// A compiler may assume that NaN does not occur, so only bits tell.

fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// The bits stand in a variable: as a constant expression they would be refused.
fn infinity() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}

fn not_a_number() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}

// The larger of two numbers, NaN if either is NaN; the built-in max may drop it.
fn larger(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  return select(a, b, b > a || is_nan(b));
}

// The smaller of two numbers, NaN if either is NaN.
fn smaller(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  return select(a, b, b < a || is_nan(b));
}
