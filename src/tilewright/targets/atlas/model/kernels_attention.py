"""Attention as a kernel of whole models: any mask, keys of several sources, any number of them."""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.attention import (
    Keys,
    attend,
    attend_in_parts,
    reach,
    together,
    together_causal,
)
from tilewright.targets.atlas.kernels.image_blocks import stored
from tilewright.targets.atlas.model.kernel_options import AttentionOptions
from tilewright.targets.atlas.model.kernels import Tensors, given
from tilewright.targets.atlas.model.kernels_long_attention import Span, attend_span, spans
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import beyond
from tilewright.tile.types import TensorSpec

FEWEST = (
    2  # tiles of keys at a time, below which a loop body has one block of queries: room is short
)
ALL_HEADS = 128  # tiles of scores of all heads, up to which one loop body has all of them


def attention(o: AttentionOptions):
    """softmax(q @ kt + mask) @ v for every head, fp8.

    mask: "causal", "full" ([M, N] added to the scores of all heads, or [B, M, N] with `batch`,
    [H, M, N] or [B, H, M, N] with `per_head`) or "key" ([N], or [B, N]). parts: keys and values of several sources, kt1, v1 and mask1 behind kt, v
    and mask; a causal mask is for the last of them. written_out: every block of queries has code of
    its own, for the keys that it sees under a causal mask, also where that is long. keys: so many
    tiles of keys at a time, with maximum, sum and result carried along, where all are too many. span:
    the same for so many tiles of queries side by side (see `attend_span`).
    """
    mask, batch, count = o["mask"], bool(o["batch"]), o["parts"]
    numbers = ("", *range(1, count))
    specs: dict[str, TensorSpec | None] = {"q": tw.fp8["B", "H", "M", "D"]}
    for k in numbers:
        keys = f"S{k}"
        specs[f"kt{k}"] = tw.fp8["B", "G", "D", keys].panels()
        specs[f"v{k}"] = tw.fp8["B", "G", keys, "E"]
        if mask == "full":
            lead = ("B",) * batch + ("H",) * bool(o["per_head"])
            specs[f"mask{k}"] = tw.bf16[(*lead, "M", keys)]
        elif mask == "key":
            specs[f"mask{k}"] = tw.bf16["B", keys].separate() if batch else tw.bf16[keys]
    specs["out"] = (tw.fp8 if o["out"] == "fp8" else tw.bf16)["B", "H", "M", "E"]

    def body(t: Tensors) -> None:
        q, kt, values, out = t["q"], t["kt"], t["v"], t["out"]

        def source(k: Any, b: Any, g: Any, h: Any, m: Any, plain: bool = False) -> Keys:
            """Keys and values number k, as queries m see them; plain: all of them."""
            keys, mixed, added = t[f"kt{k}"], t[f"v{k}"], t.get(f"mask{k}")

            def seen(score: Any, j: Any) -> Any:
                if mask == "causal":
                    return tw.causal(score, m, j, infinite=not blind)
                assert added is not None
                place = (m, j) if mask == "full" else (j,)
                place = (h, *place) if o["per_head"] else place
                return score + added[(b, *place) if batch else place]

            masked = k == numbers[-1] if mask == "causal" else mask is not None
            masked = masked and not plain
            return Keys(
                keys.shape[-1],
                lambda j: keys[b, g, :, j],
                lambda j: mixed[b, g, j, :],
                seen if masked else None,
                edges[k],
            )

        last = t[f"kt{numbers[-1]}"].shape[-1]
        blind = last < q.M if mask == "causal" else mask is not None  # a query may see nothing
        # A causal mask hides what lies beyond the last key as well.
        hiding = numbers[-1] if mask == "causal" else None
        edges = {k: beyond(t[f"kt{k}"].shape[-1]) if k != hiding else None for k in numbers}
        total = sum(t[f"kt{k}"].shape[-1] for k in numbers)
        limited = mask == "causal" and count == 1 and not o["keys"]
        wide = max(q.D, values.E) if o["written_out"] else None
        blocks = together_causal(q.M, kt.S, wide) if limited else together(total)
        if o["keys"] and o["keys"] < FEWEST:
            blocks = False
        if o["span"]:
            size = needed(o["keys"], "keys")
            group, tiles = q.H // kt.G, min(o["span"], -(-q.M // SIDE))
            shared = o["sharing"] if mask == "causal" and group % o["sharing"] == 0 else 1
            memory = Span.of(tiles * SIDE * shared, q.D, values.E)

            def spanned(span: Block, b: Any, g: Any, first: Any, heads: int) -> None:
                def write(h: Any, m: Block, y: Any) -> None:
                    out[b, first + h, m, :] = stored(y, 1.0, o["out"])

                attend_span(
                    memory,
                    span,
                    heads,
                    lambda h, m: q[b, first + h, m, :],
                    write,
                    lambda m, seen: source("", b, g, first, m, not seen),
                    size,
                    mask == "causal",
                )

            for span in spans(q.M, kt.S, o["span"], size, mask == "causal"):
                sharing = shared if span.size == span.tiles * SIDE else 1
                for b in tw.each(q.B):
                    for g in tw.each(kt.G):
                        for s in tw.each(group // sharing):
                            spanned(span, b, g, g * group + s * sharing, sharing)
            return

        def attended(b: Any, g: Any, h: Any, m: Any) -> None:
            sources = [source(k, b, g, h, m) for k in numbers]
            if o["keys"]:
                y = attend_in_parts(q[b, h, m, :], *sources, size=o["keys"], blind=blind)
                out[b, h, m, :] = stored(y, 1.0, o["out"])
                return
            tiles = reach(m, q.M, kt.S, wide) if limited else None
            y = attend(q[b, h, m, :], *sources, tiles=tiles, blind=blind)
            out[b, h, m, :] = stored(y, 1.0, o["out"])

        group = q.H // kt.G
        tiles = sum(-(-t[f"kt{k}"].shape[-1] // SIDE) for k in numbers)
        for b in tw.each(q.B):
            if o["by_rows"] and not limited:
                for m in tw.grid(q.M):
                    for g in tw.each(kt.G, unroll=q.H * tiles <= ALL_HEADS):
                        for r in range(group):
                            attended(b, g, g * group + r, m)
                continue
            for g in tw.each(kt.G):
                for r in tw.each(group):
                    for m in tw.grid(q.M, unroll=blocks):
                        attended(b, g, g * group + r, m)

    return given(**specs), body
