// Pools over windows of H and W: the largest of each window, with its place in the plane, or the sum divided.
// max: y_p = x_places(p), the first of several equals, NaN before any number; a window that is all padding has
// -infinity and NOWHERE. dx_q = sum of the dy_p whose place is q. average: y_p = sum of x over the window / divisor_p;
// dx_q = sum of dy_p / divisor_p over the windows that hold q. Windows start `stride` apart, or, `adaptive`, divide an
// extent as evenly as can be: window i of n over an extent e is floor(i e / n) .. ceil((i + 1) e / n).
// One invocation makes one element of the result. W is in x, H in y. The divisor is `divisor` unless that is 0; else
// the elements of the window, with those of padding if `counts_padding`.
// uses: lib/index, lib/numeric

override WORKGROUP: u32 = 64u;
override adaptive: bool = false;

struct Params {
  items: u32,
  divisor: u32,
  counts_padding: u32,
  source: vec4<u32>,
  made: vec4<u32>,
  taps: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
  dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> places: array<u32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read_write> dx: array<f32>;
@group(0) @binding(3) var<storage, read> saved_places: array<u32>;

const W = 0u;
const H = 1u;
const NOWHERE = 0xffffffffu;
const BLOCK = 128u;

@compute @workgroup_size(WORKGROUP)
fn max_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let at = place(index, params.made);
  let base = at.z * params.source.x * params.source.y;
  let rows = window(H, at.y);
  let cols = window(W, at.x);
  var best = -infinity();
  var best_at = NOWHERE;
  for (var h = rows.first; h < rows.end; h += rows.step) {
    // Blocks: an invocation may not go round one loop too often.
    for (var block = cols.first; block < cols.end; block += BLOCK * cols.step) {
      for (var w = block; w < min(block + BLOCK * cols.step, cols.end); w += cols.step) {
        let candidate = x[base + h * params.source.x + w];
        if (best_at == NOWHERE || candidate > best || (is_nan(candidate) && !is_nan(best))) {
          best = candidate;
          best_at = h * params.source.x + w;
        }
      }
    }
  }
  y[index] = best;
  places[index] = best_at;
}

@compute @workgroup_size(WORKGROUP)
fn max_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let at = place(index, params.source);
  let own = at.y * params.source.x + at.x;
  let base = at.z * params.made.x * params.made.y;
  let rows = windows(H, at.y);
  let cols = windows(W, at.x);
  var total = 0.0;
  for (var h = rows.first; h < rows.end; h++) {
    for (var block = cols.first; block < cols.end; block += BLOCK) {
      var part = 0.0;
      for (var w = block; w < min(block + BLOCK, cols.end); w++) {
        let p = base + h * params.made.x + w;
        part += select(0.0, dy[p], saved_places[p] == own);
      }
      total += part;
    }
  }
  dx[index] = total;
}

@compute @workgroup_size(WORKGROUP)
fn average_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let at = place(index, params.made);
  let base = at.z * params.source.x * params.source.y;
  let rows = window(H, at.y);
  let cols = window(W, at.x);
  var total = 0.0;
  for (var h = rows.first; h < rows.end; h++) {
    var line = 0.0;
    for (var block = cols.first; block < cols.end; block += BLOCK) {
      var part = 0.0;
      for (var w = block; w < min(block + BLOCK, cols.end); w++) { part += x[base + h * params.source.x + w]; }
      line += part;
    }
    total += line;
  }
  y[index] = total / divisor_of(rows, cols);
}

@compute @workgroup_size(WORKGROUP)
fn average_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let at = place(index, params.source);
  let base = at.z * params.made.x * params.made.y;
  let rows = windows(H, at.y);
  let cols = windows(W, at.x);
  var total = 0.0;
  for (var h = rows.first; h < rows.end; h++) {
    let over_h = window(H, h);
    for (var block = cols.first; block < cols.end; block += BLOCK) {
      var part = 0.0;
      for (var w = block; w < min(block + BLOCK, cols.end); w++) {
        let over_w = window(W, w);
        part += dy[base + h * params.made.x + w] / divisor_of(over_h, over_w);
      }
      total += part;
    }
  }
  dx[index] = total;
}

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

// Which windows may hold element i, as first .. end.
fn windows(axis: u32, i: u32) -> Window {
  let made = params.made[axis];
  let extent = params.source[axis];
  if (adaptive) { return Window(share(i, made, extent), share_up(i + 1u, made, extent), 1u, 0u); }
  let stride = params.stride[axis];
  let reach = (params.taps[axis] - 1u) * params.dilation[axis];
  let last = i + params.pad[axis];
  let first = select(0u, (last - reach + stride - 1u) / stride, last > reach);
  return Window(first, min(last / stride + 1u, made), 1u, 0u);
}

// floor(i e / n) and ceil(i e / n), without large products.
fn share(i: u32, e: u32, n: u32) -> u32 { return i * (e / n) + i * (e % n) / n; }
fn share_up(i: u32, e: u32, n: u32) -> u32 { return i * (e / n) + (i * (e % n) + n - 1u) / n; }

fn divisor_of(rows: Window, cols: Window) -> f32 {
  if (params.divisor > 0u) { return f32(params.divisor); }
  if (params.counts_padding > 0u) { return f32(rows.length) * f32(cols.length); }
  return f32(rows.end - rows.first) * f32(cols.end - cols.first);
}
