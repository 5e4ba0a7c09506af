// Random numbers, four elements an invocation: element i is word i % 4 of the block at position + i / 4.
// bits: the words. unit: their upper 24 bits as numbers in [0, 1). bernoulli: 1 where a word is below `threshold`.
// dropout: y = x scale where a word is not below `threshold`, else 0; dx from dy is the same function of the same words.
// `base` holds a key and a 64-bit position that the host writes before a replay; Params are relative to them.
// uses: lib/index, lib/random

override WORKGROUP: u32 = 64u;

struct Params {
  size: u32,
  key_low: u32,
  key_high: u32,
  position_low: u32,
  position_high: u32,
  threshold: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> base: vec4<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP)
fn bits(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  store_words(quad, block(quad));
}

@compute @workgroup_size(WORKGROUP)
fn bernoulli(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  store_words(quad, vec4<u32>(block(quad) < vec4<u32>(params.threshold)));
}

@compute @workgroup_size(WORKGROUP)
fn unit(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  store_numbers(quad, unit_interval(block(quad)));
}

@compute @workgroup_size(WORKGROUP)
fn dropout(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  if (4u * quad >= params.size) { return; }
  let is_kept = block(quad) >= vec4<u32>(params.threshold);
  store_numbers(quad, select(vec4<f32>(), x[quad] * params.scale, is_kept & vec4<bool>(params.scale != 0.0)));
}

// Block `index` of this draw.
fn block(index: u32) -> vec4<u32> {
  let key = vec2<u32>(params.key_low, params.key_high) ^ base.xy;
  let low = params.position_low + base.z;
  let position = vec2<u32>(low, params.position_high + base.w + u32(low < base.z));
  return stream_block(key, position, index);
}

fn store_words(quad: u32, made: vec4<u32>) {
  let left = params.size - 4u * quad;
  if (left >= 4u) { words[quad] = made; return; }
  for (var c = 0u; c < left; c++) { words[quad][c] = made[c]; }
}

fn store_numbers(quad: u32, made: vec4<f32>) {
  let left = params.size - 4u * quad;
  if (left >= 4u) { y[quad] = made; return; }
  for (var c = 0u; c < left; c++) { y[quad][c] = made[c]; }
}
