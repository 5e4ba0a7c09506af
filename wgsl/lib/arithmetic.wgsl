// Provides: <name>_value, <name>_left, <name>_right, functions of two operands and their partial derivatives, for
// binary.wgsl. Wants: alias elem, f32, i32 or u32. add passes dy through on both sides and subtract on its left, so they
// have fewer derivatives. Integers wrap around; divided by 0 they give 0.
// uses: lib/numeric

fn add_value(p: elem, q: elem) -> elem { return p + q; }

fn subtract_value(p: elem, q: elem) -> elem { return p - q; }

fn multiply_value(p: elem, q: elem) -> elem { return p * q; }
fn multiply_left(p: elem, q: elem) -> f32 { return f32(q); }
fn multiply_right(p: elem, q: elem) -> f32 { return f32(p); }

fn divide_value(p: elem, q: elem) -> elem { return p / q; }
fn divide_left(p: elem, q: elem) -> f32 { return 1.0 / f32(q); }
fn divide_right(p: elem, q: elem) -> f32 { return -(f32(p) / f32(q)) / f32(q); }

// NaN if either is. Where they tie, each has half of the gradient.
fn maximum_value(p: elem, q: elem) -> elem {
  if (is_nan(f32(p))) { return p; }
  return select(p, q, q > p || is_nan(f32(q)));
}
fn maximum_left(p: elem, q: elem) -> f32 { return select(select(1.0, 0.0, p < q), 0.5, p == q); }
fn maximum_right(p: elem, q: elem) -> f32 { return select(select(1.0, 0.0, q < p), 0.5, p == q); }

fn minimum_value(p: elem, q: elem) -> elem {
  if (is_nan(f32(p))) { return p; }
  return select(p, q, q < p || is_nan(f32(q)));
}
fn minimum_left(p: elem, q: elem) -> f32 { return select(select(1.0, 0.0, p > q), 0.5, p == q); }
fn minimum_right(p: elem, q: elem) -> f32 { return select(select(1.0, 0.0, q > p), 0.5, p == q); }

// 1 where an element reached the extreme of its slice, NaN counting as equal to NaN: the backward of max.
fn tie_value(p: elem, q: elem) -> f32 {
  return select(0.0, 1.0, p == q || (is_nan(f32(p)) && is_nan(f32(q))));
}
