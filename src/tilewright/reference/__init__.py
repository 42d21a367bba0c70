"""Golden executors and exact low-precision arithmetic."""
