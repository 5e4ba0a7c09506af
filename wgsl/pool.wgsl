// Pools over windows of H and W: the largest of each window, with its place in the plane, or the sum divided.
// max: y_p = x_places(p), the first of several equals, NaN before any number; a window that is all padding has
// -infinity and NOWHERE. dx_q = sum of the dy_p whose place is q. average: y_p = sum of x over the window / divisor_p;
// dx_q = sum of dy_p / divisor_p over the windows that hold q.
// One invocation makes one element of y, or four neighbours in W of dx. W is in x, H in y. The divisor is `divisor`
// unless that is 0; else the elements of the window, with those of padding if `counts_padding`.
// uses: lib/index, lib/numeric, lib/pool_window

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
  let at = quad(index);
  let own = at.y * params.source.x + at.x + vec4<u32>(0u, 1u, 2u, 3u);
  let base = at.z * params.made.x * params.made.y;
  let rows = windows(H, at.y, at.y);
  let cols = windows(W, at.x, min(at.x + 3u, params.source.x - 1u));
  var total = vec4<f32>();
  for (var h = rows.first; h < rows.end; h++) {
    for (var block = cols.first; block < cols.end; block += BLOCK) {
      var part = vec4<f32>();
      for (var w = block; w < min(block + BLOCK, cols.end); w++) {
        let p = base + h * params.made.x + w;
        part += select(vec4<f32>(), vec4<f32>(dy[p]), vec4<u32>(saved_places[p]) == own);
      }
      total += part;
    }
  }
  store(at, total);
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
  let at = quad(index);
  let own = at.x + vec4<u32>(0u, 1u, 2u, 3u);
  let base = at.z * params.made.x * params.made.y;
  let rows = windows(H, at.y, at.y);
  let cols = windows(W, at.x, min(at.x + 3u, params.source.x - 1u));
  var total = vec4<f32>();
  for (var h = rows.first; h < rows.end; h++) {
    let over_h = window(H, h);
    for (var block = cols.first; block < cols.end; block += BLOCK) {
      var part = vec4<f32>();
      for (var w = block; w < min(block + BLOCK, cols.end); w++) {
        let over_w = window(W, w);
        let held = (vec4<u32>(over_w.first) <= own) & (own < vec4<u32>(over_w.end));
        part += select(vec4<f32>(), vec4<f32>(dy[base + h * params.made.x + w] / divisor_of(over_h, over_w)), held);
      }
      total += part;
    }
  }
  store(at, total);
}

fn store(at: vec3<u32>, made: vec4<f32>) {
  let first = (at.z * params.source.y + at.y) * params.source.x + at.x;
  for (var i = 0u; i < min(params.source.x - at.x, 4u); i++) { dx[first + i] = made[i]; }
}

fn divisor_of(rows: Window, cols: Window) -> f32 {
  if (params.divisor > 0u) { return f32(params.divisor); }
  if (params.counts_padding > 0u) { return f32(rows.length) * f32(cols.length); }
  return f32(rows.end - rows.first) * f32(cols.end - cols.first);
}
