// Matrix product y = a' b', optionally y = activation(a' b' + bias): a' is a or its transpose, M x K; b' is K x N.
// Backward: da' = dy b'^T, db' = a'^T dy, dbias = the column sums of dy (after the activation's slope).
// One invocation makes an 8 x 8 block of y in registers, as four 4 x 4 matrices, by outer products along K. It reads
// four elements at a time where the memory order allows (`a_packed`, `b_packed`: the contiguous extent divides by 4).
// A 4 x 4 matrix holds one row of y in each of its columns. The prelude gives `activate`, a <name>_value of lib/scalar.
// Rows and columns past the edge read what lies there and are not stored. A long K is cut into `parts` of `k_chunk`,
// whose products lie one after the other in y and are summed by reduction.wgsl. A product that is too much work for one
// dispatch comes in several, each from `first_group` on.
// uses: lib/block, lib/index, lib/scalar

override WORKGROUP_ROWS: u32 = 8u;
override WORKGROUP_COLUMNS: u32 = 8u;
override a_transposed: bool = false;
override b_transposed: bool = false;
override a_packed: bool = false;
override b_packed: bool = false;

struct Params {
  M: u32,
  N: u32,
  K: u32,
  batches: u32,
  parts: u32,
  k_chunk: u32,
  a_stride: u32,
  b_stride: u32,
  row_groups: u32,
  column_groups: u32,
  first_group: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP_COLUMNS, WORKGROUP_ROWS)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = place(group, groups, local);
  if (tile.part >= params.parts || tile.row >= params.M || tile.column >= params.N) { return; }
  let block = product(tile);
  for (var i = 0u; i < 4u; i++) {
    store(tile, i, 0u, activated(block.upper_left[i]));
    store(tile, i, 4u, activated(block.upper_right[i]));
    store(tile, i + 4u, 0u, activated(block.lower_left[i]));
    store(tile, i + 4u, 4u, activated(block.lower_right[i]));
  }
}

@compute @workgroup_size(WORKGROUP_COLUMNS, WORKGROUP_ROWS)
fn bias_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = place(group, groups, local);
  if (tile.part >= params.parts || tile.row >= params.M || tile.column >= params.N) { return; }
  let block = product(tile);
  let left_bias = bias[tile.column >> 2u];
  let right_bias = bias[(tile.column >> 2u) + 1u];
  for (var i = 0u; i < 4u; i++) {
    store(tile, i, 0u, activated(block.upper_left[i] + left_bias));
    store(tile, i, 4u, activated(block.upper_right[i] + right_bias));
    store(tile, i + 4u, 0u, activated(block.lower_left[i] + left_bias));
    store(tile, i + 4u, 4u, activated(block.lower_right[i] + right_bias));
  }
}

struct Tile {
  part: u32,
  batch: u32,
  row: u32,
  column: u32,
}

fn place(group: vec3<u32>, groups: vec3<u32>, local: vec3<u32>) -> Tile {
  let index = params.first_group + group_index(group, groups);
  let line = index / params.column_groups;
  let slice = line / params.row_groups;
  let row_group = line - slice * params.row_groups;
  let part = slice / params.batches;
  let column_group = index - line * params.column_groups;
  let row = (row_group * WORKGROUP_ROWS + local.y) * 8u;
  let column = (column_group * WORKGROUP_COLUMNS + local.x) * 8u;
  return Tile(part, slice - part * params.batches, row, column);
}

const K_BLOCK = 128u;

// Sums over K_BLOCK terms are made apart and then added up, so that a long K does not swallow small terms.
fn product(tile: Tile) -> Block {
  let start = tile.part * params.k_chunk;
  let end = min(start + params.k_chunk, params.K);
  var block = partial_product(tile, start, min(start + K_BLOCK, end));
  for (var first = start + K_BLOCK; first < end; first += K_BLOCK) {
    let part = partial_product(tile, first, min(first + K_BLOCK, end));
    block = block_sum(block, part);
  }
  return block;
}

fn partial_product(tile: Tile, first: u32, last: u32) -> Block {
  let a_base = tile.batch * params.a_stride;
  let b_base = tile.batch * params.b_stride;
  var block: Block;
  for (var k = first; k < last; k++) {
    let u = a_rows(a_base, tile.row, k);
    let v = a_rows(a_base, tile.row + 4u, k);
    let p = b_columns(b_base, k, tile.column);
    let q = b_columns(b_base, k, tile.column + 4u);
    block.upper_left += mat4x4<f32>(u.x * p, u.y * p, u.z * p, u.w * p);
    block.upper_right += mat4x4<f32>(u.x * q, u.y * q, u.z * q, u.w * q);
    block.lower_left += mat4x4<f32>(v.x * p, v.y * p, v.z * p, v.w * p);
    block.lower_right += mat4x4<f32>(v.x * q, v.y * q, v.z * q, v.w * q);
  }
  return block;
}

// Four elements of column k of a', from `row` down.
fn a_rows(base: u32, row: u32, k: u32) -> vec4<f32> {
  if (a_transposed) {
    let at = base + k * params.M + row;
    if (a_packed) { return a[at >> 2u]; }
    return vec4<f32>(a_element(at), a_element(at + 1u), a_element(at + 2u), a_element(at + 3u));
  }
  let at = base + row * params.K + k;
  let step = params.K;
  return vec4<f32>(a_element(at), a_element(at + step), a_element(at + 2u * step), a_element(at + 3u * step));
}

// Four elements of row k of b', from `column` on.
fn b_columns(base: u32, k: u32, column: u32) -> vec4<f32> {
  if (b_transposed) {
    let at = base + column * params.K + k;
    let step = params.K;
    return vec4<f32>(b_element(at), b_element(at + step), b_element(at + 2u * step), b_element(at + 3u * step));
  }
  let at = base + k * params.N + column;
  if (b_packed) { return b[at >> 2u]; }
  return vec4<f32>(b_element(at), b_element(at + 1u), b_element(at + 2u), b_element(at + 3u));
}

fn a_element(at: u32) -> f32 { return a[at >> 2u][at & 3u]; }
fn b_element(at: u32) -> f32 { return b[at >> 2u][at & 3u]; }

fn activated(v: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(activate(v.x), activate(v.y), activate(v.z), activate(v.w));
}

// Four elements of row `tile.row + i`, from `tile.column + j` on.
fn store(tile: Tile, i: u32, j: u32, made: vec4<f32>) {
  let row = tile.row + i;
  let column = tile.column + j;
  if (row >= params.M || column >= params.N) { return; }
  let slice = tile.part * params.batches + tile.batch;
  let at = (slice * params.M + row) * params.N + column;
  for (var c = 0u; c < min(params.N - column, 4u); c++) { y[at + c] = made[c]; }
}
