// Float16 in storage, two elements a word: widen makes y = float32(x), narrow makes y = float16(x).
// The backward of either is the other. One invocation takes one word.
// uses: lib/half, lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y_words: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn widen(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (2u * index >= params.size) { return; }
  let word = words[index];
  y[2u * index] = from_half_bits(word & 0xffffu);
  if (2u * index + 1u < params.size) { y[2u * index + 1u] = from_half_bits(word >> 16u); }
}

@compute @workgroup_size(WORKGROUP)
fn narrow(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (2u * index >= params.size) { return; }
  var upper = 0u;
  if (2u * index + 1u < params.size) { upper = half_bits(x[2u * index + 1u]); }
  y_words[index] = half_bits(x[2u * index]) | (upper << 16u);
}
