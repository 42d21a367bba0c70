// RUN: tilewright opt %s -p "npu-plan-memory{plan=none}" | filecheck %s --check-prefix=NONE
// RUN: tilewright opt %s -p "npu-plan-memory{flags=4}" | filecheck %s --check-prefix=PLAN
// RUN: tilewright opt %s -p "npu-plan-memory{plan=exact flags=4 keep=none weight-base=65536 store-base=131072}" | filecheck %s --check-prefix=BASES

// One load and its wait: the first address and the first flag, whatever stood there before.

// NONE-LABEL: @one_load
// NONE-NEXT:    npu_isa.dma_load rd=2, base=0, flag=0
// NONE-NEXT:    npu_isa.dma_wait flag=0
// PLAN-LABEL: @one_load
// PLAN-NEXT:    npu_isa.dma_load rd=2, base=0, flag=0
// PLAN-NEXT:    npu_isa.dma_wait flag=0
func.func @one_load() {
  npu_isa.dma_load rd=2, base=111, flag=9
  npu_isa.dma_wait flag=99
  return
}

// Three regions with counters of their own; flags in turn, waits take the oldest. With planning
// a dead buffer's place and flag are used again, and stores are kept.

// NONE-LABEL: @regions
// NONE-NEXT:    npu_isa.dma_load rd=0, base=0, size=1024, flag=0
// NONE-NEXT:    npu_isa.dma_load_mxu0 rd=1, base=8192, size=512, flag=1
// NONE-NEXT:    npu_isa.dma_wait flag=0
// NONE-NEXT:    npu_isa.dma_wait flag=1
// NONE-NEXT:    npu_isa.dma_load rd=2, base=1024, size=1024, flag=2
// NONE-NEXT:    npu_isa.dma_load_mxu1 rd=3, base=8704, size=512, flag=0
// NONE-NEXT:    npu_isa.dma_wait flag=2
// NONE-NEXT:    npu_isa.dma_wait flag=0
// NONE-NEXT:    npu_isa.dma_store rs1=4, base=20480, size=2048, flag=1
// NONE-NEXT:    npu_isa.dma_wait flag=1
// NONE-NEXT:    npu_isa.dma_store rs1=5, base=22528, size=2048, flag=2
// NONE-NEXT:    npu_isa.dma_wait flag=2
// PLAN-LABEL: @regions
// PLAN-NEXT:    npu_isa.dma_load rd=0, base=0, size=1024, flag=0
// PLAN-NEXT:    npu_isa.dma_load_mxu0 rd=1, base=1024, size=512, flag=1
// PLAN-NEXT:    npu_isa.dma_wait flag=0
// PLAN-NEXT:    npu_isa.dma_wait flag=1
// PLAN-NEXT:    npu_isa.dma_load rd=2, base=0, size=1024, flag=0
// PLAN-NEXT:    npu_isa.dma_load_mxu1 rd=3, base=1024, size=512, flag=1
// PLAN-NEXT:    npu_isa.dma_wait flag=0
// PLAN-NEXT:    npu_isa.dma_wait flag=1
// PLAN-NEXT:    npu_isa.dma_store rs1=4, base=1536, size=2048, flag=0
// PLAN-NEXT:    npu_isa.dma_wait flag=0
// PLAN-NEXT:    npu_isa.dma_store rs1=5, base=3584, size=2048, flag=0
// PLAN-NEXT:    npu_isa.dma_wait flag=0
// BASES-LABEL: @regions
// BASES:        npu_isa.dma_load_mxu0 rd=1, base=65536, size=512, flag=1
// BASES:        npu_isa.dma_store rs1=4, base=131072, size=2048, flag=0
// BASES:        npu_isa.dma_store rs1=5, base=131072, size=2048, flag=0
func.func @regions() {
  npu_isa.dma_load rd=0, base=7, size=1024, flag=0
  npu_isa.dma_load_mxu0 rd=1, base=7, size=512, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_load rd=2, base=7, size=1024, flag=0
  npu_isa.dma_load_mxu1 rd=3, base=7, size=512, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_store rs1=4, base=7, size=2048, flag=0
  npu_isa.dma_wait flag=0
  npu_isa.dma_store rs1=5, base=7, size=2048, flag=0
  npu_isa.dma_wait flag=0
  return
}

// A load that is in flight across a loop keeps its place and its flag for the whole loop.

// PLAN-LABEL: @across_a_loop
// PLAN:         npu_isa.dma_load rd=0, base=0, size=1024, flag=0
// PLAN-NEXT:    scf.for
// PLAN-NEXT:      npu_isa.dma_load rd=1, base=1024, size=1024, flag=1
// PLAN-NEXT:      npu_isa.dma_wait flag=1
// PLAN-NEXT:    }
// PLAN-NEXT:    npu_isa.dma_wait flag=0
func.func @across_a_loop(%low: index, %high: index, %step: index) {
  npu_isa.dma_load rd=0, base=0, size=1024, flag=0
  scf.for %i = %low to %high step %step {
    npu_isa.dma_load rd=1, base=0, size=1024, flag=0
    npu_isa.dma_wait flag=0
  }
  npu_isa.dma_wait flag=0
  return
}
