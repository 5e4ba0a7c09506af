// The mean of 3 x 3 pixels, edges repeated. A workgroup loads its tile with a border of one pixel.
struct Params {
  width: u32,
  height: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> image: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> blurred: array<vec4<f32>>;

const TILE = 8u;
const WIDE = 10u;
var<workgroup> tile: array<vec4<f32>, 100>;

@compute @workgroup_size(TILE, TILE)
fn blur(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  for (var k = lane; k < WIDE * WIDE; k += TILE * TILE) {
    let x = clamp(i32(group.x * TILE + k % WIDE) - 1, 0, i32(params.width) - 1);
    let y = clamp(i32(group.y * TILE + k / WIDE) - 1, 0, i32(params.height) - 1);
    tile[k] = image[u32(y) * params.width + u32(x)];
  }
  workgroupBarrier();
  let x = group.x * TILE + local.x;
  let y = group.y * TILE + local.y;
  if (x >= params.width || y >= params.height) { return; }
  var sum = vec4<f32>();
  for (var row = 0u; row < 3u; row++) {
    for (var column = 0u; column < 3u; column++) {
      sum += tile[(local.y + row) * WIDE + local.x + column];
    }
  }
  blurred[y * params.width + x] = sum / 9.0;
}
