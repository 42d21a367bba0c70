"""The Coral NPU: RISC-V core with a vector unit, from a small model to one checked ELF."""
