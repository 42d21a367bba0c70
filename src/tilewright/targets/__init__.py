"""The machines. A target is one folder here; nothing above it knows a machine."""
