// Provides: <name>_value, comparisons and logical functions of two operands: 1 or 0. Wants: alias elem.
// uses: lib/numeric

// 0 where an operand is NaN, except not_equal, which is 1 there.
fn ordered(p: elem, q: elem) -> bool { return !(is_nan(f32(p)) || is_nan(f32(q))); }

fn equal_value(p: elem, q: elem) -> u32 { return u32(p == q && ordered(p, q)); }
fn not_equal_value(p: elem, q: elem) -> u32 { return u32(p != q || !ordered(p, q)); }
fn less_value(p: elem, q: elem) -> u32 { return u32(p < q && ordered(p, q)); }
fn less_equal_value(p: elem, q: elem) -> u32 { return u32(p <= q && ordered(p, q)); }
fn greater_value(p: elem, q: elem) -> u32 { return u32(p > q && ordered(p, q)); }
fn greater_equal_value(p: elem, q: elem) -> u32 { return u32(p >= q && ordered(p, q)); }

// What is not 0 is true, NaN too.
fn is_true(p: elem) -> bool { return p != elem(0) || is_nan(f32(p)); }

fn logical_and_value(p: elem, q: elem) -> u32 { return u32(is_true(p) && is_true(q)); }
fn logical_or_value(p: elem, q: elem) -> u32 { return u32(is_true(p) || is_true(q)); }
fn logical_xor_value(p: elem, q: elem) -> u32 { return u32(is_true(p) != is_true(q)); }
