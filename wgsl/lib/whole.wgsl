// Provides: <name>_value, functions of one integer or bool, for unary.wgsl. Wants: alias elem.

fn identity_value(x: elem) -> elem { return x; }
fn negative_value(x: elem) -> elem { return elem(0) - x; }
fn abs_value(x: elem) -> elem { return abs(x); }
fn sign_value(x: elem) -> elem { return select(elem(0) - elem(x < elem(0)), elem(1), x > elem(0)); }
fn square_value(x: elem) -> elem { return x * x; }
fn bitwise_invert_value(x: elem) -> elem { return ~x; }

fn isnan_value(x: elem) -> u32 { return 0u; }
fn isinf_value(x: elem) -> u32 { return 0u; }
fn isfinite_value(x: elem) -> u32 { return 1u; }
fn signbit_value(x: elem) -> u32 { return u32(x < elem(0)); }
fn logical_not_value(x: elem) -> u32 { return u32(x == elem(0)); }
