// Prefix sums and products along the middle axis of (outer, length, inner): y[o, l, i] = combine of x[o, k, i] over
// k <= l (k < l if exclusive); reversed, over k >= l (k > l). The axis is cut into chunks. Of several chunks, the totals
// (reduction.wgsl) are scanned first, exclusively, and carried into their chunks; so the error of a sum grows with log n.
// Backward: of a sum, the reversed one of dy; of a product, recurrence.wgsl.
// rows: inner is 1; one workgroup scans one chunk, fifteen elements an invocation, then the totals of these in steps of
// doubling width (Hillis and Steele, Data parallel algorithms, 1986). columns: one invocation scans one chunk.
// The prelude gives `elem`, `combine` and `start`, the neutral element.
// uses: lib/index, lib/numeric

const WORKGROUP = 64u;
const EACH = 15u; // odd, so that invocations meet different banks of workgroup memory
const CHUNK = 960u;

struct Params {
  count: u32,
  length: u32,
  inner: u32,
  chunk: u32,
  chunks: u32,
  exclusive: u32,
  reversed: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<elem>;
@group(0) @binding(2) var<storage, read> carry: array<elem>;
@group(0) @binding(3) var<storage, read_write> y: array<elem>;

var<workgroup> held: array<elem, CHUNK>;
var<workgroup> totals: array<elem, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn rows(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups);
  if (index >= params.count) { return; }
  let row = index / params.chunks;
  let first = (index - row * params.chunks) * CHUNK;
  let length = min(CHUNK, params.length - first);
  let base = row * params.length + first;
  for (var k = lane; k < length; k += WORKGROUP) { held[k] = x[base + place(k, length)]; }
  workgroupBarrier();

  let begin = lane * EACH;
  let end = min(begin + EACH, length);
  var total = start();
  for (var k = begin; k < end; k++) { total = combine(total, held[k]); }
  totals[lane] = total;
  workgroupBarrier();
  for (var width = 1u; width < WORKGROUP; width *= 2u) {
    if (lane >= width) { total = combine(totals[lane - width], total); }
    workgroupBarrier();
    totals[lane] = total;
    workgroupBarrier();
  }

  var before = carried(index);
  if (lane > 0u) { before = combine(before, totals[lane - 1u]); }
  var part = start();
  for (var k = begin; k < end; k++) {
    let next = combine(part, held[k]);
    held[k] = combine(before, select(next, part, params.exclusive == 1u));
    part = next;
  }
  workgroupBarrier();
  for (var k = lane; k < length; k += WORKGROUP) { y[base + place(k, length)] = held[k]; }
}

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
  let length = min(params.chunk, params.length - first);
  let base = (outer * params.length + first) * params.inner + column;
  let before = carried(index);
  var part = start();
  for (var k = 0u; k < length; k++) {
    let at = base + place(k, length) * params.inner;
    let next = combine(part, x[at]);
    y[at] = combine(before, select(next, part, params.exclusive == 1u));
    part = next;
  }
}

// Where element k of a chunk lies in it.
fn place(k: u32, length: u32) -> u32 { return select(k, length - 1u - k, params.reversed == 1u); }

// What comes before a chunk.
fn carried(index: u32) -> elem {
  if (params.chunks == 1u) { return start(); }
  return carry[index];
}
