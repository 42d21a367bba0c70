// RUN: tilewright opt %s --split-input-file --verify-diagnostics -p "npu-plan-memory{flags=2 load-capacity=2048 weight-base=1048576}"

// A wait needs a transfer before it.

func.func @no_transfer() {
  // expected-error @+1 {{TW1430 npu_isa.dma_wait: no transfer is left to wait for}}
  npu_isa.dma_wait flag=0
  return
}

// -----

// Every transfer is waited for.

func.func @no_wait() {
  // expected-error @+1 {{TW1431 npu_isa.dma_load: nothing waits for this transfer in the same body}}
  npu_isa.dma_load rd=0, base=0, size=32, flag=0
  return
}

// -----

// A loop body may run more than once, so it cannot wait for one transfer from outside.

func.func @across(%low: index, %high: index, %step: index) {
  npu_isa.dma_load rd=0, base=0, size=32, flag=0
  scf.for %i = %low to %high step %step {
    // expected-error @+1 {{TW1432 npu_isa.dma_wait: waits for a transfer that is issued outside this body}}
    npu_isa.dma_wait flag=0
  }
  return
}

// -----

// Two flags carry two transfers.

func.func @flags() {
  npu_isa.dma_load rd=0, base=0, size=32, flag=0
  npu_isa.dma_load rd=1, base=0, size=32, flag=0
  // expected-error @+1 {{TW1420 load2 starts while all 2 flags are in use: load0, load1}}
  npu_isa.dma_load rd=2, base=0, size=32, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  return
}

// -----

// Two buffers in flight at once need room for both.

// expected-error @+1 {{TW1406 region load has 2048 bytes, any plan needs at least 3072}}
func.func @capacity() {
  npu_isa.dma_load rd=0, base=0, size=2048, flag=0
  npu_isa.dma_load rd=1, base=0, size=1024, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  return
}

