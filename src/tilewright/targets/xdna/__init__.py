"""XDNA: GEMM on a spatial array of VLIW cores, from buffer descriptors up.

A design (object FIFOs, links, core programs, runtime sequence) is one object: it is checked,
executed in values, timed, drawn, and written as MLIR text.
"""
