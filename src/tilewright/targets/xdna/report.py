"""Everything there is to say about one GEMM design, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.targets.xdna.analytic import estimate
from tilewright.targets.xdna.bandwidth import Bound, lower_bound
from tilewright.targets.xdna.checker import Check, check_design
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.events import TimeResult, simulate_time
from tilewright.targets.xdna.gemm import gemm_behind, run_gemm
from tilewright.targets.xdna.host import reference
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.nearest import nearest_legal

RECORDED = 6000  # intervals kept for the timeline


@dataclass
class GemmReport:
    """A design with its bound, time, checks and, if asked for, its values."""

    design: Design
    bound: Bound
    seconds: float
    source: str  # "model" or "events"
    checks: list[Check]
    dispatch: float = 0.0
    kernel_rate: float | None = None
    time: TimeResult | None = None
    exact: bool | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks) and self.exact is not False

    @property
    def tops(self) -> float:
        return gemm_behind(self.design).operations / self.seconds / 1e12

    def to_json(self) -> dict[str, Any]:
        gemm, device = gemm_behind(self.design), self.design.device
        kernels = [k for k in self.design.kernels if k.kind == "multiply"]
        kernel = kernel_time(kernels[0], device)
        made: dict[str, Any] = {
            "shape": [gemm.M, gemm.K, gemm.N],
            "padded": list(gemm.padded),
            "device": self.design.device_name,
            "platform": device.dram.platform,
            "bandwidth": device.dram.bandwidth / 1e9,
            "dtype": gemm.weights,
            "out": gemm.output,
            "policy": gemm.policy,
            "tile": [gemm.m, gemm.k, gemm.n],
            "k_mt": gemm.k_mt,
            "columns": gemm.columns,
            "b_layout": gemm.b_layout,
            "c_layout": gemm.c_layout,
            "c_depth": gemm.c_depth,
            "synchronisation": gemm.synchronisation,
            "stagger": gemm.stagger,
            "stream_depth": gemm.stream_depth,
            "tops": self.tops,
            "seconds": self.seconds,
            "source": self.source,
            "dispatch": self.dispatch,
            "bound": {
                "compute": self.bound.compute,
                "channel": self.bound.channel,
                "dram": self.bound.dram,
            },
            "binding": self.bound.binding,
            "l1_bytes": gemm.l1_bytes - gemm.stack_bytes,
            "stack_bytes": gemm.stack_bytes,
            "l2_bytes": gemm.l2_bytes,
            "dram_bytes": gemm.dram_bytes(),
            "kernel_macs_per_cycle": self.kernel_rate or kernel.macs_per_cycle,
            "kernel": {
                "initiation_interval": kernel.interval,
                "overhead_cycles": kernel.overhead,
                "slots": kernel.body.usage,
                "vector_registers": kernel.body.live,
            },
            "checks": [check.to_json() for check in self.checks],
        }
        if self.time is not None:
            made["critical"] = self.time.critical
            made["busy"] = {
                name: cycles / self.time.cycles
                for name, cycles in sorted(self.time.busy.items())
                if name in ("dram", "controller", self.time.critical)
            }
        if self.exact is not None:
            made["exact"] = self.exact
        if self.notes:
            made["notes"] = self.notes
        return made


def report_gemm(
    design: Design,
    *,
    kernel_rate: float | None = None,
    dispatch: float = 0.0,
    check: bool = False,
    values: bool = False,
    time: bool = False,
    seed: int = 0,
    record: bool = False,
    progress: Callable[[str], None] | None = None,
) -> GemmReport:
    """Check a design, time it by model or by events, and run its values on random data."""
    say = progress or (lambda _: None)
    gemm, device = gemm_behind(design), design.device
    say("checking")
    checks = check_design(design, deadlock=check)
    bound = lower_bound(design, kernel_rate=kernel_rate)
    seconds, source, result = estimate(gemm, device, kernel_rate).seconds, "model", None
    if (time or record) and all(c.ok for c in checks):
        say("simulating time")
        result = simulate_time(design, kernel_rate=kernel_rate, record=RECORDED if record else 0)
        if time:
            seconds, source = result.seconds, "events"
    report = GemmReport(
        design, bound, seconds + dispatch, source, checks, dispatch, kernel_rate, result
    )
    if not all(c.ok for c in checks):
        say("looking for a legal design")
        found = nearest_legal(gemm, device)
        report.notes.append(f"nearest legal: {found}" if found else "no design near is legal")
    if values and all(c.ok for c in checks):
        say("simulating values")
        report.exact = values_agree(design, seed)
    return report


def values_agree(design: Design, seed: int = 0) -> bool:
    """Whether a design computes the GEMM it says it does, bit for bit, on random operands."""
    a, b = random_operands(design, seed)
    product, expected = run_gemm(design, a, b), reference(gemm_behind(design), a, b)
    return product.dtype == expected.dtype and np.array_equal(
        product.view(np.uint8), expected.view(np.uint8)
    )


def random_operands(design: Design, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands over the whole range of their types.

    Narrow sums saturate on such data and then forget what came before, so every second row of A
    and column of B is small there: where they meet, sums hardly saturate.
    """
    gemm = gemm_behind(design)
    rng = np.random.default_rng(seed)
    if gemm.inputs == "bf16":
        a = rng.standard_normal((gemm.M, gemm.K), dtype=np.float32)
        return a, rng.standard_normal((gemm.K, gemm.N), dtype=np.float32)
    low, high = {"ternary": (-1, 1), "int4": (-8, 7)}.get(gemm.weights, (-128, 127))
    a = rng.integers(-128, 128, (gemm.M, gemm.K), dtype=np.int8)
    b = rng.integers(low, high + 1, (gemm.K, gemm.N), dtype=np.int8)
    if gemm.output in ("i8", "i16"):
        few = rng.random(a[1::2].shape) < min(1.0, 400 * 2.0**gemm.shift / gemm.K)
        a[1::2] = np.where(few, a[1::2] >> 6, 0)
        b[:, 1::2] = np.clip(b[:, 1::2], -1, 1)
    return a, b
