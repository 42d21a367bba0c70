"""The closed-form estimate of a GEMM's time, for searching; the event simulation has the last word."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.xdna.design import Kernel
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.problem import Gemm

_SHARPNESS = 6  # of the maximum of two times; fits simulations of designs near the balance


@dataclass(frozen=True)
class Estimate:
    """Seconds by cause."""

    compute: float  # multiplies
    drain: float  # C leaving single-buffered cores, and clearing it
    switch: float  # waiting for the next resident panel
    channel: float
    dram: float
    controller: float
    ramp: float  # before the first multiply and after the last
    paced: float  # multiplies at the pace at which operands reach the cores, and waiting for panels
    macs_per_cycle: float

    @property
    def core(self) -> float:
        return self.compute + self.drain + self.switch

    @property
    def seconds(self) -> float:
        """The formula: the largest of the limits."""
        return max(self.core, self.channel, self.dram)

    @property
    def with_ramp(self) -> float:
        """For ranking: the controller counts as a limit, waiting for a panel comes on top of the
        channels as it does on top of the multiplies, begin and end are not free, and where cores
        and memory take about the same time, each sometimes waits for the other."""
        array = max(self.core, self.channel, self.controller, self.paced)
        both = (array**_SHARPNESS + self.dram**_SHARPNESS) ** (1 / _SHARPNESS)
        return both + self.ramp

    @property
    def binding(self) -> str:
        parts = {"compute": self.core, "channel": self.channel, "dram": self.dram}
        return max(parts, key=lambda name: parts[name])


def multiply_kernel(gemm: Gemm) -> Kernel:
    """The multiply of a GEMM, as far as its time depends on it."""
    return Kernel(
        "", "multiply", gemm.m, gemm.k, gemm.n, gemm.block, gemm.inputs, gemm.weights, gemm.output,
        b_layout="row" if gemm.packed else gemm.b_layout, zero_point=gemm.zero_point,
        wide_sum=gemm.wide_sum,
    )  # fmt: skip


def runs(gemm: Gemm) -> dict[str, tuple[int, bool]]:
    """Bytes of the contiguous DRAM runs of each operand, and whether neighbours continue them."""
    _, K, _ = gemm.padded
    size = gemm.input_bytes
    shared = gemm.columns > 1
    a_run = gemm.object_k * size
    if gemm.object_k == K:
        a_run *= gemm.m * gemm.rows_per_a
    if gemm.packed:
        b_run, b_adjacent = gemm.weight_bytes(K * gemm.n), True
    elif gemm.b_layout == "row":
        b_run, b_adjacent = gemm.n * size, shared
    else:
        b_run, b_adjacent = gemm.object_k_b * size, False
        if gemm.object_k_b == K:
            b_run *= gemm.n
    if gemm.c_layout == "row":
        c_run, c_adjacent = gemm.n * gemm.output_bytes, shared
    else:
        c_run, c_adjacent = gemm.m * gemm.output_bytes, False
    return {"a": (a_run, False), "b": (b_run, b_adjacent), "c": (c_run, c_adjacent)}


def estimate(gemm: Gemm, device: ArrayDevice, kernel_rate: float | None = None) -> Estimate:
    """Time of a GEMM under each limit."""
    rate = kernel_rate or kernel_time(multiply_kernel(gemm), device).macs_per_cycle
    clock, width = device.clock_hz, device.stream_bytes
    cores = gemm.rows * gemm.columns
    compute = gemm.multiplies / (rate * cores * clock)
    tiles = gemm.row_tiles * gemm.column_tiles
    c_bytes = gemm.m * gemm.n * gemm.output_bytes
    drain_cycles = c_bytes / device.core.zero_bytes
    if gemm.c_depth == 1:
        drain_cycles += c_bytes / width
    drain = tiles * drain_cycles / clock
    moved = gemm.dram_bytes()
    rates = {name: device.dram.rate(run, adjacent) for name, (run, adjacent) in runs(gemm).items()}
    dram = sum(moved[name] / rates[name] for name in moved)
    a_tile = gemm.m * gemm.k * gemm.input_bytes
    b_tile = gemm.weight_bytes(gemm.k * gemm.n)
    steps = tiles * gemm.steps
    feeding = steps * max(a_tile, b_tile) / width / clock
    channels = [
        moved["a"] / gemm.a_columns / device.shim_stream_bytes,
        moved["b"] / gemm.columns / device.shim_stream_bytes,
        moved["c"] / gemm.columns / device.shim_stream_bytes,
    ]
    channel = max(feeding, max(channels) / clock)
    switch = _switch(gemm, rates, compute + drain)
    paced = max(compute, feeding) + drain
    paced += _switch(gemm, rates, paced)
    controller = gemm.controller_seconds(device)
    ramp = _ramp(gemm, device, rates)
    return Estimate(compute, drain, switch, channel, dram, controller, ramp, paced, rate)


def _switch(gemm: Gemm, rates: dict[str, float], busy: float) -> float:
    """Time the cores wait because a panel can only be replaced while its last sweep frees it."""
    if not gemm.policy.startswith("resident"):
        return 0.0
    _M, K, _N = gemm.padded
    height, width = gemm.rows * gemm.m, gemm.columns * gemm.n
    a_bytes = height * K * gemm.input_bytes / rates["a"]
    b_bytes = gemm.weight_bytes(K * width) / rates["b"]
    c_bytes = height * width * gemm.output_bytes / rates["c"]
    panels = gemm.row_tiles if gemm.policy == "resident_a" else gemm.column_tiles
    sweep = busy / (gemm.row_tiles * gemm.column_tiles)
    if gemm.stagger:  # one column's panel at a time, beside the sweeps of all; the first together
        alone = max(0.0, a_bytes + b_bytes / gemm.columns + c_bytes - sweep)
        return max(0.0, a_bytes + b_bytes + c_bytes - sweep) + (panels - 1) * alone
    return panels * max(0.0, a_bytes + b_bytes + c_bytes - sweep)


def _ramp(gemm: Gemm, device: ArrayDevice, rates: dict[str, float]) -> float:
    """The first pushes and the first objects, and the last results on their way out."""
    pushes = gemm.a_columns + gemm.columns
    if gemm.policy == "resident_b":
        pushes += gemm.columns * min(3, gemm.sweeps)
    elif gemm.policy == "resident_a":
        pushes += gemm.a_columns * min(3, gemm.sweeps)
    else:
        pushes += gemm.columns
    a_bytes = gemm.rows * gemm.m * gemm.object_k * gemm.input_bytes
    b_bytes = gemm.columns * gemm.weight_bytes(gemm.object_k_b * gemm.n)
    c_bytes = gemm.rows * gemm.m * gemm.columns * gemm.n * gemm.output_bytes
    moved = a_bytes / rates["a"] + b_bytes / rates["b"] + c_bytes / rates["c"]
    return pushes * device.controller.push_seconds + moved
