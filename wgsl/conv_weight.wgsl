// The gradient of a convolution's weight (conv.wgsl): dweight_oct = sum over images n and positions p of
// dy_nop x_ncq, q = p stride - pad + t dilation, outside of the image 0.
// That is a matrix product for each group of channels: rows o by columns (c, t), along the positions of all images. One
// invocation makes 8 rows of 8 columns in registers, as four 4 x 4 matrices that hold a row in each of their columns,
// from `chunk` segments; a segment is at most SEGMENT positions of a line of one image. The sums of all chunks lie one
// after the other in dweight_parts and are added by reduction.wgsl. A product that is too much work for one dispatch
// comes in several, each from `first_group` on.
// uses: lib/block, lib/index, lib/window

override WORKGROUP: u32 = 64u;

struct Params {
  rows: u32,
  terms: u32,
  columns: u32,
  groups: u32,
  row_blocks: u32,
  column_blocks: u32,
  first_group: u32,
  segments: u32,
  line_segments: u32,
  chunk: u32,
  parts: u32,
  source_volume: u32,
  taps: vec4<u32>,
  source_extents: vec4<u32>,
  result_extents: vec4<u32>,
  stride: vec4<u32>,
  pad: vec4<u32>,
  dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dweight_parts: array<f32>;

const SEGMENT = 64u;
const K_BLOCK = 128u;

@compute @workgroup_size(WORKGROUP)
fn weight_backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (params.first_group + group_index(group, groups)) * WORKGROUP + lane;
  let line = index / params.column_blocks;
  let slice = line / params.row_blocks;
  let part = slice / params.groups;
  if (part >= params.parts) { return; }
  let channel_group = slice - part * params.groups;
  let row = (line - slice * params.row_blocks) * 8u;
  let column = (index - line * params.column_blocks) * 8u;
  let tile = Tile(channel_group, row, columns_from(channel_group, column), columns_from(channel_group, column + 4u));
  let block = product(tile, part * params.chunk);
  let at = ((part * params.groups + channel_group) * params.rows + row) * params.columns + column;
  for (var i = 0u; i < min(params.rows - row, 8u); i++) {
    let row_at = at + i * params.columns;
    store(row_at, column, select(block.lower_left[i & 3u], block.upper_left[i & 3u], i < 4u));
    store(row_at + 4u, column + 4u, select(block.lower_right[i & 3u], block.upper_right[i & 3u], i < 4u));
  }
}

fn store(at: u32, column: u32, made: vec4<f32>) {
  if (column >= params.columns) { return; }
  for (var j = 0u; j < min(params.columns - column, 4u); j++) { dweight_parts[at + j] = made[j]; }
}

struct Tile {
  channel_group: u32,
  row: u32,
  left: Columns,
  right: Columns,
}

// Four columns: the channel that each reads in the first image, and where the first window has its tap.
struct Columns {
  base: vec4<u32>,
  start: Coordinates,
}

fn columns_from(channel_group: u32, first: u32) -> Columns {
  let column = min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.columns - 1u));
  let channel = column / params.taps.w;
  let tap = coordinates(column - channel * params.taps.w, params.taps);
  return Columns(
    (channel_group * params.terms + channel) * params.source_volume,
    window_start(tap, params.dilation, params.pad),
  );
}

// Sums over K_BLOCK terms or somewhat more are made apart and then added up, so that many do not swallow small ones.
fn product(tile: Tile, first: u32) -> Block {
  let last = min(first + params.chunk, params.segments);
  let result_lines = params.result_extents.y * params.result_extents.z;
  let result_volume = params.result_extents.x * result_lines;
  let row = min(tile.row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.rows - 1u));
  let below = min(tile.row + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(params.rows - 1u));
  var total: Block;
  var block: Block;
  var pending = 0u;
  for (var segment = first; segment < last; segment++) {
    let line = segment / params.line_segments;
    let start = (segment - line * params.line_segments) * SEGMENT;
    let end = min(start + SEGMENT, params.result_extents.x);
    let n = line / result_lines;
    let image_line = line - n * result_lines;
    let d = image_line / params.result_extents.y;
    let at = vec3<u32>(0u, image_line - d * params.result_extents.y, d) * params.stride.xyz;
    let image = n * params.groups * params.terms * params.source_volume;
    let left = line_met(tile.left, at, image);
    let right = line_met(tile.right, at, image);
    let dy_base = (n * params.groups + tile.channel_group) * params.rows * result_volume
      + image_line * params.result_extents.x;
    let upper_at = dy_base + row * result_volume;
    let lower_at = dy_base + below * result_volume;
    for (var w = start; w < end; w++) {
      let u = elements(left, w * params.stride.x);
      let v = elements(right, w * params.stride.x);
      let p = upper_at + w;
      let q = lower_at + w;
      let upper = vec4<f32>(dy[p.x], dy[p.y], dy[p.z], dy[p.w]);
      let lower = vec4<f32>(dy[q.x], dy[q.y], dy[q.z], dy[q.w]);
      block.upper_left += mat4x4<f32>(upper.x * u, upper.y * u, upper.z * u, upper.w * u);
      block.upper_right += mat4x4<f32>(upper.x * v, upper.y * v, upper.z * v, upper.w * v);
      block.lower_left += mat4x4<f32>(lower.x * u, lower.y * u, lower.z * u, lower.w * u);
      block.lower_right += mat4x4<f32>(lower.x * v, lower.y * v, lower.z * v, lower.w * v);
    }
    pending += end - start;
    if (pending >= K_BLOCK) {
      total = block_sum(total, block);
      block = Block();
      pending = 0u;
    }
  }
  return block_sum(total, block);
}

// A line of x as four columns see it: where it begins in memory, the tap's place in it, and whether it exists.
struct Line {
  base: vec4<u32>,
  w: vec4<u32>,
  there: vec4<bool>,
}

fn line_met(columns: Columns, at: vec3<u32>, image: u32) -> Line {
  let h = columns.start.h + at.y;
  let d = columns.start.d + at.z;
  let there = (h < vec4<u32>(params.source_extents.y)) & (d < vec4<u32>(params.source_extents.z));
  let base = image + columns.base + (d * params.source_extents.y + h) * params.source_extents.x;
  return Line(select(vec4<u32>(), base, there), columns.start.w, there);
}

fn elements(line: Line, step: u32) -> vec4<f32> {
  let w = line.w + step;
  let there = line.there & (w < vec4<u32>(params.source_extents.x));
  let at = line.base + select(vec4<u32>(), w, there);
  return select(vec4<f32>(), vec4<f32>(x[at.x], x[at.y], x[at.z], x[at.w]), there);
}
