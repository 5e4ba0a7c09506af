// Matrix product y = a' b', optionally y = activation(a' b' + bias), as matmul.wgsl makes it, for hardware.
// Backward: da' = dy b'^T, db' = a'^T dy, dbias = the column sums of dy (after the activation's slope).
// A workgroup makes a 64 x 64 tile of y: 16 columns of a' and 16 rows of b' at a time go to workgroup memory, and each
// of its 16 x 16 invocations makes a 4 x 4 block in registers from them, by outer products; a 4 x 4 matrix holds one row
// of y in each of its columns. Past the edges the tiles hold 0. Neighbouring invocations read neighbouring elements,
// whichever way the operands lie, four at a time where the memory order allows (`a_packed`, `b_packed`: the contiguous
// extent divides by 4). The prelude gives `activate`, a <name>_value of lib/scalar. A long K is cut into `parts` of
// `k_chunk`, whose products lie one after the other in y and are summed by reduction.wgsl. A product that is too much
// work for one dispatch comes in several, each from `first_group` on.
// uses: lib/index, lib/scalar

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

const SIDE = 64u; // of a tile of y
const STEP = 16u; // along K; also the invocations along a side
const PITCH = 17u; // vectors from one k to the next in workgroup memory: 16, and one that spreads them over the banks
const K_BLOCK = 128u;

var<workgroup> a_tile: array<vec4<f32>, STEP * PITCH>;
var<workgroup> b_tile: array<vec4<f32>, STEP * PITCH>;

@compute @workgroup_size(16, 16)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = place(group, groups);
  if (tile.part >= params.parts) { return; }
  let block = product(tile, local);
  for (var i = 0u; i < 4u; i++) { store(tile, local, i, activated(block[i])); }
}

@compute @workgroup_size(16, 16)
fn bias_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let tile = place(group, groups);
  if (tile.part >= params.parts) { return; }
  let block = product(tile, local);
  let columns_bias = bias[(tile.column >> 2u) + local.x];
  for (var i = 0u; i < 4u; i++) { store(tile, local, i, activated(block[i] + columns_bias)); }
}

struct Tile {
  part: u32,
  batch: u32,
  row: u32,
  column: u32,
}

fn place(group: vec3<u32>, groups: vec3<u32>) -> Tile {
  let index = params.first_group + group_index(group, groups);
  let line = index / params.column_groups;
  let slice = line / params.row_groups;
  let row_group = line - slice * params.row_groups;
  let part = slice / params.batches;
  let column_group = index - line * params.column_groups;
  return Tile(part, slice - part * params.batches, row_group * SIDE, column_group * SIDE);
}

// Sums over K_BLOCK terms are made apart and then added up, so that a long K does not swallow small terms.
fn product(tile: Tile, local: vec3<u32>) -> mat4x4<f32> {
  let start = tile.part * params.k_chunk;
  let end = min(start + params.k_chunk, params.K);
  var block: mat4x4<f32>;
  for (var first = start; first < end; first += K_BLOCK) {
    block += partial_product(tile, local, first, min(first + K_BLOCK, end));
  }
  return block;
}

fn partial_product(tile: Tile, local: vec3<u32>, first: u32, last: u32) -> mat4x4<f32> {
  let a_base = tile.batch * params.a_stride;
  let b_base = tile.batch * params.b_stride;
  var block: mat4x4<f32>;
  for (var start = first; start < last; start += STEP) {
    // The invocations go along local.x where the elements do: down the columns of a matrix that lies transposed.
    if (a_transposed) {
      a_tile[local.y * PITCH + local.x] = a_rows(a_base, tile.row + 4u * local.x, start + local.y, last);
    } else {
      a_tile[local.x * PITCH + local.y] = a_rows(a_base, tile.row + 4u * local.y, start + local.x, last);
    }
    if (b_transposed) {
      b_tile[local.x * PITCH + local.y] = b_columns(b_base, start + local.x, tile.column + 4u * local.y, last);
    } else {
      b_tile[local.y * PITCH + local.x] = b_columns(b_base, start + local.y, tile.column + 4u * local.x, last);
    }
    workgroupBarrier();
    for (var k = 0u; k < STEP; k++) {
      let u = a_tile[k * PITCH + local.y];
      let p = b_tile[k * PITCH + local.x];
      block += mat4x4<f32>(u.x * p, u.y * p, u.z * p, u.w * p);
    }
    workgroupBarrier();
  }
  return block;
}

// Four elements of column k of a', from `row` down; 0 past the last row and from `last` on.
fn a_rows(base: u32, row: u32, k: u32, last: u32) -> vec4<f32> {
  if (k >= last || row >= params.M) { return vec4<f32>(); }
  let at = base + select(row * params.K + k, k * params.M + row, a_transposed);
  if (a_packed) { return a[at >> 2u]; }
  let step = select(params.K, 1u, a_transposed);
  var found = vec4<f32>();
  for (var i = 0u; i < min(params.M - row, 4u); i++) { found[i] = a_element(at + i * step); }
  return found;
}

// Four elements of row k of b', from `column` on; 0 past the last column and from `last` on.
fn b_columns(base: u32, k: u32, column: u32, last: u32) -> vec4<f32> {
  if (k >= last || column >= params.N) { return vec4<f32>(); }
  let at = base + select(k * params.N + column, column * params.K + k, b_transposed);
  if (b_packed) { return b[at >> 2u]; }
  let step = select(1u, params.K, b_transposed);
  var found = vec4<f32>();
  for (var i = 0u; i < min(params.N - column, 4u); i++) { found[i] = b_element(at + i * step); }
  return found;
}

fn a_element(at: u32) -> f32 { return a[at >> 2u][at & 3u]; }
fn b_element(at: u32) -> f32 { return b[at >> 2u][at & 3u]; }

fn activated(v: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(activate(v.x), activate(v.y), activate(v.z), activate(v.w));
}

// The four elements that an invocation made of its row `i`.
fn store(tile: Tile, local: vec3<u32>, i: u32, made: vec4<f32>) {
  let row = tile.row + 4u * local.y + i;
  let column = tile.column + 4u * local.x;
  if (row >= params.M || column >= params.N) { return; }
  let slice = tile.part * params.batches + tile.batch;
  let at = (slice * params.M + row) * params.N + column;
  for (var c = 0u; c < min(params.N - column, 4u); c++) { y[at + c] = made[c]; }
}
