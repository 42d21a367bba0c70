"""The kernel library: micro-kernels with their instructions, layouts and addresses."""
