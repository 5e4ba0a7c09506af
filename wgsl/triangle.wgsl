// Triangles of the matrices in (batches, rows, cols): y = x where col - row <= diagonal, or >= diagonal for the upper one,
// else 0. The backward is the same. Elements move as words. One invocation makes one element.
// uses: lib/index

override WORKGROUP: u32 = 64u;
override upper: bool = false;

struct Params {
  size: u32,
  rows: u32,
  cols: u32,
  diagonal: i32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn forward(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group_index(group, groups) * WORKGROUP + lane;
  if (index >= params.size) { return; }
  let line = index / params.cols;
  let col = i32(index - line * params.cols);
  let row = i32(line - line / params.rows * params.rows);
  let stays = select(col - row <= params.diagonal, col - row >= params.diagonal, upper);
  y[index] = select(0u, x[index], stays);
}
