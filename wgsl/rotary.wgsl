// Rotary position embedding (Su et al., RoFormer, 2021) of (..., T, D): pairs of elements of position t are turned by
// an angle, y0 = x0 cos - x1 sin, y1 = x1 cos + x0 sin, with tables cos and sin of shape (T, D / 2).
// Backward: the same with `direction` -1; dcos = x0 dy0 + x1 dy1 and dsin = x0 dy1 - x1 dy0, which are summed over the
// leading dimensions by reduction.wgsl. Pair i of a row begins at i `step` and ends `gap` further on.
// One invocation makes one pair.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  pairs: u32,
  positions: u32,
  half: u32,
  step: u32,
  gap: u32,
  direction: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> cosines: array<f32>;
@group(0) @binding(3) var<storage, read> sines: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dcosines: array<f32>;
@group(0) @binding(4) var<storage, read_write> dsines: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.pairs) { return; }
  let at = place_of(index);
  let angle = index % (params.positions * params.half);
  let cosine = cosines[angle];
  let sine = sines[angle] * params.direction;
  let a = x[at];
  let b = x[at + params.gap];
  y[at] = a * cosine - b * sine;
  y[at + params.gap] = b * cosine + a * sine;
}

@compute @workgroup_size(WORKGROUP)
fn tables_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.pairs) { return; }
  let at = place_of(index);
  let a = x[at];
  let b = x[at + params.gap];
  let da = dy[at];
  let db = dy[at + params.gap];
  dcosines[index] = a * da + b * db;
  dsines[index] = a * db - b * da;
}

// Where the pair of that number begins.
fn place_of(index: u32) -> u32 {
  let row = index / params.half;
  return 2u * row * params.half + (index - row * params.half) * params.step;
}
