// Provides: <name>_value, functions of the bits of two integers, for binary.wgsl. A shift past the last bit leaves 0, or
// the sign of an int32 that is shifted right. Wants: alias elem, i32 or u32; bool is u32.

fn bitwise_and_value(p: elem, q: elem) -> elem { return p & q; }
fn bitwise_or_value(p: elem, q: elem) -> elem { return p | q; }
fn bitwise_xor_value(p: elem, q: elem) -> elem { return p ^ q; }

fn bitwise_left_shift_value(p: elem, q: elem) -> elem {
  return select(elem(0), p << (u32(q) & 31u), u32(q) < 32u);
}
fn bitwise_right_shift_value(p: elem, q: elem) -> elem {
  return (p >> min(u32(q), 31u)) >> select(1u, 0u, u32(q) < 32u);
}
