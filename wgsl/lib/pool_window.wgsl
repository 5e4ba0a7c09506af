// Provides: place, quad, window, windows: where the windows of a pool lie, along W and H.
// Wants: params with source, made, taps, stride, pad and dilation, W in x and H in y; override adaptive.
// Windows start `stride` apart, or, `adaptive`, divide an extent as evenly as can be: window i of n over an extent e is
// floor(i e / n) .. ceil((i + 1) e / n).

const W = 0u;
const H = 1u;

// W and H within a plane, and the number of the plane.
fn place(index: u32, extents: vec4<u32>) -> vec3<u32> {
  let line = index / extents.x;
  let plane = line / extents.y;
  return vec3<u32>(index - line * extents.x, line - plane * extents.y, plane);
}

// first, first + step, ... below end, inside the plane; `length` counts padding as well.
struct Window {
  first: u32,
  end: u32,
  step: u32,
  length: u32,
}

fn window(axis: u32, i: u32) -> Window {
  let extent = params.source[axis];
  if (adaptive) {
    let first = share(i, extent, params.made[axis]);
    let end = share_up(i + 1u, extent, params.made[axis]);
    return Window(first, end, 1u, end - first);
  }
  let pad = params.pad[axis];
  let dilation = params.dilation[axis];
  let start = i32(i * params.stride[axis]) - i32(pad);
  let end = start + i32((params.taps[axis] - 1u) * dilation) + 1;
  let padded_end = min(end, i32(extent + pad));
  let skipped = (u32(max(-start, 0)) + dilation - 1u) / dilation * dilation;
  let first = u32(start + i32(skipped));
  return Window(first, u32(clamp(end, 0, i32(extent))), dilation, u32(padded_end - start));
}

// Which windows may hold elements i to j, as first .. end.
fn windows(axis: u32, i: u32, j: u32) -> Window {
  let made = params.made[axis];
  let extent = params.source[axis];
  if (adaptive) { return Window(share(i, made, extent), share_up(j + 1u, made, extent), 1u, 0u); }
  let stride = params.stride[axis];
  let reach = (params.taps[axis] - 1u) * params.dilation[axis];
  let padded = i + params.pad[axis];
  let first = select(0u, (padded - reach + stride - 1u) / stride, padded > reach);
  return Window(first, min((j + params.pad[axis]) / stride + 1u, made), 1u, 0u);
}

// floor(i e / n) and ceil(i e / n), without large products.
fn share(i: u32, e: u32, n: u32) -> u32 { return i * (e / n) + i * (e % n) / n; }
fn share_up(i: u32, e: u32, n: u32) -> u32 { return i * (e / n) + (i * (e % n) + n - 1u) / n; }

// Where four neighbours in W begin, of which dx has as many in each row as it takes.
fn quad(index: u32) -> vec3<u32> {
  let at = place(index, vec4<u32>((params.source.x + 3u) / 4u, params.source.yzw));
  return vec3<u32>(at.x * 4u, at.yz);
}
