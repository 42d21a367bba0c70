"""The IR: npu_kernel, npu_schedule, npu_isa, and our widenings of linalg."""
