// Reduction of the middle axis of (outer, length, inner): y[o, c, i] = combine over the elements of chunk c.
// A long axis is reduced in rounds, each making one element of a chunk, so a sum of n numbers has an error that grows
// with log n. The last round applies `finish` (the division of a mean). Backward: sum and mean broadcast dy; max and
// min send it to the elements that tie, in equal parts (binary.wgsl, tie). A scan takes its totals of chunks from here.
// rows: inner is 1 and the axis long; one workgroup makes one element. columns: one invocation makes one element.
// The prelude gives `elem`, `combine` (+, *, larger, smaller, or, and), `start` (the neutral element) and `finish`.
// uses: lib/index, lib/numeric

override WORKGROUP: u32 = 64u;

struct Params {
  count: u32,
  length: u32,
  inner: u32,
  chunk: u32,
  chunks: u32,
  divisor: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<elem>;
@group(0) @binding(2) var<storage, read_write> y: array<elem>;

var<workgroup> parts: array<elem, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn rows(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups);
  if (index >= params.count) { return; }
  let row = index / params.chunks;
  let first = (index - row * params.chunks) * params.chunk;
  let last = min(first + params.chunk, params.length);
  var total = start();
  for (var k = first + lane; k < last; k += WORKGROUP) {
    total = combine(total, x[row * params.length + k]);
  }
  parts[lane] = total;
  workgroupBarrier();
  for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
    if (lane < width) { parts[lane] = combine(parts[lane], parts[lane + width]); }
    workgroupBarrier();
  }
  if (lane == 0u) { y[index] = finish(parts[0]); }
}

const BLOCK = 16u;

@compute @workgroup_size(WORKGROUP)
fn columns(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.count) { return; }
  let line = index / params.inner;
  let column = index - line * params.inner;
  let outer = line / params.chunks;
  let first = (line - outer * params.chunks) * params.chunk;
  let last = min(first + params.chunk, params.length);
  // Blocks of sixteen keep the running total from swallowing small terms.
  var total = start();
  for (var block = first; block < last; block += BLOCK) {
    var part = start();
    for (var k = block; k < min(block + BLOCK, last); k++) {
      part = combine(part, x[(outer * params.length + k) * params.inner + column]);
    }
    total = combine(total, part);
  }
  y[index] = finish(total);
}
