@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> total: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&x)) { return; }
  var old = atomicLoad(&total[0]);
  loop {
    let next = bitcast<u32>(bitcast<f32>(old) + x[i]);
    let exchange = atomicCompareExchangeWeak(&total[0], old, next);
    if (exchange.exchanged) { break; }
    old = exchange.old_value;
  }
}
