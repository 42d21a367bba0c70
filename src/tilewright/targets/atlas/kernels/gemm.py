"""Matrix products of any size: which operand stays on chip is chosen by what moves least.

One operand is held in VMEM a block at a time; the other streams past it, so it is read once
per block. The plan with the smallest estimated time wins: DRAM traffic, loads into registers
and the matrix units all count.
"""

from __future__ import annotations

from dataclasses import dataclass

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.backend import active
from tilewright.tile.layouts import SIDE

M, N, K = "M", "N", "K"
FP8, BF16 = 1024, 2048  # bytes of a tile
BODY = 850  # products of tiles in one loop body
SHARED = 3  # rows that share pushed weights


@dataclass(frozen=True)
class Plan:
    """How a product is cut up.

    rows: tiles of A held on chip at a time (all of K); B streams past, panel by panel.
    bytes: DRAM traffic. ticks: the busiest of engine, register loads and matrix units.
    """

    rows: int
    bytes: int
    ticks: int


def plan(m: int, k: int, n: int, profile: Profile) -> Plan:
    """The best block of rows for an MxK by KxN product, sizes in elements."""
    down, deep, across = (-(-size // SIDE) for size in (m, k, n))
    plans = [p for rows in range(1, down + 1) if (p := _plan(rows, down, deep, across, profile))]
    if not plans:
        raise active().error(
            "TW1660",
            f"one row of tiles of a matrix with {k} columns does not fit on chip",
            "cut K into pieces and add the products up",
        )
    return min(plans, key=lambda p: (p.ticks, p.bytes, p.rows))


def _plan(rows: int, down: int, deep: int, across: int, profile: Profile) -> Plan | None:
    panel = deep * FP8
    ring = 2 * panel
    if rows * panel + ring + rows * BF16 + 4 * BF16 > profile.vmem_bytes or rows * deep > BODY:
        return None
    blocks = -(-down // rows)
    moved = down * panel + blocks * across * panel + down * across * BF16
    transfers = moved // 4096 + 1
    engine = profile.dma.ticks(4096) * transfers
    products = down * deep * across
    groups = blocks * -(-rows // SHARED) * deep * across
    load = profile.timing["tensor_load"].latency
    lsu = (products + groups + 2 * down * across) * load
    return Plan(rows, moved, max(engine, lsu))


@tw.kernel
def gemm(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"].panels(), out: tw.bf16["M", "N"]):
    """a @ b, with the block of rows that moves least"""
    rows = plan(out.M, a.K, out.N, active_profile()).rows
    for block in tw.grid(out.M, rows * SIDE, padded=True):
        for n in tw.grid(out.N):
            acc = tw.zeros()
            for k in tw.steps(a.K, unroll=True):
                acc += a[block, k] @ b[k, n]
            out[block, n] = acc
