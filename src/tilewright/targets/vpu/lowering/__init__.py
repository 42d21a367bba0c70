"""From operations on whole tensors to tile graphs."""
