"""Search over tiles, policies and buffering: the estimate ranks all, simulation the best.

Every tile that fits a core is tried with every policy. The estimate is quick and optimistic where
transfers wait for each other, so the best candidates, and the best of each policy, are lowered,
checked to fit the memory tiles, and run in time; the fastest run wins.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.analytic import Estimate, estimate
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.events import TimeResult, simulate_time
from tilewright.targets.xdna.lowering import lower
from tilewright.targets.xdna.lowering_checks import resources
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import (
    MAX_ELEMENTS,
    MAX_STREAM_DEPTH,
    POLICIES,
    Gemm,
    granules,
    refuse,
    round_up,
)
from tilewright.targets.xdna.request import default_k_mt, gemm_of, with_batch, with_streams

SIMULATED = 8  # best candidates by estimate that are simulated, besides the best of each policy
KEPT = 500  # candidates kept: many share m and n, and the first ones may not fit
MAX_CALLS = 600_000  # kernel calls of one simulated candidate; larger problems trust the estimate


@dataclass(frozen=True)
class Candidate:
    gemm: Gemm
    estimate: Estimate


@dataclass(frozen=True)
class Found:
    """The chosen design, and what it was chosen from."""

    design: Design
    time: TimeResult | None
    estimate: Estimate
    tried: int
    ranked: tuple[tuple[Gemm, float, float | None], ...]  # gemm, estimated and simulated seconds


def search(
    M: int,
    K: int,
    N: int,
    device: ArrayDevice,
    *,
    tile: tuple[int, int, int] | None = None,
    policy: str = "auto",
    kernel_rate: float | None = None,
    simulate: bool = True,
    candidates: int = SIMULATED,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Found:
    """The fastest design of a GEMM; options as for `gemm_of`."""
    policies = POLICIES if policy == "auto" else (policy,)
    if policy != "auto" and policy not in POLICIES:
        raise refuse(f"there is no policy {policy!r}", f"policies: auto, {', '.join(POLICIES)}")
    say = progress or (lambda _: None)
    best: dict[str, list[tuple[float, int, Candidate]]] = {name: [] for name in policies}
    tried = 0
    refusal: TilewrightError | None = None
    for name in policies:
        say(f"estimating {name} designs")
        try:
            for gemm in _gemms(M, K, N, device, tile, name, options):
                tried += 1
                made = Candidate(gemm, estimate(gemm, device, kernel_rate))
                item = (-made.estimate.with_ramp, -tried, made)
                if len(best[name]) < KEPT:
                    heapq.heappush(best[name], item)
                elif item > best[name][0]:
                    heapq.heapreplace(best[name], item)
        except TilewrightError as error:
            refusal = refusal or error
    ordered = {name: [c for _, _, c in sorted(heap, reverse=True)] for name, heap in best.items()}
    if not any(ordered.values()):
        raise refusal or refuse("no tile of this GEMM fits the array")
    deepen = options.get("stream_depth") is None
    chosen = _fitting(ordered, device, candidates, deepen)
    if not chosen:
        raise refuse("no design of this GEMM fits the memory tiles", "use a smaller tile or wide_k")
    if not simulate:
        first, design = chosen[0]
        ranked = ((first.gemm, first.estimate.seconds, None),)
        return Found(design, None, first.estimate, tried, ranked)
    return _simulated(chosen, device, kernel_rate, tried, say)


def _fitting(
    ordered: dict[str, list[Candidate]], device: ArrayDevice, many: int, deepen: bool
) -> list[tuple[Candidate, Design]]:
    """The best candidates whose buffers have a place, best first, each policy with one at least."""
    everything = sorted(
        (c for found in ordered.values() for c in found), key=lambda c: c.estimate.with_ramp
    )
    chosen: list[tuple[Candidate, Design]] = []
    seen: set[str] = set()
    alike: set[tuple[str, int, int, bool]] = set()  # tiles that differ in k alone run alike
    for candidate in everything:
        gemm = candidate.gemm
        policy = gemm.policy
        key = (policy, gemm.m, gemm.n, gemm.stagger)
        if key in alike or (policy in seen and len(chosen) >= many):
            continue
        design = placed(gemm, device, deepen)
        if design is not None:
            chosen.append((candidate, design))
            seen.add(policy)
            alike.add(key)
    return chosen


def placed(gemm: Gemm, device: ArrayDevice, deepen: bool = False) -> Design | None:
    """The design of a GEMM, if its buffers, descriptors and channels have room.

    With `deepen`, what streams past a resident panel gets as many buffers as there is room for:
    DRAM and cores then wait for each other less.
    """
    if deepen and gemm.resident:
        for depth in range(MAX_STREAM_DEPTH, gemm.stream_depth, -1):
            deeper = replace(gemm, stream_depth=depth)
            if possible(deeper, device) and (design := placed(deeper, device)) is not None:
                return design
    try:
        design = design_of(gemm, device)
        lowering = lower(design)
    except TilewrightError:
        return None
    if any(buffer.holder is None for buffer in lowering.buffers):
        return None
    if not all(check.ok for check in resources(design, lowering)):
        return None
    return design


def _simulated(
    chosen: list[tuple[Candidate, Design]],
    device: ArrayDevice,
    kernel_rate: float | None,
    tried: int,
    say: Callable[[str], None],
) -> Found:
    results: list[tuple[float, Candidate, Design, TimeResult | None]] = []
    ranked = []
    for number, (candidate, design) in enumerate(chosen):
        gemm = design.gemm or candidate.gemm
        calls = gemm.steps * gemm.row_tiles * gemm.column_tiles * gemm.rows * gemm.columns
        say(f"simulating {gemm.policy} {gemm.m}x{gemm.k}x{gemm.n} ({number + 1} of {len(chosen)})")
        time = None
        if calls <= MAX_CALLS or number < 1:
            time = simulate_time(design, device, kernel_rate)
            results.append((time.seconds, candidate, design, time))
        ranked.append((gemm, candidate.estimate.seconds, time.seconds if time else None))
    _, candidate, design, time = min(results, key=lambda r: r[0])
    return Found(design, time, candidate.estimate, tried, tuple(ranked))


def _gemms(
    M: int,
    K: int,
    N: int,
    device: ArrayDevice,
    tile: tuple[int, int, int] | None,
    policy: str,
    options: dict[str, Any],
) -> Iterator[Gemm]:
    """All legal GEMMs of a policy: one tile or all, single and double C unless one is asked for."""
    depths = [options["c_depth"]] if options.get("c_depth") else [1, 2]
    if options.get("wide_sum"):
        depths = [1]
    for depth in depths:
        asked = {**options, "c_depth": depth}
        if tile is not None:
            try:
                yield gemm_of(M, K, N, tile, policy, device, **asked)
            except TilewrightError:
                if depth == depths[-1] and len(depths) == 1:
                    raise
            continue
        yield from _tiles(M, K, N, device, policy, asked)


def _tiles(
    M: int, K: int, N: int, device: ArrayDevice, policy: str, options: dict[str, Any]
) -> Iterator[Gemm]:
    """Every tile that fits a core, padding no more than the shape needs."""
    seed = _smallest(M, K, N, device, policy, options)
    room = device.tile["core"].memory_bytes
    step_m, step_k, step_n = granules(seed.block, seed.weights)
    most_m = round_up(-(-M // seed.rows), step_m)
    most_n = round_up(-(-N // seed.columns), step_n)
    k_mt = options.get("k_mt")
    wide = lru_cache(lambda k: k_mt or default_k_mt(K, k, device, seed.input_bytes))
    for m in range(step_m, most_m + 1, step_m):
        if replace(seed, m=m).l1_bytes > room:
            break
        for n in range(step_n, most_n + 1, step_n):
            fixed = replace(seed, m=m, n=n)
            if fixed.l1_bytes > room:
                break
            per_k = (replace(fixed, k=2 * step_k).l1_bytes - fixed.l1_bytes) // step_k
            most_k = step_k + (room - fixed.l1_bytes) // per_k // step_k * step_k
            longest = min(most_k, round_up(K, step_k))
            for k in range(longest, 0, -step_k):
                if 4 * k < longest:
                    break  # far shorter steps than fit only lose
                across = k if policy == "stock" else wide(k)
                if across % k:
                    continue
                gemm = replace(fixed, k=k, k_mt=across)
                if gemm.row_streamed:
                    gemm = with_streams(gemm, device, options.get("stream_depth"))
                if possible(gemm, device):
                    gemm = with_batch(gemm, device)
                    yield gemm
                    if not gemm.stagger and staggers(gemm):
                        yield replace(gemm, stagger=True)


def staggers(gemm: Gemm) -> bool:
    """Whether columns can change their panels one after the other."""
    if gemm.policy != "resident_b" or gemm.synchronisation != "rolling" or gemm.column_tiles < 2:
        return False
    return any(replace(gemm, stagger=True).phases())


def _smallest(
    M: int, K: int, N: int, device: ArrayDevice, policy: str, options: dict[str, Any]
) -> Gemm:
    """The smallest tile, for its checked options."""
    dtype = options.get("dtype", "i8")
    mode = "bf16" if dtype == "bf16" else "i8"
    if mode not in device.mac:
        raise refuse(f"{device.name} has no multiply for {dtype}")
    weights = options.get("weights") or (dtype if dtype in ("ternary", "int4") else mode)
    tile = granules(device.mac[mode].shape, weights)
    small = {**options, "k_mt": tile[1]}
    return gemm_of(M, K, N, tile, policy, device, **small)


def possible(gemm: Gemm, device: ArrayDevice) -> bool:
    """Quick refusals, before anything is built."""
    if gemm.largest_operand > MAX_ELEMENTS:
        return False
    if gemm.policy == "resident_b" and gemm.row_tiles < 2:
        return False
    if gemm.policy == "resident_a" and gemm.column_tiles < 2:
        return False
    if gemm.policy.startswith("resident") and gemm.sweeps - 2 > device.max_repeat:
        return False
    return gemm.l2_bytes <= device.tile["memory"].memory_bytes * gemm.columns
