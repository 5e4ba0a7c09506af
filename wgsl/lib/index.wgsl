// Provides: group_index, strided_offset.

// The number of a workgroup in a grid that was folded into two axes.
fn group_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
  return group.y * groups.x + group.x;
}

// Where element `index` of a row-major walk over `shape` lies, in a memory walked with `strides`.
// The innermost dimension comes first; extents past `rank` are not looked at.
fn strided_offset(index: u32, rank: u32, shape: array<vec4<u32>, 2>, strides: array<vec4<u32>, 2>) -> u32 {
  var rest = index;
  var offset = axis_offset(&rest, shape[0].x, strides[0].x);
  if (rank > 1u) { offset += axis_offset(&rest, shape[0].y, strides[0].y); }
  if (rank > 2u) { offset += axis_offset(&rest, shape[0].z, strides[0].z); }
  if (rank > 3u) { offset += axis_offset(&rest, shape[0].w, strides[0].w); }
  if (rank > 4u) { offset += axis_offset(&rest, shape[1].x, strides[1].x); }
  if (rank > 5u) { offset += axis_offset(&rest, shape[1].y, strides[1].y); }
  if (rank > 6u) { offset += axis_offset(&rest, shape[1].z, strides[1].z); }
  if (rank > 7u) { offset += axis_offset(&rest, shape[1].w, strides[1].w); }
  return offset;
}

fn axis_offset(rest: ptr<function, u32>, extent: u32, stride: u32) -> u32 {
  let quotient = *rest / extent;
  let position = *rest - quotient * extent;
  *rest = quotient;
  return position * stride;
}
