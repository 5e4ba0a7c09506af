// Planes of H, W to another size, each result being a sum of up to two rows and two columns of the plane:
// y_hw = sum over a, b of row_weights_ha col_weights_wb x at (row_taps_ha, col_taps_wb). The host works out the taps and
// weights of each place along an axis; a tap that is not needed has weight 0. Backward: dx_ij = sum of
// row_weights col_weights dy over the h of row_spans_i and w of col_spans_j, which hold all results that read it.
// One invocation makes one element.
// uses: lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  items: u32,
  H: u32,
  W: u32,
  other_H: u32,
  other_W: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> row_taps: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> col_taps: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> row_weights: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> col_weights: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> x: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read> dy: array<f32>;
@group(0) @binding(6) var<storage, read_write> dx: array<f32>;
@group(0) @binding(7) var<storage, read> row_spans: array<vec2<u32>>;
@group(0) @binding(8) var<storage, read> col_spans: array<vec2<u32>>;

const BLOCK = 64u;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let line = index / params.W;
  let plane = line / params.H;
  let h = line - plane * params.H;
  let w = index - line * params.W;
  let rows = (plane * params.other_H + row_taps[h]) * params.other_W;
  let cols = col_taps[w];
  let over = row_weights[h];
  let along = col_weights[w];
  let upper = weighted(along, rows.x, cols);
  y[index] = select(over.x * upper + over.y * weighted(along, rows.y, cols), upper, over.y == 0.0);
}

// A weight of 0 takes nothing, be it infinite.
fn weighted(weights: vec2<f32>, row: u32, cols: vec2<u32>) -> f32 {
  let first = x[row + cols.x];
  return select(weights.x * first + weights.y * x[row + cols.y], first, weights.y == 0.0);
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.items) { return; }
  let line = index / params.W;
  let plane = line / params.H;
  let i = line - plane * params.H;
  let j = index - line * params.W;
  let rows = row_spans[i];
  let cols = col_spans[j];
  var total = 0.0;
  for (var h = rows.x; h < rows.y; h++) {
    let over = share(row_taps[h], row_weights[h], i);
    let base = (plane * params.other_H + h) * params.other_W;
    var row = 0.0;
    // Blocks: small terms are not swallowed, and an invocation may not go round one loop too often.
    for (var block = cols.x; block < cols.y; block += BLOCK) {
      var part = 0.0;
      for (var w = block; w < min(block + BLOCK, cols.y); w++) {
        let along = share(col_taps[w], col_weights[w], j);
        part += select(along * dy[base + w], 0.0, along == 0.0);
      }
      row += part;
    }
    total += select(over * row, 0.0, over == 0.0);
  }
  dx[index] = total;
}

// The weight with which a result reads element `i`.
fn share(taps: vec2<u32>, weights: vec2<f32>, i: u32) -> f32 {
  return select(0.0, weights.x, taps.x == i) + select(0.0, weights.y, taps.y == i);
}
