// Provides: philox, stream_block, unit_interval. A counter-based generator: a block of four words is a function of a
// key and a counter alone, so any element of any draw can be made anywhere, in any order, as often as needed.
// Philox4x32-10: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011.
// uses: lib/wide_product

fn philox(key: vec2<u32>, counter: vec4<u32>) -> vec4<u32> {
  var k = key;
  var c = counter;
  for (var round = 0u; round < 10u; round++) {
    let a = wide_product(0xD2511F53u, c.x);
    let b = wide_product(0xCD9E8D57u, c.z);
    c = vec4<u32>(b.y ^ c.y ^ k.x, b.x, a.y ^ c.w ^ k.y, a.x);
    k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

// The block at `position`, a 64-bit number as low and high word, plus `index` blocks.
fn stream_block(key: vec2<u32>, position: vec2<u32>, index: u32) -> vec4<u32> {
  let low = position.x + index;
  return philox(key, vec4<u32>(low, position.y + u32(low < index), 0u, 0u));
}

// The upper 24 bits as a number in [0, 1), exactly.
fn unit_interval(bits: vec4<u32>) -> vec4<f32> {
  return vec4<f32>(bits >> vec4<u32>(8u)) * 5.9604644775390625e-8;
}
