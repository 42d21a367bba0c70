"""What a task costs, in DPU cycles: exact rationals, rounded up once at the end.

These functions are the only source of modelled cycles for scheduler, simulator and reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.machine import Machine

DRAM = "dram"
CMX = "cmx"
_GRIDS = ((8, 8, 256), (16, 8, 128), (16, 16, 64))
_VECTOR_BITS = 512
_EFFICIENCY = Fraction(7, 10)


# --- DMA ---------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def dma_cycles(
    machine: Machine,
    source: str,
    target: str,
    bytes_in: int,
    bytes_out: int | None = None,
    decompress: bool = False,
) -> int:
    """A transfer between DRAM and CMX, or inside CMX."""
    bytes_out = bytes_in if bytes_out is None else bytes_out
    inside = source == CMX and target == CMX
    per_byte_in = _cycles_per_byte(machine, source, inside)
    per_byte_out = _cycles_per_byte(machine, target, inside)
    if decompress:
        per_byte_out /= 2
    latency = max(_latency(machine, source), _latency(machine, target))
    return ceil(latency + max(bytes_in * per_byte_in, bytes_out * per_byte_out))


def _latency(machine: Machine, memory: str) -> Fraction:
    rates = machine.rates
    if memory == DRAM:
        return Fraction(rates.dram_ns * rates.dpu_mhz, 1000)
    return rates.cmx_latency * rates.clock_ratio


def _cycles_per_byte(machine: Machine, memory: str, inside_cmx: bool) -> Fraction:
    rates = machine.rates
    engine = rates.cmx_copy_bytes if inside_cmx and rates.cmx_copy_bytes else rates.dma_bytes
    if memory == CMX:
        return rates.clock_ratio / engine
    if rates.floored_dram:
        return rates.clock_ratio / min(rates.dram_mbps // rates.cmx_mhz, engine)
    return max(Fraction(rates.dpu_mhz, rates.dram_mbps), rates.clock_ratio / engine)


# --- DPU ---------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def convolution_cycles(
    machine: Machine,
    output: tuple[int, int, int],
    channels_in: int,
    kernel: tuple[int, int] = (1, 1),
    bytes_in: int = 1,
    bytes_weight: int = 1,
) -> int:
    """A dense convolution with `output` = (height, width, channels); f16 operands have 2 bytes."""
    rates = machine.rates
    height, width, channels_out = output[0], output[1], _padded(output[2])
    taps = kernel[0] * kernel[1] * _padded(channels_in)
    slower = 2 if max(bytes_in, bytes_weight) > 1 else 1
    products = Fraction(taps * channels_out * height * width * slower, rates.macs)
    reads = min(
        -(-channels_out // gz) * height * width * taps * bytes_in
        + -(-height // gy) * -(-width // gx) * channels_out * taps * bytes_weight
        for gx, gy, gz in _GRIDS
    )
    return ceil(max(products, reads * rates.clock_ratio / (rates.cmx_word * rates.cmx_ports)))


@lru_cache(maxsize=1 << 16)
def matmul_cycles(
    machine: Machine, rows: int, inner: int, columns: int, bytes_in: int = 1, bytes_weight: int = 1
) -> int:
    """rows x inner times inner x columns: a 1x1 convolution over up to 16 rows side by side."""
    width = min(rows, 16)
    shape = (-(-rows // width), width, columns)
    return convolution_cycles(machine, shape, inner, (1, 1), bytes_in, bytes_weight)


def depthwise_cycles(
    machine: Machine, output: tuple[int, int, int], kernel: tuple[int, int]
) -> int:
    """Depthwise convolution or pooling: an eighth of the multiply-adds."""
    height, width, channels = output
    work = kernel[0] * kernel[1] * _padded(channels) * height * width
    return ceil(Fraction(work * 8, machine.rates.macs))


def elementwise_cycles(machine: Machine, elements: int, several_tiles: bool = False) -> int:
    """One pass over the elements; half the lanes when the result goes to several tiles."""
    return ceil(Fraction(elements * (2 if several_tiles else 1), machine.rates.lanes))


def _padded(channels: int) -> int:
    return -(-channels // 16) * 16


# --- SHAVE -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorCost:
    """Instructions per 32 outputs, and what comes on top."""

    arithmetic: int
    memory: int
    per_row: int = 0
    code: Fraction = Fraction(8, 10)
    slowdown: int = 1


_SHORT = Fraction(9, 10)
VECTOR_COSTS: dict[str, VectorCost] = {
    "softmax": VectorCost(5, 5, 50),
    "log_softmax": VectorCost(6, 5, 50),
    "add": VectorCost(1, 3, code=_SHORT),
    "multiply": VectorCost(1, 3, code=_SHORT),
    "exp": VectorCost(1, 2),
    "tanh": VectorCost(1, 2),
    "sigmoid": VectorCost(1, 2),
    "swish": VectorCost(2, 2),
    "gelu": VectorCost(4, 2),
    "divide": VectorCost(32, 3),
    "mvn": VectorCost(5, 3, 100),
    "gather": VectorCost(1, 36),
    "interpolate": VectorCost(9, 4, slowdown=2),
    "rms_norm": VectorCost(4, 4, 100),
    "layer_norm": VectorCost(6, 5, 100),
    "rope": VectorCost(3, 4),
    "silu_gate": VectorCost(3, 3),
    "quantise": VectorCost(2, 2),
    "dequantise": VectorCost(2, 2),
    "cast": VectorCost(2, 2),
    "scale": VectorCost(1, 3, code=_SHORT),
    "mask_add": VectorCost(1, 3, code=_SHORT),
    "select": VectorCost(1, 3, code=_SHORT),
    "online_softmax": VectorCost(6, 5, 60),
    "accumulate": VectorCost(2, 3, code=_SHORT),
    "normalise": VectorCost(2, 3, code=_SHORT),
    "row_max": VectorCost(1, 1, 50),
    "row_sum": VectorCost(1, 1, 50),
    "row_mean": VectorCost(1, 1, 50),
    "transpose": VectorCost(1, 36),
}
ENTRY = 1000


def vector_work(operation: str, elements: int, bits: int, rows: int = 0) -> Fraction:
    """SHAVE cycles of an operation without its entry; `bits` is the wider of its types.

    Elements are outputs, except for row reductions, which count inputs.
    """
    cost = VECTOR_COSTS[operation]
    rate = _VECTOR_BITS * Fraction(1, max(cost.memory, cost.arithmetic)) * _EFFICIENCY * cost.code
    return Fraction(elements * bits * cost.slowdown) / rate + cost.per_row * rows


@lru_cache(maxsize=1 << 16)
def vector_cycles(
    machine: Machine, operation: str, elements: int, bits: int, rows: int = 0, lenient: bool = False
) -> int:
    """A SHAVE task; an operation without a row in the table is an error unless `lenient`."""
    ratio = machine.rates.clock_ratio
    if operation not in VECTOR_COSTS:
        if lenient:
            return ceil(elements * ratio)
        raise TilewrightError(
            "TW7010",
            f"there is no SHAVE cost for {operation!r}",
            hint="--lenient-cost takes one element per cycle for it",
        )
    return ceil((ENTRY + vector_work(operation, elements, bits, rows)) * ratio)


@lru_cache(maxsize=1 << 16)
def partial_attention_cycles(machine: Machine, queries: int, block: int, width: int) -> int:
    """One step of attention over `block` keys as a single SHAVE task, products included."""
    products = Fraction(2 * queries * block * width) / (32 * _EFFICIENCY * Fraction(8, 10))
    softmax = vector_work("online_softmax", queries * block, 32, queries)
    accumulate = vector_work("accumulate", queries * width, 32)
    return ceil((ENTRY + products + softmax + accumulate) * machine.rates.clock_ratio)
