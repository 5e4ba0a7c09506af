// The linear recurrence h_j = b_j + a_(j+shift) h_(j+1) along the middle axis of (outer, length, inner), from the end,
// past which h is 0. It is the backward of a cumulative product y: h is the gradient of y_j with all that follows from it,
// for b = dy, a = x, shift 1, and dx_j = h_j y_(j-1); there is no division, so zeros do no harm.
// parts: one invocation reduces a chunk to the pair (A, B) for which h = B + A h' at its start, h' being that of the next
// chunk; the pairs obey the same recurrence, with shift 0. solve: one invocation makes the h of a chunk, or, if weighted,
// h_j weight_(j-1), from those of the chunks' starts in `carry`.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  count: u32,
  length: u32,
  inner: u32,
  chunk: u32,
  chunks: u32,
  shift: u32,
  weighted: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> carry: array<f32>;
@group(0) @binding(4) var<storage, read> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> h: array<f32>;
@group(0) @binding(3) var<storage, read_write> a_parts: array<f32>;
@group(0) @binding(4) var<storage, read_write> b_parts: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn parts(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.count) { return; }
  let chunk = chunk_of(index);
  var factor = 1.0;
  var made = 0.0;
  for (var j = chunk.last; j > chunk.first; j--) {
    let slope = slope_at(chunk, j - 1u);
    factor *= slope;
    // What is past the end is left out, not multiplied by 0, since the slope may be infinite; so below.
    made = b[chunk.base + (j - 1u) * params.inner] + select(slope * made, 0.0, j == chunk.last);
  }
  a_parts[index] = factor;
  b_parts[index] = made;
}

@compute @workgroup_size(WORKGROUP)
fn solve(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.count) { return; }
  let chunk = chunk_of(index);
  var made = 0.0;
  if (chunk.last < params.length) { made = carry[index + params.inner]; }
  for (var j = chunk.last; j > chunk.first; j--) {
    let at = chunk.base + (j - 1u) * params.inner;
    made = b[at] + select(slope_at(chunk, j - 1u) * made, 0.0, j == params.length);
    var factor = 1.0;
    if (params.weighted == 1u && j > 1u) { factor = weight[at - params.inner]; }
    h[at] = made * factor;
  }
}

// The elements first .. last - 1 of the line that begins at `base`.
struct Chunk {
  base: u32,
  first: u32,
  last: u32,
}

fn chunk_of(index: u32) -> Chunk {
  let line = index / params.inner;
  let column = index - line * params.inner;
  let outer = line / params.chunks;
  let first = (line - outer * params.chunks) * params.chunk;
  return Chunk(outer * params.length * params.inner + column, first, min(first + params.chunk, params.length));
}

fn slope_at(chunk: Chunk, j: u32) -> f32 {
  let at = j + params.shift;
  if (at >= params.length) { return 0.0; }
  return a[chunk.base + at * params.inner];
}
