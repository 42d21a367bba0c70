"""One program for all layers of a model.

What is configured on the array (FIFOs, links, kernels, core programs, the places of all buffers) is
the same for every layer; a layer is a runtime sequence: two numbers for the cores, and the walks of
its operands. Switching layers therefore costs no reconfiguration. The one exception are the
resident policies: the descriptors of their panels depend on K, and the controller writes them anew
where a layer's K is not that of the layer before. The room of the panel is that of the longest K.
Weights lie in DRAM as whole panels of tiles.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.targets.xdna.analytic import estimate
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.events import simulate_time
from tilewright.targets.xdna.lowering import lower
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import (
    MAX_STREAM_DEPTH,
    SLOTS,
    Gemm,
    granules,
    refuse,
    round_up,
)
from tilewright.targets.xdna.request import gemm_of, with_batch
from tilewright.targets.xdna.search import MAX_CALLS, placed, possible, staggers

POLICIES = ("wide_k", "stock", "resident_b", "resident_a")
Shape = tuple[int, int, int]
Changes = Mapping[tuple[int, int], int]  # (K, K of the next layer) -> how often
_KEPT = 40  # candidates of a policy, by estimate, that are tried to place
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
    """What is on the array before anything runs: the same for all layers of a program.

    Of a resident panel only where it begins, how much room it has and how many slots: where slots
    end is for the descriptors to say, which the controller writes.
    """
    links = tuple(
        (link.inputs, link.outputs, link.offsets,
         link.residency and (len(link.residency.slots), link.residency.room))
        for link in design.links
    )  # fmt: skip
    panels = {link.inputs[0] for link in design.links if link.residency is not None}
    places = tuple(
        (buffer.name, buffer.holder, buffer.address)
        for buffer in lower(design).buffers
        if buffer.fifo not in panels or buffer.name.startswith(f"{buffer.fifo}_0@")
    )
    return design.device_name, design.fifos, links, design.kernels, design.cores, places


def rewritten(before: Gemm, gemm: Gemm) -> int:
    """Descriptors of memory tiles the controller writes when one layer follows another."""
    if not gemm.resident or before.slots() == gemm.slots():
        return 0
    tiles = gemm.columns if gemm.policy == "resident_b" else gemm.a_columns
    return tiles * (3 * len(gemm.slots()) + 1)


def changes_of(order: Sequence[Shape]) -> Changes:
    """How often K changes from a layer to the next, the first following the last."""
    pairs = zip(order, [*order[1:], *order[:1]], strict=True)
    return Counter((one[1], other[1]) for one, other in pairs if one[1] != other[1])


def plan_program(
    order: Sequence[Shape],
    device: ArrayDevice,
    weights: str,
    progress: Callable[[str], None] = lambda _: None,
    simulated: int = _SIMULATED,
) -> Program:
    """The program that takes least time for all layers, given in the order in which they run."""
    shapes, changes = Counter(order), changes_of(order)
    progress("estimating tiles for all layers")
    best: dict[str, list[tuple[float, int, Gemm]]] = {policy: [] for policy in POLICIES}
    tried = 0
    for gemm in _candidates(shapes, device, weights):
        tried += 1
        total = _rewriting(gemm, changes, device)
        for shape, many in shapes.items():
            total += many * estimate(fitted(gemm, shape, device), device).with_ramp
        item = (-total, -tried, gemm)
        kept = best[gemm.policy]
        if len(kept) < _KEPT:
            heapq.heappush(kept, item)
        elif item > kept[0]:
            heapq.heapreplace(kept, item)
    chosen: list[Gemm] = []
    seen: set[tuple[str, int, int]] = set()
    for _, _, gemm in sorted(itertools.chain(*best.values()), reverse=True):
        key = (gemm.policy, gemm.m, gemm.n)
        fitting = _deepest(gemm, shapes, device) if key not in seen else None
        if fitting is not None:
            seen.add(key)
            chosen.append(fitting)
        if len(chosen) == max(1, simulated):
            break
    if not chosen:
        raise refuse("no tile fits the array for these layers")
    progress("simulating the best programs")
    first = chosen[0]
    if simulated > 1:
        first = min(chosen, key=lambda gemm: _seconds(gemm, shapes, changes, device))
    designs = {shape: design_of(fitted(first, shape, device), device) for shape in shapes}
    return Program(designs, tried)


def fitted(gemm: Gemm, shape: Shape, device: ArrayDevice) -> Gemm:
    """The same configuration for another shape; what is the sequence's alone is chosen for it."""
    M, K, N = shape
    one = replace(gemm, M=M, K=K, N=N)
    if not gemm.resident:
        return one
    one = with_batch(one, device)
    if not staggers(one):
        return one
    both = (one, replace(one, stagger=True))
    return min(both, key=lambda each: estimate(each, device).with_ramp)


def _deepest(gemm: Gemm, shapes: Mapping[Shape, int], device: ArrayDevice) -> Gemm | None:
    """With as many buffers beside a resident panel as there is room for, or None."""
    for depth in range(MAX_STREAM_DEPTH if gemm.resident else 2, 1, -1):
        deep = replace(gemm, stream_depth=depth)
        if _possible(deep, shapes, device) and _fits(deep, shapes, device):
            return deep
    return None


def _fits(gemm: Gemm, shapes: Mapping[Shape, int], device: ArrayDevice) -> bool:
    """Whether buffers and descriptors have room; only those of panels depend on the shape."""
    tried = shapes if gemm.resident else [min(shapes, key=lambda s: (s[0] * s[1] * s[2], s))]
    return all(placed(fitted(gemm, shape, device), device) is not None for shape in tried)


def _rewriting(gemm: Gemm, changes: Changes, device: ArrayDevice) -> float:
    """Seconds the controller spends on descriptors of panels between the layers."""
    if not gemm.resident:
        return 0.0
    many = sum(
        count * rewritten(replace(gemm, K=before), replace(gemm, K=after))
        for (before, after), count in changes.items()
    )
    return many * device.controller.push_seconds


def _seconds(
    gemm: Gemm, shapes: Mapping[Shape, int], changes: Changes, device: ArrayDevice
) -> float:
    total = _rewriting(gemm, changes, device)
    for shape, many in shapes.items():
        one = fitted(gemm, shape, device)
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
    tile = step_m, step_k, step_n = granules(device.mac["i8"].shape, weights)
    for policy, depth, columns in itertools.product(POLICIES, (1, 2), _columns(shapes, device)):
        resident = policy.startswith("resident")
        seed = gemm_of(
            M, K, N, tile, "wide_k" if resident else policy, device,
            k_mt=tile[1], c_depth=depth, columns=columns, **options,
        )  # fmt: skip
        seed = replace(seed, policy=policy)
        for m in range(step_m, round_up(-(-M // seed.rows), step_m) + 1, step_m):
            if replace(seed, m=m).l1_bytes > room:
                break
            for n in range(step_n, round_up(-(-N // seed.columns), step_n) + 1, step_n):
                fixed = replace(seed, m=m, n=n)
                if fixed.l1_bytes > room:
                    break
                for k, k_mt in _widths(fixed, shapes, step_k, room, device):
                    gemm = replace(fixed, k=k, k_mt=k_mt)
                    if resident:
                        gemm = _with_panel(gemm, shapes)
                    if _possible(gemm, shapes, device):
                        yield gemm


def _with_panel(gemm: Gemm, shapes: Mapping[Shape, int]) -> Gemm:
    """Room for the longest K, and as many slots as the shortest one fills."""
    objects = [len(replace(gemm, K=K).slots()) for _, K, _ in shapes]
    longest = max(K for _, K, _ in shapes)
    return replace(gemm, panel_room=longest, panel_slots=min(SLOTS, *objects))


def _possible(gemm: Gemm, shapes: Mapping[Shape, int], device: ArrayDevice) -> bool:
    """Quick refusals: a resident panel has to be one for every layer."""
    if gemm.policy == "resident_a" and gemm.rows_per_a != 1:
        return False
    for M, K, N in shapes if gemm.resident else [(gemm.M, gemm.K, gemm.N)]:
        if not possible(replace(gemm, M=M, K=K, N=N), device):
            return False
    return True


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
