// Counts of the values 0 to 255, first in workgroup memory, then added up; values past 255 are left out.
@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>, 256>;

var<workgroup> own: array<atomic<u32>, 256>;

@compute @workgroup_size(256)
fn histogram(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  atomicStore(&own[lane], 0u);
  workgroupBarrier();
  if (id.x < arrayLength(&values)) {
    let value = values[id.x];
    if (value < 256u) { atomicAdd(&own[value], 1u); }
  }
  workgroupBarrier();
  let count = atomicLoad(&own[lane]);
  if (count > 0u) { atomicAdd(&counts[lane], count); }
}
