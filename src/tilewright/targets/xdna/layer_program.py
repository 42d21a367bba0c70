"""One program for all layers of a model.

What is configured on the array (FIFOs, links, kernels, core programs) is the same for every layer;
a layer is a runtime sequence: two numbers for the cores, and the walks of its operands. Switching
layers therefore costs no reconfiguration. The resident policies keep panels whose size depends on
K in memory tiles that are configured beforehand, so a program for all layers uses `wide_k` or
`stock`; weights lie in DRAM as whole panels of tiles.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.targets.xdna.analytic import estimate
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.events import TimeResult, simulate_time
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import Gemm, granules, refuse, round_up
from tilewright.targets.xdna.request import gemm_of
from tilewright.targets.xdna.search import MAX_CALLS, placed

POLICIES = ("wide_k", "stock")
Shape = tuple[int, int, int]
_KEPT = 40  # candidates by estimate that are tried to place
_SIMULATED = 3
_STEPS_KEPT = 2  # widths of k tried for each m and n
_SMALL = 1 << 28  # multiplies of layers that fewer columns may be enough for
_OVERHEAD = 40.0  # cycles around the loop of a kernel, in steps of k: only to choose those widths


@dataclass(frozen=True)
class Program:
    """The array's configuration and, for each shape, the design with its runtime sequence."""

    designs: Mapping[Shape, Design]
    tried: int

    def gemm(self, shape: Shape) -> Gemm:
        found = self.designs[shape].gemm
        assert found is not None
        return found


def configuration(design: Design) -> tuple[object, ...]:
    """What is on the array before anything runs: the same for all layers of a program."""
    return design.device_name, design.fifos, design.links, design.kernels, design.cores


def plan_program(
    shapes: Mapping[Shape, int],
    device: ArrayDevice,
    weights: str,
    progress: Callable[[str], None] = lambda _: None,
    simulated: int = _SIMULATED,
) -> Program:
    """The program that takes least time for all layers; `shapes` says how many have each shape."""
    progress("estimating tiles for all layers")
    best: list[tuple[float, int, Gemm]] = []
    tried = 0
    for gemm in _candidates(shapes, device, weights):
        tried += 1
        total = sum(
            many * estimate(fitted(gemm, shape), device).with_ramp for shape, many in shapes.items()
        )
        item = (-total, -tried, gemm)
        if len(best) < _KEPT:
            heapq.heappush(best, item)
        elif item > best[0]:
            heapq.heapreplace(best, item)
    chosen: list[Gemm] = []
    seen: set[tuple[str, int, int]] = set()
    smallest = min(shapes, key=lambda shape: (shape[0] * shape[1] * shape[2], shape))
    for _, _, gemm in sorted(best, reverse=True):
        key = (gemm.policy, gemm.m, gemm.n)
        if key not in seen and placed(fitted(gemm, smallest), device) is not None:
            seen.add(key)
            chosen.append(gemm)
        if len(chosen) == max(1, simulated):
            break
    if not chosen:
        raise refuse("no tile fits the array for these layers")
    progress("simulating the best programs")
    first = (
        min(chosen, key=lambda gemm: _seconds(gemm, shapes, device)) if simulated > 1 else chosen[0]
    )
    designs = {shape: design_of(fitted(first, shape), device) for shape in shapes}
    return Program(designs, tried)


def fitted(gemm: Gemm, shape: Shape) -> Gemm:
    """The same tile and policy for another shape."""
    M, K, N = shape
    return replace(gemm, M=M, K=K, N=N)


def _seconds(gemm: Gemm, shapes: Mapping[Shape, int], device: ArrayDevice) -> float:
    total = 0.0
    for shape, many in shapes.items():
        one = fitted(gemm, shape)
        calls = one.steps * one.row_tiles * one.column_tiles * one.rows * one.columns
        if calls > MAX_CALLS // 4:
            total += many * estimate(one, device).with_ramp
        else:
            total += many * simulate_time(design_of(one, device), device).seconds
    return total


def _candidates(shapes: Mapping[Shape, int], device: ArrayDevice, weights: str) -> Iterator[Gemm]:
    """Tiles that fit a core, with the widths of k that waste least over all layers."""
    M, K, N = (max(shape[i] for shape in shapes) for i in range(3))
    options: dict[str, Any] = {"dtype": weights, "out": "i32", "pretiled": weights == "i8"}
    room = device.tile["core"].memory_bytes
    memory = device.tile["memory"].memory_bytes
    tile = step_m, step_k, step_n = granules(device.mac["i8"].shape, weights)
    for policy, depth, columns in itertools.product(POLICIES, (1, 2), _columns(shapes, device)):
        seed = gemm_of(
            M, K, N, tile, policy, device,
            k_mt=tile[1], c_depth=depth, columns=columns, **options,
        )  # fmt: skip
        for m in range(step_m, round_up(-(-M // seed.rows), step_m) + 1, step_m):
            if replace(seed, m=m).l1_bytes > room:
                break
            for n in range(step_n, round_up(-(-N // seed.columns), step_n) + 1, step_n):
                fixed = replace(seed, m=m, n=n)
                if fixed.l1_bytes > room:
                    break
                for k, k_mt in _widths(fixed, shapes, step_k, room, device):
                    gemm = replace(fixed, k=k, k_mt=k_mt)
                    if gemm.l2_bytes <= memory * gemm.columns:
                        yield gemm


def _columns(shapes: Mapping[Shape, int], device: ArrayDevice) -> list[int]:
    """All columns; for small layers also fewer, because each one costs the controller time."""
    legal = [columns for columns in (1, 2, 4, 8) if columns <= device.columns]
    largest = max(M * K * N for M, K, N in shapes)
    return legal if largest <= _SMALL else legal[-1:]


def _widths(
    fixed: Gemm, shapes: Mapping[Shape, int], step_k: int, room: int, device: ArrayDevice
) -> list[tuple[int, int]]:
    """The best (k, k_mt) for one m and n: little padding, long steps, long runs."""
    per_k = (replace(fixed, k=2 * step_k).l1_bytes - fixed.l1_bytes) // step_k
    most = step_k + (room - fixed.l1_bytes) // per_k // step_k * step_k
    longest = min(most, round_up(max(K for _, K, _ in shapes), step_k))
    found: list[tuple[float, int, int]] = []
    for k in range(longest, 0, -step_k):
        if 4 * k < longest:
            break
        widest = k if fixed.policy == "stock" else max(k, device.max_run_elements)
        for k_mt in range(k, widest + 1, k):
            slow = device.dram.bandwidth / device.dram.rate(k_mt, adjacent=False)
            cost = sum(
                many * M * N * round_up(K, k_mt) * (1 + _OVERHEAD / k) * slow**0.5
                for (M, K, N), many in shapes.items()
            )
            found.append((cost, k, k_mt))
    return [(k, k_mt) for _, k, k_mt in sorted(found)[:_STEPS_KEPT]]


def layer_times(program: Program, device: ArrayDevice) -> dict[Shape, TimeResult]:
    """Simulated time of each shape."""
    return {shape: simulate_time(design, device) for shape, design in program.designs.items()}
