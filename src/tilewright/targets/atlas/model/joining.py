"""Small launches that follow each other, scheduled as one piece of code.

A launch on a few tiles spends most of its time waiting: for its weights, for constants, for the
last instruction to end. Those of others fit in there. What belongs together is decided before
anything has its place, so that tensors of such a run share no memory and each launch has room of
its own; code is joined where all of it is straight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
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
    code: dict[int, KernelCode] = {}
    starts = {run.start: run for run in runs}
    inside = {k for run in runs for k in run}
    for k in sorted(set(early) - inside):
        progress(k)
        code[k] = _alone(made[k], k)
    for k, one in enumerate(made):
        progress(k)
        waiting = [made[j] for j in starts.get(k, ())]
        pending = [one for one in waiting if isinstance(one, Pending)]
        if pending and len(pending) == len(waiting):
            code.update(zip(starts[k], _finished(pending, limit, k), strict=True))
        elif k not in code:
            code[k] = _alone(one, k)
    return [code[k] for k in range(len(made))]


def _alone(one: KernelCode | Pending, launch: int) -> KernelCode:
    """The code of a launch by itself."""
    try:
        return one if isinstance(one, KernelCode) else one.finish()
    except TilewrightError as error:
        raise LaunchRefused(error, launch) from error


def _finished(run: Sequence[Pending], limit: int, first: int) -> list[KernelCode]:
    """The code of a run that begins with launch `first`, from the cache or made, which the cache then learns."""
    keys = _keys(run, limit)
    store = content_cache.current()
    if store is not None and keys:
        raw = [store.get(key) for key in keys]
        known = [None if one is None else from_bytes(one) for one in raw]
        if all(isinstance(one, KernelCode) for one in known):
            return [one for one in known if isinstance(one, KernelCode)]
    code = _joined(run, limit, first)
    if store is not None:
        for key, one in zip(keys, code, strict=False):
            store.put(key, to_bytes(one))
    return code


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
            KernelCode(
                program, print_module(lowered.tracer.module), lowered.data, one.end, one.use
            ),
            open=number < last,
        )
        for number, ((one, lowered), program) in enumerate(zip(together, programs, strict=True))
    ]
