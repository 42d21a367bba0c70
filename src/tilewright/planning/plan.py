"""The front door of memory planning: buffers in, checked offsets out.

Error codes: TW1405 an unknown strategy, TW1406 buffers that do not fit, TW1407 fixed buffers
that overlap, TW1408 nothing found before the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from tilewright.errors import TilewrightError
from tilewright.planning.best_fit import best_fit
from tilewright.planning.bounds import lower_bound, peak_live
from tilewright.planning.buffers import Buffer, align_up, check_buffers, peak_of
from tilewright.planning.exact import Limits, Work, fit, minimise
from tilewright.planning.first_fit import first_fit
from tilewright.planning.in_place import merge_reuses
from tilewright.planning.orders import ORDERS
from tilewright.planning.verify import check_plan, violations

STRATEGIES = ("auto", "first-fit", "best-fit", "exact", "none")


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of memory of its own: buffers of different regions never meet."""

    name: str
    capacity: int | None = None
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """How one region was planned."""

    region: Region
    peak: int
    bound: int  # no plan has a smaller peak
    strategy: str
    work: Work

    @property
    def optimal(self) -> bool:
        """Whether no smaller peak is possible, proven."""
        return self.peak <= self.bound


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets of all buffers, checked by the independent verifier."""

    buffers: tuple[Buffer, ...]
    offsets: dict[str, int]
    regions: dict[str, RegionPlan]

    def to_json(self) -> dict[str, object]:
        return {
            "offsets": dict(self.offsets),
            "regions": {
                name: {
                    "capacity": part.region.capacity,
                    "peak": part.peak,
                    "lower_bound": part.bound,
                    "optimal": part.optimal,
                    "strategy": part.strategy,
                    "nodes": part.work.nodes,
                    "work": part.work.steps,
                    "restarts": part.work.restarts,
                    "engines": list(part.work.engines),
                }
                for name, part in self.regions.items()
            },
        }


def plan(
    buffers: Sequence[Buffer],
    capacity: int | None = None,
    alignment: int = 1,
    regions: Sequence[Region] = (),
    strategy: str = "auto",
    limits: Limits | None = None,
) -> Plan:
    """Give every buffer an offset in its region.

    `regions` name capacities and alignments; a region that is not named gets `capacity` and
    `alignment`. Strategies:
      none       one after the other, in the given order, nothing shares a byte
      first-fit  every buffer at the lowest place that is free, best of several orders
      best-fit   every buffer in the smallest gap, best of several orders
      exact      the smallest peak, proven unless a limit ends the search
      auto       the better greedy plan; exact when that does not fit the capacity
    """
    if strategy not in STRATEGIES:
        raise TilewrightError(
            "TW1405",
            f"there is no planning strategy {strategy}",
            hint=f"choose one of {', '.join(STRATEGIES)}",
        )
    check_buffers(buffers)
    known = {region.name: region for region in regions}
    offsets: dict[str, int] = {}
    parts: dict[str, RegionPlan] = {}
    for name in dict.fromkeys([*known, *(b.region for b in buffers)]):
        region = known.get(name) or Region(name, capacity, alignment)
        inside = [
            replace(b, alignment=lcm(b.alignment, region.alignment))
            for b in buffers
            if b.region == name
        ]
        check_buffers(inside)
        found, parts[name] = _plan_region(inside, region, strategy, limits or Limits())
        offsets |= found
    capacities = {n: p.region.capacity for n, p in parts.items() if p.region.capacity is not None}
    check_plan(buffers, offsets, capacities)
    return Plan(tuple(buffers), {b.name: offsets[b.name] for b in buffers}, parts)


def _plan_region(
    buffers: list[Buffer], region: Region, strategy: str, limits: Limits
) -> tuple[dict[str, int], RegionPlan]:
    _check_fixed(buffers, region)
    bound = lower_bound(buffers)
    if strategy == "none":
        offsets = _one_after_another(buffers)
        done = RegionPlan(region, peak_of(buffers, offsets), bound, "none", Work())
    else:
        variants = _variants(buffers)
        offsets, done = min(
            (_plan_variant(buffers, v, region, strategy, limits, bound) for v in variants),
            key=lambda result: result[1].peak,
        )
        if len(variants) == 1:
            # Without a choice of what to reuse, a proof for the variant is one for the region.
            done = replace(done, bound=max(done.bound, bound))
        else:
            done = replace(done, bound=bound)
    if region.capacity is not None and done.peak > region.capacity:
        raise _does_not_fit(buffers, done)
    return offsets, done


def _variants(buffers: list[Buffer]) -> list[tuple[list[Buffer], dict[str, str]]]:
    """The region with all reuses taken, with those of equal size, and with none."""
    if not any(b.reuses for b in buffers):
        return [(buffers, {b.name: b.name for b in buffers})]
    apart = [replace(b, reuses=()) for b in buffers]
    variants = [merge_reuses(buffers, equal) for equal in (False, True)]
    return [*variants, (apart, {b.name: b.name for b in buffers})]


def _plan_variant(
    buffers: list[Buffer],
    variant: tuple[list[Buffer], dict[str, str]],
    region: Region,
    strategy: str,
    limits: Limits,
    bound: int,
) -> tuple[dict[str, int], RegionPlan]:
    joined, holder = variant
    offsets, name = _best_greedy(joined, strategy)
    peak, work = peak_of(joined, offsets), Work()
    proven = lower_bound(joined)
    if peak > bound:
        if strategy == "exact":
            least = minimise(joined, offsets, limits, region.capacity)
            offsets, name, work, proven = least.offsets, "exact", least.work, least.bound
        elif strategy == "auto" and region.capacity is not None and peak > region.capacity:
            status, found = fit(joined, region.capacity, limits, work)
            if status == "solved":
                offsets, name = found, "exact"
            elif status == "infeasible":
                proven = max(proven, region.capacity + 1)
    offsets = {b.name: offsets[holder[b.name]] for b in buffers}
    return offsets, RegionPlan(region, peak_of(buffers, offsets), proven, name, work)


def _best_greedy(buffers: list[Buffer], strategy: str) -> tuple[dict[str, int], str]:
    """The lowest greedy plan; the first of equals."""
    planners: dict[str, Callable[[Sequence[Buffer], str], dict[str, int]]] = {
        "first-fit": first_fit,
        "best-fit": best_fit,
    }
    chosen = [strategy] if strategy in planners else list(planners)
    plans = [(planners[name](buffers, order), name) for name in chosen for order in ORDERS]
    return min(plans, key=lambda item: peak_of(buffers, item[0]))


def _one_after_another(buffers: list[Buffer]) -> dict[str, int]:
    """Offsets that only grow: nothing is ever reused."""
    offsets = {b.name: b.offset for b in buffers if b.offset is not None}
    top = peak_of([b for b in buffers if b.offset is not None], offsets)
    for buffer in buffers:
        if buffer.offset is None:
            offsets[buffer.name] = align_up(top, buffer.alignment)
            top = offsets[buffer.name] + buffer.size
    return offsets


def _check_fixed(buffers: list[Buffer], region: Region) -> None:
    fixed = [b for b in buffers if b.offset is not None]
    offsets: Mapping[str, int] = {b.name: b.offset for b in fixed if b.offset is not None}
    broken = violations(fixed, offsets)
    if broken:
        raise TilewrightError(
            "TW1407",
            f"region {region.name}: fixed buffers are in each other's way: {broken[0]}",
            hint="move one of them, or let the planner place it",
        )


def _does_not_fit(buffers: list[Buffer], done: RegionPlan) -> TilewrightError:
    region, capacity = done.region, done.region.capacity or 0
    worst = peak_live(buffers)
    sizes = {b.name: b.size for b in buffers}
    names = sorted(worst.names, key=lambda name: -sizes[name])
    shown = ", ".join(f"{name} ({sizes[name]})" for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    if done.bound > capacity:
        return TilewrightError(
            "TW1406",
            f"region {region.name} has {capacity} bytes, any plan needs at least {done.bound}: "
            f"at step {worst.step} {worst.live_bytes} bytes are live: {shown}{more}",
            hint=f"free {done.bound - capacity} bytes there: smaller tiles, fewer buffers in "
            "flight, recomputing or spilling a large one",
        )
    if done.strategy == "none":
        hint = f"plan with reuse: {done.bound} bytes may be enough"
    elif done.work.attempts == 0:
        hint = "strategy exact may still find a plan"
    else:
        hint = "raise the work limit, or free a little memory at that step"
    return TilewrightError(
        "TW1408",
        f"region {region.name} has {capacity} bytes, the best plan found by {done.strategy} needs "
        f"{done.peak}; at step {worst.step} {worst.live_bytes} bytes are live: {shown}{more}",
        hint=hint,
    )
