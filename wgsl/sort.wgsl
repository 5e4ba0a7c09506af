// Sorts pairs of numbers, rising, in place: by the first number, where that is equal by the second. Their count is a
// power of two and at least 512. A bitonic sort (Batcher, Sorting networks and their applications, 1968): runs of `size`
// pairs, rising and falling in turn, are merged into runs of twice the size by comparing pairs `stride` apart.
// blocks: makes runs of 512, in workgroup memory. exchange: one stride of a merge. merge: its strides below 512, in
// workgroup memory. One invocation compares two pairs at a time.
// uses: lib/index

const WORKGROUP = 256u;
const BLOCK = 512u;

struct Params {
  count: u32,
  size: u32,
  stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> pairs: array<vec2<u32>>;

var<workgroup> held: array<vec2<u32>, BLOCK>;

@compute @workgroup_size(WORKGROUP)
fn blocks(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let base = group_index(group, groups) * BLOCK;
  if (base >= params.count) { return; }
  held[lane] = pairs[base + lane];
  held[lane + WORKGROUP] = pairs[base + lane + WORKGROUP];
  workgroupBarrier();
  for (var size = 2u; size <= BLOCK; size *= 2u) { merge_held(base, lane, size); }
  pairs[base + lane] = held[lane];
  pairs[base + lane + WORKGROUP] = held[lane + WORKGROUP];
}

@compute @workgroup_size(WORKGROUP)
fn exchange(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.count / 2u) { return; }
  let i = first_of(index, params.stride);
  let a = pairs[i];
  let b = pairs[i + params.stride];
  if (is_after(a, b) == is_rising(i, params.size)) {
    pairs[i] = b;
    pairs[i + params.stride] = a;
  }
}

@compute @workgroup_size(WORKGROUP)
fn merge(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let base = group_index(group, groups) * BLOCK;
  if (base >= params.count) { return; }
  held[lane] = pairs[base + lane];
  held[lane + WORKGROUP] = pairs[base + lane + WORKGROUP];
  workgroupBarrier();
  merge_held(base, lane, params.size);
  pairs[base + lane] = held[lane];
  pairs[base + lane + WORKGROUP] = held[lane + WORKGROUP];
}

// The strides below 512 of the merge that makes runs of `size`.
fn merge_held(base: u32, lane: u32, size: u32) {
  for (var stride = min(size, BLOCK) / 2u; stride > 0u; stride /= 2u) {
    let i = first_of(lane, stride);
    let a = held[i];
    let b = held[i + stride];
    if (is_after(a, b) == is_rising(base + i, size)) {
      held[i] = b;
      held[i + stride] = a;
    }
    workgroupBarrier();
  }
}

// The lower of the two places that comparison `index` is about: `index` with a zero put in at the bit of `stride`.
fn first_of(index: u32, stride: u32) -> u32 {
  let low = index & (stride - 1u);
  return 2u * (index - low) + low;
}

fn is_rising(place: u32, size: u32) -> bool { return (place & size) == 0u; }

fn is_after(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x > b.x || (a.x == b.x && a.y > b.y); }
