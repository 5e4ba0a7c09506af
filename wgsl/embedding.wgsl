// Rows of a table by index: y[i] = table[ids[i]], ids in -rows .. rows - 1, negative ones from the end. Elements are
// copied as words. An id out of range gives a row of `missing`, and is put into `fault` with the op's number, once.
// Backward: dtable[r] = the sum of dy[i] over the i with ids[i] = r, in rising order of i, without atomics. begin_pairs
// makes pairs (row, i), padded to a power of two by pairs that come last, as do ids out of range; sort.wgsl sorts them;
// starts_forward finds where each row's pairs begin; chunk_sums adds up `chunk` pairs where they are all of one row, so
// that no invocation of backward has many to add.
// One invocation makes four elements (forward) or one.
// uses: lib/fault, lib/index

override WORKGROUP: u32 = 64u;

struct Params {
  count: u32,
  padded: u32,
  rows: u32,
  cols: u32,
  chunk: u32,
  missing: u32,
  op: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> ids: array<i32>;
@group(0) @binding(2) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> fault: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> made_pairs: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> made_starts: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(4) var<storage, read_write> made_parts: array<f32>;
@group(0) @binding(4) var<storage, read> parts: array<f32>;
@group(0) @binding(5) var<storage, read_write> dtable: array<f32>;

const NOWHERE = 0xFFFFFFFFu;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let quad = group_index(group, groups) * WORKGROUP + lane;
  let size = params.count * params.cols;
  if (4u * quad >= size) { return; }
  let first = 4u * quad;
  if (params.cols % 4u == 0u) {
    let at = source_of(first);
    if (at == NOWHERE) { y[quad] = vec4<u32>(params.missing); return; }
    y[quad] = table[at >> 2u];
    return;
  }
  for (var c = 0u; c < min(4u, size - first); c++) {
    let at = source_of(first + c);
    if (at == NOWHERE) { y[quad][c] = params.missing; continue; }
    y[quad][c] = table[at >> 2u][at & 3u];
  }
}

@compute @workgroup_size(WORKGROUP)
fn begin_pairs(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let i = group_index(group, groups) * WORKGROUP + lane;
  if (i >= params.padded) { return; }
  var row = NOWHERE;
  if (i < params.count) { row = row_of(ids[i]); }
  made_pairs[i] = vec2<u32>(row, i);
}

@compute @workgroup_size(WORKGROUP)
fn starts_forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group_index(group, groups) * WORKGROUP + lane;
  if (row > params.rows) { return; }
  var low = 0u;
  var high = params.padded;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (pairs[middle].x < row) { low = middle + 1u; } else { high = middle; }
  }
  made_starts[row] = low;
}

@compute @workgroup_size(WORKGROUP)
fn chunk_sums(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  let chunk = index / params.cols;
  if (chunk >= params.count / params.chunk) { return; }
  let first = chunk * params.chunk;
  let last = first + params.chunk;
  var total = 0.0;
  if (pairs[first].x == pairs[last - 1u].x) { total = sum_of(first, last, index - chunk * params.cols); }
  made_parts[index] = total;
}

@compute @workgroup_size(WORKGROUP)
fn backward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  let row = index / params.cols;
  if (row >= params.rows) { return; }
  let c = index - row * params.cols;
  let first = starts[row];
  let last = starts[row + 1u];
  if (first == last) { dtable[index] = 0.0; return; }
  let first_chunk = (first + params.chunk - 1u) / params.chunk;
  let last_chunk = last / params.chunk;
  if (first_chunk >= last_chunk) { dtable[index] = sum_of(first, last, c); return; }
  var total = sum_of(first, first_chunk * params.chunk, c);
  for (var block = first_chunk; block < last_chunk; block += BLOCK) {
    var part = 0.0;
    for (var k = block; k < min(block + BLOCK, last_chunk); k++) { part += parts[k * params.cols + c]; }
    total += part;
  }
  dtable[index] = total + sum_of(last_chunk * params.chunk, last, c);
}

const BLOCK = 32u;

// The sum of column c of dy over the pairs first .. last - 1; blocks keep the total from swallowing small terms.
fn sum_of(first: u32, last: u32, c: u32) -> f32 {
  var total = 0.0;
  for (var block = first; block < last; block += BLOCK) {
    var part = 0.0;
    for (var k = block; k < min(block + BLOCK, last); k++) { part += dy[pairs[k].y * params.cols + c]; }
    total += part;
  }
  return total;
}

// Where in the table element `index` of y lies; NOWHERE, and a report, for an id out of range.
fn source_of(index: u32) -> u32 {
  let i = index / params.cols;
  let id = ids[i];
  let row = row_of(id);
  if (row == NOWHERE) { report(id, params.rows); return NOWHERE; }
  return row * params.cols + (index - i * params.cols);
}

fn row_of(id: i32) -> u32 {
  let row = select(u32(id), params.rows - u32(-id), id < 0);
  return select(NOWHERE, row, row < params.rows);
}
