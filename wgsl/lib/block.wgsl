// Provides: Block, block_sum: 8 x 8 elements in registers, as four 4 x 4 matrices, which compilers keep there.

struct Block {
  upper_left: mat4x4<f32>,
  upper_right: mat4x4<f32>,
  lower_left: mat4x4<f32>,
  lower_right: mat4x4<f32>,
}

fn block_sum(a: Block, b: Block) -> Block {
  return Block(
    a.upper_left + b.upper_left,
    a.upper_right + b.upper_right,
    a.lower_left + b.lower_left,
    a.lower_right + b.lower_right,
  );
}
