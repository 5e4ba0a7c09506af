// Provides: report, which notes an index out of range for the next read-back.
// Wants: the binding `fault`, array<atomic<u32>>, and `params.op`, the number of the op.

// The first to report wins. The exchange may fail for no reason, so it is tried until someone has won.
fn report(index: i32, extent: u32) {
  loop {
    let before = atomicCompareExchangeWeak(&fault[0], 0u, params.op);
    if (before.exchanged) {
      atomicStore(&fault[1], bitcast<u32>(index));
      atomicStore(&fault[2], extent);
    }
    if (before.exchanged || before.old_value != 0u) { break; }
  }
}
