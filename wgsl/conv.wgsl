// Convolution of N images of W, H, D with `taps`, in groups of channels that see nothing of each other: with o the
// channels made and c the channels read, y_nop = sum over c and t of weight_oct x_ncq + bias_o, q = p stride - pad +
// t dilation, outside of the image 0. Backward: dx_ncq = sum over o and t of weight_oct dy_nop, over the p and t that
// meet q; dweight is in conv_weight.wgsl, dbias in conv_bias.wgsl.
// Both are matrix products, rows (channels made) by columns (positions of all images), whose right operand is read from
// where it lies. One invocation makes 8 rows of 8 columns in registers, as four 4 x 4 matrices that hold a column of the
// result in each of theirs; its columns are WORKGROUP apart, so that neighbours read what is next to each other. Where
// a tap falls is worked out once for all channels. `arranged` is the weight as the products read it: for each group, tap
// and term the rows, `padded_rows` of them. Many terms are cut into `parts` of `chunk`, whose sums lie one after the
// other in `result` and are added by reduction.wgsl. A product that is too much work for one dispatch comes in several,
// each from `first_group` on.
// uses: lib/block, lib/index, lib/window

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  terms: u32,
  padded_rows: u32,
  columns: u32,
  groups: u32,
  row_groups: u32,
  column_groups: u32,
  first_group: u32,
  batch: u32,
  parts: u32,
  chunk: u32,
  source_volume: u32,
  result_volume: u32,
  taps: vec4<u32>,
  source_extents: vec4<u32>,
  result_extents: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
  dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read> arranged: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = place(group, groups, lane);
  if (tile.part >= params.parts) { return; }
  store_block(tile, product(tile, false), vec4<f32>(), vec4<f32>());
}

@compute @workgroup_size(WORKGROUP)
fn bias_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = place(group, groups, lane);
  if (tile.part >= params.parts) { return; }
  let at = tile.channel_group * params.rows + tile.row;
  let upper = vec4<f32>(bias[at], bias[at + 1u], bias[at + 2u], bias[at + 3u]);
  let lower = vec4<f32>(bias[at + 4u], bias[at + 5u], bias[at + 6u], bias[at + 7u]);
  store_block(tile, product(tile, false), upper, lower);
}

@compute @workgroup_size(WORKGROUP)
fn input_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = place(group, groups, lane);
  if (tile.part >= params.parts) { return; }
  store_block(tile, product(tile, true), vec4<f32>(), vec4<f32>());
}

struct Tile {
  part: u32,
  channel_group: u32,
  row: u32,
  column: u32,
}

fn place(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> Tile {
  let index = params.first_group + group_index(group, groups);
  let line = index / params.column_groups;
  let slice = line / params.row_groups;
  let row = (line - slice * params.row_groups) * 8u;
  let part = slice / params.groups;
  return Tile(part, slice - part * params.groups, row, (index - line * params.column_groups) * WORKGROUP * 8u + lane);
}

const K_BLOCK = 128u;

// Sums over K_BLOCK terms or somewhat more are made apart and then added up, so that many do not swallow small ones.
fn product(tile: Tile, backward: bool) -> Block {
  let left = columns_from(tile, 0u, backward);
  let right = columns_from(tile, 4u, backward);
  let begin = tile.part * params.chunk;
  let end = min(begin + params.chunk, params.terms);
  var total: Block;
  var block: Block;
  var pending = 0u;
  var tap = vec3<u32>();
  for (var number = 0u; number < params.taps.w; number++) {
    let offset = tap * params.dilation.xyz;
    let p = met_by(left, offset, backward);
    let q = met_by(right, offset, backward);
    let weights = (tile.channel_group * params.taps.w + number) * params.terms;
    for (var first = begin; first < end; first += K_BLOCK) {
      let last = min(first + K_BLOCK, end);
      for (var term = first; term < last; term++) {
        let at = ((weights + term) * params.padded_rows + tile.row) >> 2u;
        let upper = arranged[at];
        let lower = arranged[at + 1u];
        let u = elements(p, term);
        let v = elements(q, term);
        block.upper_left += mat4x4<f32>(upper * u.x, upper * u.y, upper * u.z, upper * u.w);
        block.upper_right += mat4x4<f32>(upper * v.x, upper * v.y, upper * v.z, upper * v.w);
        block.lower_left += mat4x4<f32>(lower * u.x, lower * u.y, lower * u.z, lower * u.w);
        block.lower_right += mat4x4<f32>(lower * v.x, lower * v.y, lower * v.z, lower * v.w);
      }
      pending += last - first;
      if (pending >= K_BLOCK) {
        total = block_sum(total, block);
        block = Block();
        pending = 0u;
      }
    }
    tap = next_tap(tap, params.taps);
  }
  return block_sum(total, block);
}

// Four columns of the result: the image that each reads, and its window there or, backward, its place.
struct Columns {
  base: vec4<u32>,
  at: Coordinates,
}

fn columns_from(tile: Tile, first: u32, backward: bool) -> Columns {
  let column = numbers(tile, first);
  let n = column / params.result_volume;
  let base = (n * params.groups + tile.channel_group) * params.terms * params.source_volume;
  let at = coordinates(column - n * params.result_volume, params.result_extents);
  if (backward) { return Columns(base, at); }
  return Columns(base, window_start(at, params.stride, params.pad));
}

fn numbers(tile: Tile, first: u32) -> vec4<u32> {
  return min(tile.column + (first + vec4<u32>(0u, 1u, 2u, 3u)) * WORKGROUP, vec4<u32>(params.columns - 1u));
}

// What the columns meet at a tap, in the first of the channels.
fn met_by(columns: Columns, offset: vec3<u32>, backward: bool) -> Met {
  var found: Met;
  if (backward) {
    found = met_backward(columns.at, offset, params.source_extents, params.stride, params.pad);
  } else {
    found = met(columns.at, offset, params.source_extents);
  }
  return Met(columns.base + found.at, found.there);
}

fn elements(found: Met, term: u32) -> vec4<f32> {
  let at = found.at + term * params.source_volume;
  return select(vec4<f32>(), vec4<f32>(source[at.x], source[at.y], source[at.z], source[at.w]), found.there);
}

fn store_block(tile: Tile, block: Block, upper: vec4<f32>, lower: vec4<f32>) {
  for (var j = 0u; j < 4u; j++) {
    store(tile, j, block.upper_left[j] + upper, block.lower_left[j] + lower);
    store(tile, j + 4u, block.upper_right[j] + upper, block.lower_right[j] + lower);
  }
}

// Column j of the block, of which `upper` and `lower` are the rows.
fn store(tile: Tile, j: u32, upper: vec4<f32>, lower: vec4<f32>) {
  let column = tile.column + j * WORKGROUP;
  if (column >= params.columns) { return; }
  let n = column / params.result_volume;
  let image = tile.part * params.batch + n;
  let channel = (image * params.groups + tile.channel_group) * params.rows + tile.row;
  let at = channel * params.result_volume + column - n * params.result_volume;
  for (var i = 0u; i < min(params.rows - tile.row, 8u); i++) {
    result[at + i * params.result_volume] = select(lower, upper, i < 4u)[i & 3u];
  }
}
