"""The kernel of recurrent layers: all steps of one layer in one direction, as a loop on the device.

The products with the inputs of all steps are made before, by one linear layer. What is left for a
step is the product with the state before it and a chain of element-wise operations on its gates.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.image_blocks import stored
from tilewright.targets.atlas.model.kernel_options import RecurrentOptions, check_program
from tilewright.targets.atlas.model.kernels import BINARY, UNARY, given
from tilewright.tile.arrays import as_tiles, kept_in_memory
from tilewright.tile.blocks import Block, whole
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import beyond_edges

Tensors = dict[str, Any]


def recurrent(o: RecurrentOptions):
    """States of all steps, one step after the other.

    x [T, B, gates * P]: what the inputs add, every gate in P columns, whole tiles of them. w [G, K, D],
    scale and bias [G, D]: the product with the first state, gate by gate. s0, s1, …: the states before
    the first step, [A, B, D] with A = 1.

    program: (operation, result, arguments) on numbers, "x0", "x1", … (gates of x), "p0", … (gates of
    the product), "s0", … (states), "r0", … (rows [R, D]) and earlier results, element by element. next: the results that are
    the next states. out [T, B, S]: the first `kept` states, all but the last in P columns. backward:
    from the last step to the first. factor: of the first state, for fp8. bias: gates of the product
    that have one.
    """
    states, biased = len(o["next"]), tuple(o["bias"])
    row = tw.bf16["G", "D"].separate()
    specs = given(
        x=tw.bf16["T", "B", "C"],
        w=tw.fp8["G", "K", "D"].panels(),
        scale=row,
        bias=row if biased else None,
        rows=tw.bf16["R", "D"].separate() if o["rows"] else None,
        **{f"s{k}": tw.bf16["A", "B", "D"] for k in range(states)},
        out=tw.bf16["T", "B", "S"],
    )
    factor = o["factor"]
    used = dict.fromkeys(a for _, _, args in o["program"] for a in args if isinstance(a, str))
    check_program(o["program"], [name for name in used if re.fullmatch(r"[xpsr]\d+", name)])

    def body(t: Tensors) -> None:
        x, w, out = t["x"], t["w"], t["out"]
        columns, wide = whole(w.D).parts(), -(-w.D // SIDE)
        high = -(-x.B // SIDE) * SIDE
        held = [tw.scratch(tw.bf16[high, w.D], on_chip=True) for _ in range(states)]
        left = tw.scratch(tw.fp8[high, w.D], on_chip=True)

        def spread_once(name: str, gates: Iterable[int]) -> dict[tuple[int, Any], Any]:
            """Rows as tiles, by gate and column of tiles: every step reads them again."""
            return {
                (g, d.start): kept_in_memory(as_tiles(t[name][g, d]))
                for g in gates
                for d in columns
            }

        scales, biases = spread_once("scale", range(w.G)), spread_once("bias", biased)
        rows = spread_once("rows", range(t["rows"].R) if "rows" in t else ())

        def inputs(step: Any, m: Any, d: Block) -> dict[str, Any]:
            """What the operations of a step begin with, in columns d."""
            values: dict[str, Any] = {}
            for name in used:
                kind, number = name[0], int(name[1:])
                if kind == "x":
                    tile = x[step, m, Block(number * wide + d.start, 1, x.C)].tiles()
                    values[name] = replace(tile, columns=[d.valid(0)])
                elif kind == "s":
                    values[name] = held[number][m, d]
                elif kind == "r":
                    values[name] = rows[number, d.start]
                elif kind == "p":
                    y = left[m, :] @ w[number, :, d] * scales[number, d.start]
                    values[name] = y + biases[number, d.start] if number in biased else y
            return values

        def computed(values: dict[str, Any]) -> list[Any]:
            for operation, result, arguments in o["program"]:
                known = [values[a] if isinstance(a, str) else a for a in arguments]
                values[result] = (UNARY if len(known) == 1 else BINARY)[operation](*known)
            return [values[name] for name in o["next"]]

        for m in tw.grid(x.B):
            for d in columns:
                # Beyond the edges states begin as zero, so that what becomes of them is known.
                first = [beyond_edges(t[f"s{k}"][0, m, d], 0.0) for k in range(states)]
                for k in range(states):
                    held[k][m, d] = first[k]
                left[m, d] = stored(first[0], factor, "fp8")
        for count in tw.each(x.T):
            step = count * -1 + (x.T - 1) if o["backward"] else count
            for m in tw.grid(x.B):
                news = [computed(inputs(step, m, d)) for d in columns]  # all before any is written
                for d, new in zip(columns, news, strict=True):
                    for k, tile in enumerate(new):
                        held[k][m, d] = tile
                    for k in range(o["kept"]):
                        last = k + 1 == o["kept"]
                        tile = replace(new[k].tiles(), columns=[d.valid(0) if last else SIDE])
                        out[step, m, Block(k * wide + d.start, 1, out.S)] = tile
                    left[m, d] = stored(new[0], factor, "fp8")

    return specs, body
