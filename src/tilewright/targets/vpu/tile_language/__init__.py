"""The tile language on the VPU: loops are written out, launches become tasks of a tile graph."""
