// Provides: workgroup_sum, workgroup_max, each the same value in every invocation of the workgroup.
// Wants: override WORKGROUP, a power of two. The tree has a fixed order, so equal inputs give equal bits.
// uses: lib/numeric

var<workgroup> lanes: array<f32, WORKGROUP>;

fn workgroup_sum(lane: u32, value: f32) -> f32 {
  lanes[lane] = value;
  workgroupBarrier();
  for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
    if (lane < width) { lanes[lane] += lanes[lane + width]; }
    workgroupBarrier();
  }
  let total = lanes[0];
  workgroupBarrier();
  return total;
}

fn workgroup_max(lane: u32, value: f32) -> f32 {
  lanes[lane] = value;
  workgroupBarrier();
  for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
    if (lane < width) { lanes[lane] = larger(lanes[lane], lanes[lane + width]); }
    workgroupBarrier();
  }
  let largest = lanes[0];
  workgroupBarrier();
  return largest;
}
