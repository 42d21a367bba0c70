// RUN: tilewright opt %s --verify-diagnostics -p "npu-plan-memory{plan=none}"

// Counters that only grow run into the next region; that is said, never done.

// expected-error @+1 {{TW1433 func.func: the load region ends at 8704, the weight region begins at 8192}}
func.func @collision() {
  npu_isa.dma_load rd=0, base=0, size=8704, flag=0
  npu_isa.dma_load_mxu0 rd=1, base=0, size=1024, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  return
}
