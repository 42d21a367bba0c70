"""The graph compiler: a model's operations become calls of tile kernels on tensors with places."""
