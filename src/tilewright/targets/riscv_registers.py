"""Names of the scalar registers of RISC-V cores, which several machines have."""

from __future__ import annotations

# By the calling convention: x0 is zero, x1 the return address, and so on.
ABI_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{k}" for k in range(8)),
    *(f"s{k}" for k in range(2, 12)),
    *(f"t{k}" for k in range(3, 7)),
)
