"""The kernel library."""
