"""Models in: PyTorch, JAX, ONNX and MLIR text become one linalg-level module."""
