"""Ways in from other tools: the ONNX backend interface, a device for torch."""
