// The sum of each block of elements that one workgroup takes, by a tree in workgroup memory. An atomic counts blocks.
override WORKGROUP: u32 = 64u;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<storage, read_write> blocks: atomic<u32>;

var<workgroup> parts: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn block_sums(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = group.x * WORKGROUP + lane;
  var own = 0.0;
  if (i < arrayLength(&x)) { own = x[i]; }
  parts[lane] = own;
  workgroupBarrier();
  for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
    if (lane < width) { parts[lane] += parts[lane + width]; }
    workgroupBarrier();
  }
  if (lane == 0u) {
    sums[group.x] = parts[0];
    atomicAdd(&blocks, 1u);
  }
}
