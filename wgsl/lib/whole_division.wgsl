// Provides: fmod, remainder, floor_divide and power of two integers, <name>_value, for binary.wgsl. Divided by 0 all are
// 0, and the smallest int32 divided by -1 is itself; a negative power is 0, but for bases of 1 and -1.
// Wants: alias elem, i32 or u32.

fn quotient(p: elem, q: elem) -> elem {
  if (q == elem(0)) { return elem(0); }
  if (~q == elem(0) && elem(0) > q) { return elem(0) - p; }
  return p / q;
}

fn fmod_value(p: elem, q: elem) -> elem {
  if (q == elem(0)) { return elem(0); }
  return p - q * quotient(p, q);
}

fn remainder_value(p: elem, q: elem) -> elem {
  let r = fmod_value(p, q);
  return select(r, r + q, r != elem(0) && (r < elem(0)) != (q < elem(0)));
}

fn floor_divide_value(p: elem, q: elem) -> elem {
  let r = fmod_value(p, q);
  return quotient(p, q) - select(elem(0), elem(1), r != elem(0) && (r < elem(0)) != (q < elem(0)));
}

fn power_value(p: elem, q: elem) -> elem {
  if (q < elem(0)) {
    if (p == elem(1)) { return p; }
    return select(elem(0), select(elem(1), p, (q & elem(1)) == elem(1)), ~p == elem(0));
  }
  var rest = q;
  var square = p;
  var made = elem(1);
  while (rest > elem(0)) {
    if ((rest & elem(1)) == elem(1)) { made *= square; }
    square *= square;
    rest >>= 1u;
  }
  return made;
}
