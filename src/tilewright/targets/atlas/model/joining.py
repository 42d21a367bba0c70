"""Small launches that follow each other, scheduled as one piece of code.

A launch on a few tiles spends most of its time waiting: for its weights, for constants, for the
last instruction to end. Those of others fit in there. What belongs together is decided before
anything has its place, so that tensors of such a run share no memory and each launch has room of
its own; code is joined where all of it is straight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.io import content_cache
from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel
from tilewright.targets.atlas.codegen.join_routines import instructions, is_straight, joined
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.model.kernel_code import (
    KernelCode,
    LaunchRefused,
    Pending,
    from_bytes,
    to_bytes,
)
from tilewright.targets.atlas.model.lower_launch import Traces, lower_launch
from tilewright.targets.atlas.model.workers import Unit, generate


def finish(
    made: Sequence[KernelCode | Pending],
    runs: Sequence[range],
    limit: int,
    progress: Callable[[int], None] = lambda launch: None,
    early: Collection[int] = (),
) -> list[KernelCode]:
    """The code of all launches; limit: instructions that one piece of a program may have.

    early: launches whose code is made before that of the others, because it may be refused.
    """
    code = {k: one for k, one in enumerate(made) if isinstance(one, KernelCode)}
    waiting = {k: one for k, one in enumerate(made) if isinstance(one, Pending)}
    together = [run for run in runs if all(k in waiting for k in run)]
    inside = {k for run in together for k in run}
    alone = [range(k, k + 1) for k in waiting if k not in inside]
    pieces = sorted(
        [*together, *alone], key=lambda run: (run.start not in {*early} - inside, run.start)
    )
    units = [
        Unit(run.start, tuple(waiting[k].source for k in run), limit)
        for run in pieces
        if not _from_cache(run, waiting, limit, code)
    ]

    def make(unit: Unit) -> list[KernelCode]:
        progress(unit.first)
        run = [waiting[unit.first + k] for k in range(len(unit.sources))]
        return learn(unit, _made(run, limit, unit.first))

    def learn(unit: Unit, found: list[KernelCode]) -> list[KernelCode]:
        run = [waiting[unit.first + k] for k in range(len(unit.sources))]
        if len(run) == 1:
            return [run[0].learn(found[0])]
        store = content_cache.current()
        for key, one in zip(_keys(run, limit), found, strict=False):
            if store is not None:
                store.put(key, to_bytes(one))
        return found

    for first, found in generate(units, make, learn).items():
        code.update(enumerate(found, first))
    return [code[k] for k in range(len(made))]


def made_of(unit: Unit) -> list[KernelCode]:
    """The code of a unit, from its sources alone."""
    traces: Traces = {}
    run = []
    for source in unit.sources:
        lowered = lower_launch(source, traces)
        run.append(Pending(lowered.end, lambda lowered=lowered: lowered, None, source))
    return _made(run, unit.limit, unit.first)


def _made(run: Sequence[Pending], limit: int, first: int) -> list[KernelCode]:
    """The code of launches that come one after the other."""
    return _joined(run, limit, first) if len(run) > 1 else [_coded(run[0], run[0].lower(), first)]


def _from_cache(
    run: range, waiting: Mapping[int, Pending], limit: int, code: dict[int, KernelCode]
) -> bool:
    """Whether the cache has the code of a run that is made together: it is added then."""
    store = content_cache.current()
    keys = _keys([waiting[k] for k in run], limit) if store and len(run) > 1 else []
    raw = [store.get(key) for key in keys] if store else []
    known = [one for one in (from_bytes(x) for x in raw if x) if isinstance(one, KernelCode)]
    if not keys or len(known) < len(keys):
        return False
    code.update(zip(run, known, strict=True))
    return True


def _keys(run: Sequence[Pending], limit: int) -> list[bytes]:
    """What the code of each launch of a run depends on: all of them."""
    digest = hashlib.blake2b(f"{limit}".encode())
    for one in run:
        if one.key is None:
            return []
        digest.update(one.key)
    return [f"joined {number} {digest.hexdigest()}".encode() for number in range(len(run))]


def _joined(run: Sequence[Pending], limit: int, first: int) -> list[KernelCode]:
    """Straight neighbours together, everything else by itself."""
    result: list[KernelCode] = []
    together: list[tuple[Pending, LoweredKernel]] = []

    def close() -> None:
        result.extend(_closed(together, limit, first + len(result)))
        together.clear()

    for one in run:
        lowered = one.lower()
        straight = is_straight(lowered.routines)
        rows = sum(instructions(other.routines) for _, other in together)
        rows += instructions(lowered.routines)
        if not straight or rows > TUNING.joined_instructions:
            close()
        if straight:
            together.append((one, lowered))
        else:
            result.append(_coded(one, lowered, first + len(result)))
    close()
    return result


def _coded(one: Pending, lowered: LoweredKernel, launch: int) -> KernelCode:
    """The code of a launch that is lowered, by itself."""
    try:
        return one.code_of(lowered.finish())
    except TilewrightError as error:
        raise LaunchRefused(error, launch) from error


def _closed(
    together: list[tuple[Pending, LoweredKernel]], limit: int, first: int
) -> list[KernelCode]:
    """The code of straight launches from `first` on, in one piece if that is possible."""
    programs = None
    if len(together) > 1:
        kernels = [lowered.routines for _, lowered in together]
        programs = joined(kernels, [lowered.kernel.code.co_filename for _, lowered in together])
    if programs is None or sum(map(len, programs)) > limit // 2:
        return [_coded(*pair, first + k) for k, pair in enumerate(together)]
    last = len(together) - 1
    return [
        replace(
            KernelCode(program, print_module(lowered.tracer.module), lowered.data, one.end),
            open=number < last,
        )
        for number, ((one, lowered), program) in enumerate(zip(together, programs, strict=True))
    ]
