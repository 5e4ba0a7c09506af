// Provides: coordinates, next_tap, window_start, met, met_backward: where windows that slide over a volume fall.
// Four positions at a time. Extents, strides and the like have W in x, H in y and D in z; a dimension that an array
// lacks is 1. What lies before the volume wraps around and so counts as far behind it.

struct Coordinates {
  w: vec4<u32>,
  h: vec4<u32>,
  d: vec4<u32>,
}

// Where positions lie that are numbered in memory order.
fn coordinates(position: vec4<u32>, extents: vec4<u32>) -> Coordinates {
  let line = position / extents.x;
  let d = line / extents.y;
  return Coordinates(position - line * extents.x, line - d * extents.y, d);
}

// The tap of a window that follows in memory order.
fn next_tap(tap: vec3<u32>, taps: vec4<u32>) -> vec3<u32> {
  if (tap.x + 1u < taps.x) { return tap + vec3<u32>(1u, 0u, 0u); }
  if (tap.y + 1u < taps.y) { return vec3<u32>(0u, tap.y + 1u, tap.z); }
  return vec3<u32>(0u, 0u, tap.z + 1u);
}

fn window_start(at: Coordinates, stride: vec4<u32>, pad: vec4<u32>) -> Coordinates {
  return Coordinates(at.w * stride.x - pad.x, at.h * stride.y - pad.y, at.d * stride.z - pad.z);
}

// The elements of a volume that windows meet at a tap: their place, or 0 where nothing is there.
struct Met {
  at: vec4<u32>,
  there: vec4<bool>,
}

fn met(start: Coordinates, offset: vec3<u32>, extents: vec4<u32>) -> Met {
  return inside(Coordinates(start.w + offset.x, start.h + offset.y, start.d + offset.z), extents, vec4<bool>(true));
}

// The other way round: which windows meet the elements `at` with that tap.
fn met_backward(
  at: Coordinates,
  offset: vec3<u32>,
  extents: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
) -> Met {
  let w = at.w + pad.x - offset.x;
  let h = at.h + pad.y - offset.y;
  let d = at.d + pad.z - offset.z;
  if (all(stride.xyz == vec3<u32>(1u))) { return inside(Coordinates(w, h, d), extents, vec4<bool>(true)); }
  let window = Coordinates(w / stride.x, h / stride.y, d / stride.z);
  let starts = (window.w * stride.x == w) & (window.h * stride.y == h) & (window.d * stride.z == d);
  return inside(window, extents, starts);
}

fn inside(at: Coordinates, extents: vec4<u32>, if_also: vec4<bool>) -> Met {
  let within = (at.w < vec4<u32>(extents.x)) & (at.h < vec4<u32>(extents.y)) & (at.d < vec4<u32>(extents.z));
  let there = within & if_also;
  return Met(select(vec4<u32>(), (at.d * extents.y + at.h) * extents.x + at.w, there), there);
}
