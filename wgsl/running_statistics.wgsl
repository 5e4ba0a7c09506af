// Running statistics of batch norm: running <- running + factor (new - running), where new is the mean of a batch, or
// its variance v n / (n - 1). update: factor = momentum. cumulate: factor = 1 / batches, which makes a mean of all;
// count_batch comes before it. `statistics` has three numbers a channel: the mean, what it leaves, v.
// One invocation makes one channel.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  channels: u32,
  count: u32,
  momentum: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> running_mean: array<f32>;
@group(0) @binding(2) var<storage, read_write> running_var: array<f32>;
@group(0) @binding(3) var<storage, read> statistics: array<f32>;
@group(0) @binding(4) var<storage, read> batches: array<i32>;
@group(0) @binding(1) var<storage, read_write> next_batches: array<i32>;

@compute @workgroup_size(WORKGROUP)
fn update(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let channel = group_index(group, groups) * WORKGROUP + lane;
  if (channel >= params.channels) { return; }
  move_on(channel, params.momentum);
}

@compute @workgroup_size(WORKGROUP)
fn cumulate(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let channel = group_index(group, groups) * WORKGROUP + lane;
  if (channel >= params.channels) { return; }
  move_on(channel, 1.0 / f32(batches[0]));
}

@compute @workgroup_size(1)
fn count_batch() {
  next_batches[0] += 1;
}

fn move_on(channel: u32, factor: f32) {
  let mean = statistics[3u * channel] + statistics[3u * channel + 1u];
  let variance = statistics[3u * channel + 2u] * (f32(params.count) / f32(params.count - 1u));
  running_mean[channel] += factor * (mean - running_mean[channel]);
  running_var[channel] += factor * (variance - running_var[channel]);
}
