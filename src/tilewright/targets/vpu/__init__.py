"""The VPU: DMA, matrix and vector engines that run one task list, kept in step by barriers."""
