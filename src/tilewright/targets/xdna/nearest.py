"""The nearest design that is legal, for one that is not.

The same policy with shorter objects comes first, then another policy with the same tile, then
smaller tiles. What is named has room for its buffers, descriptors, channels and locks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.lowering import lower
from tilewright.targets.xdna.lowering_checks import memory, resources
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import POLICIES, Gemm, granules
from tilewright.targets.xdna.request import gemm_of

_TRIED = 24  # candidates that are lowered; each takes a part of a second


def nearest_legal(gemm: Gemm, device: ArrayDevice) -> str | None:
    """What to ask for instead, or None if nothing near was found."""
    room = device.tile["memory"].memory_bytes
    near = ((g, text) for g, text in _neighbours(gemm, device) if g.l2_bytes <= g.columns * room)
    for one, text in itertools.islice(near, _TRIED):
        try:
            design = design_of(one, device)
            lowering = lower(design)
        except TilewrightError:
            continue
        if all(check.ok for check in resources(design, lowering) + memory(design, lowering)):
            return text
    return None


def _neighbours(gemm: Gemm, device: ArrayDevice) -> Iterator[tuple[Gemm, str]]:
    if gemm.policy != "stock":
        for k_mt in range(gemm.k_mt - gemm.k, 0, -gemm.k):
            yield from _asked(gemm, device, f"k_mt {k_mt}", k_mt=k_mt)
    others = [policy for policy in ("wide_k", *POLICIES) if policy != gemm.policy]
    for policy in dict.fromkeys(others):
        yield from _asked(gemm, device, f"policy {policy}", policy=policy, k_mt=None)
    steps = granules(gemm.block, gemm.weights)
    sides = (gemm.m, gemm.k, gemm.n)
    while sides != steps:
        sides = tuple(
            max(step, side * 3 // 4 // step * step) for side, step in zip(sides, steps, strict=True)
        )
        m, k, n = sides
        for policy in dict.fromkeys((gemm.policy, "wide_k")):
            text = f"tile {m},{k},{n} with policy {policy}"
            yield from _asked(gemm, device, text, policy=policy, tile=(m, k, n), k_mt=None)


def _asked(
    gemm: Gemm,
    device: ArrayDevice,
    text: str,
    k_mt: int | None,
    policy: str | None = None,
    tile: tuple[int, int, int] | None = None,
) -> Iterator[tuple[Gemm, str]]:
    """The same product asked for otherwise, if it is accepted."""
    try:
        near = gemm_of(
            gemm.M, gemm.K, gemm.N, tile or (gemm.m, gemm.k, gemm.n), policy or gemm.policy,
            device, columns=gemm.columns, k_mt=k_mt, out=gemm.output,
            dtype=gemm.weights if gemm.weights in ("ternary", "int4") else gemm.inputs,
            b_layout=gemm.b_layout, c_layout=gemm.c_layout, c_depth=gemm.c_depth,
            shift=gemm.shift, pretiled=gemm.pretiled, wide_sum=gemm.wide_sum,
        )  # fmt: skip
    except TilewrightError:
        return
    yield replace(near, rounding=gemm.rounding, saturate=gemm.saturate), text
