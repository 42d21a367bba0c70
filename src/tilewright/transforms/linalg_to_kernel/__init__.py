"""The parts of `convert-linalg-to-npu-kernel`: one module per kind of op, then the chains."""
