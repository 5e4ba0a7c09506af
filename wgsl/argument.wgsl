// The place of the best element along the middle axis of (outer, length, inner), the first of several: argmax, argmin.
// No gradient. A long axis is searched in rounds, each keeping the best of a chunk of candidates: in the first round
// every element is one, after it the places in `candidates`. The order, by value and then by place, is total, so the
// result does not depend on the order of comparisons. NaN is better than any number.
// rows: inner is 1; one workgroup judges one chunk. columns: one invocation judges one chunk.
// The prelude gives `elem` and `is_better`, of two numbers.
// uses: lib/index, lib/numeric

override WORKGROUP: u32 = 64u;

struct Params {
  count: u32,
  length: u32,
  inner: u32,
  chunk: u32,
  chunks: u32,
  candidates_length: u32,
  is_first: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<elem>;
@group(0) @binding(2) var<storage, read> candidates: array<i32>;
@group(0) @binding(3) var<storage, read_write> y: array<i32>;

var<workgroup> values: array<elem, WORKGROUP>;
var<workgroup> places: array<i32, WORKGROUP>;

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
  let last = min(first + params.chunk, params.candidates_length);
  // An invocation without candidates of its own repeats the first.
  var best = candidate(row, 0u, min(first + lane, last - 1u));
  for (var k = first + lane + WORKGROUP; k < last; k += WORKGROUP) { best = better(best, candidate(row, 0u, k)); }
  values[lane] = best.value;
  places[lane] = best.place;
  workgroupBarrier();
  for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
    if (lane < width) {
      best = better(best, Candidate(values[lane + width], places[lane + width]));
      values[lane] = best.value;
      places[lane] = best.place;
    }
    workgroupBarrier();
  }
  if (lane == 0u) { y[index] = best.place; }
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
  let last = min(first + params.chunk, params.candidates_length);
  var best = candidate(outer, column, first);
  for (var k = first + 1u; k < last; k++) { best = better(best, candidate(outer, column, k)); }
  y[index] = best.place;
}

struct Candidate {
  value: elem,
  place: i32,
}

fn candidate(outer: u32, column: u32, k: u32) -> Candidate {
  var place = i32(k);
  if (params.is_first == 0u) { place = candidates[(outer * params.candidates_length + k) * params.inner + column]; }
  return Candidate(x[(outer * params.length + u32(place)) * params.inner + column], place);
}

fn better(a: Candidate, b: Candidate) -> Candidate {
  if (is_better(b.value, a.value)) { return b; }
  if (!is_better(a.value, b.value) && b.place < a.place) { return b; }
  return a;
}
