// The gradient of a convolution's bias: dbias_o = sum over images n and positions p of dy_nop.
// One workgroup adds up the planes of one channel of `images` images; the sums of all lie one after the other in
// dbias_parts, (parts, channels), and are added by reduction.wgsl.
// uses: lib/index, lib/reduce

override WORKGROUP: u32 = 64u;

struct Params {
  batch: u32,
  channels: u32,
  volume: u32,
  images: u32,
  parts: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read_write> dbias_parts: array<f32>;

const BLOCK = 16u;

@compute @workgroup_size(WORKGROUP)
fn bias_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups);
  let part = index / params.channels;
  if (part >= params.parts) { return; }
  let channel = index - part * params.channels;
  let last = min((part + 1u) * params.images, params.batch);
  var total = 0.0;
  for (var n = part * params.images; n < last; n++) {
    let base = (n * params.channels + channel) * params.volume;
    var plane = 0.0;
    // Blocks of sixteen rounds keep the running total from swallowing small terms.
    for (var start = lane; start < params.volume; start += BLOCK * WORKGROUP) {
      var block = 0.0;
      for (var p = start; p < min(start + BLOCK * WORKGROUP, params.volume); p += WORKGROUP) { block += dy[base + p]; }
      plane += block;
    }
    total += plane;
  }
  let sum = workgroup_sum(lane, total);
  if (lane == 0u) { dbias_parts[index] = sum; }
}
