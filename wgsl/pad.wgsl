// Padding of the middle axis of (outer, length, inner) by `before` and `after` elements of its own: y[o, j, i] =
// x[o, source(j), i]. replicate: the nearest element; reflect: the mirror image, without the edge itself.
// Backward gathers: dx[o, k, i] is the sum of dy over all j whose source is k, in a fixed order.
// One invocation makes one element.
// uses: lib/index

override WORKGROUP: u32 = 64u;
override reflects: bool = false;

struct Params {
  size: u32,
  length: u32,
  inner: u32,
  before: u32,
  after: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let line = index / params.inner;
  let column = index - line * params.inner;
  let extent = params.length + params.before + params.after;
  let outer = line / extent;
  y[index] = x[(outer * params.length + source(line - outer * extent)) * params.inner + column];
}

// For element j of y, which is place j - before of x.
fn source(j: u32) -> u32 {
  let last = params.length - 1u;
  if (j < params.before) { return select(0u, params.before - j, reflects); }
  let place = j - params.before;
  if (place > last) { return select(last, last - (place - last), reflects); }
  return place;
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let line = index / params.inner;
  let column = index - line * params.inner;
  let outer = line / params.length;
  let k = line - outer * params.length;
  let base = outer * (params.length + params.before + params.after);
  let last = params.length - 1u;
  var total = dy[(base + params.before + k) * params.inner + column];
  if (reflects) {
    if (k >= 1u && k <= params.before) { total += dy[(base + params.before - k) * params.inner + column]; }
    let mirrored = last - k;
    if (mirrored >= 1u && mirrored <= params.after) {
      total += dy[(base + params.before + last + mirrored) * params.inner + column];
    }
  } else {
    if (k == 0u) {
      var part = 0.0;
      for (var j = 0u; j < params.before; j++) { part += dy[(base + j) * params.inner + column]; }
      total += part;
    }
    if (k == last) {
      var part = 0.0;
      for (var j = 0u; j < params.after; j++) {
        part += dy[(base + params.before + params.length + j) * params.inner + column];
      }
      total += part;
    }
  }
  dx[index] = total;
}
