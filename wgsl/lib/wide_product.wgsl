// Provides: wide_product, the low and the high word of a product of two words.

fn wide_product(a: u32, b: u32) -> vec2<u32> {
  let a_low = a & 0xFFFFu;
  let a_high = a >> 16u;
  let b_low = b & 0xFFFFu;
  let b_high = b >> 16u;
  let middle = a_high * b_low + ((a_low * b_low) >> 16u);
  let other = a_low * b_high + (middle & 0xFFFFu);
  return vec2<u32>(a * b, a_high * b_high + (middle >> 16u) + (other >> 16u));
}
