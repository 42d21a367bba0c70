"""What entry points have to look like to be a language model, found from their ports.

An entry point named `prefill…` or `generate…` takes `ids`, `positions` [1, T], `mask` [1, T, S + T], a
`mask.W` like it for layers that see only the last W tokens, and for every layer N `past_keys.N`, `past_values.N` [1, S, …] where S is not zero; it gives `keys.N`, `values.N`
[1, T, …] and `hidden` or `logits` of its last rows. An entry point `head` makes logits of hidden. Which
machine they are for does not matter.

Error code: TW3160 entry points that are no language model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import Port
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel

FIXED = ("ids", "positions", "mask")


@dataclass(frozen=True)
class Variant:
    """An entry point of fixed shapes: `tokens` new ones behind `past` slots."""

    entry: str
    tokens: int
    past: int
    rows: int  # of the last tokens, whose hidden states or logits it gives
    windows: tuple[int, ...] = ()  # of layers that see only so many tokens; each has a mask

    @property
    def capacity(self) -> int:
        """Rows of keys and values it attends to, new ones included."""
        return self.past + self.tokens


@dataclass(frozen=True)
class Contract:
    """A language model: its variants, smallest capacity first, and the shape of a cache."""

    prefill: tuple[Variant, ...]
    generate: tuple[Variant, ...]
    rows: dict[str, Port]  # of keys.N and values.N of one token: shape without tokens
    width: int | None  # of hidden states that the head takes; None: variants give logits
    head_rows: int
    vocabulary: int

    @property
    def capacity(self) -> int:
        return max(variant.capacity for variant in self.generate)


def contract_of(program: CompiledEntries) -> Contract:
    """The language model that a program is."""
    variants = {
        name: _variant(name, model)
        for name, model in program.entries.items()
        if name.startswith(("prefill", "generate"))
    }
    order = sorted(variants.values(), key=lambda v: (v.capacity, v.tokens))
    prefill = tuple(v for v in order if v.entry.startswith("prefill"))
    generate = tuple(v for v in order if v.entry.startswith("generate"))
    if not prefill or not generate:
        raise _bad(f"{program.name} has no entry points named prefill and generate")
    if len({variant.tokens for variant in generate}) > 1:
        raise _bad("generate variants take different numbers of tokens")
    rows = [_rows(program.entries[variant.entry]) for variant in order]
    shapes = [{name: (p.shape[2:], p.dtype) for name, p in one.items()} for one in rows]
    if any(one != shapes[0] for one in shapes):
        raise _bad("keys and values of the entry points differ in number, shape or type")
    head = program.entries.get("head")
    wanted = "logits" if head is None else "hidden"
    for variant in order:
        if wanted not in program.entries[variant.entry].outputs:
            raise _bad(f"{variant.entry} does not give {wanted}")
    last = program.entries[order[0].entry] if head is None else head
    if head is not None and (head.inputs != ("hidden",) or "logits" not in head.outputs):
        raise _bad("the head takes hidden and gives logits")
    if "logits" not in last.ports or len(last.ports["logits"].shape) != 3:
        raise _bad("logits have three dimensions")
    hidden = None if head is None else head.ports["hidden"]
    return Contract(
        prefill,
        generate,
        rows[0],
        None if hidden is None else hidden.shape[2],
        generate[0].rows if hidden is None else hidden.shape[1],
        last.ports["logits"].shape[2],
    )


def _variant(name: str, model: CompiledModel[Any]) -> Variant:
    ports = {port: model.ports[port] for port in model.inputs}
    for wanted in FIXED:
        if wanted not in ports:
            raise _bad(f"{name} has no input {wanted}")
    tokens = ports["ids"].shape[-1] if ports["ids"].shape else 0
    mask, result = ports["mask"].shape, model.ports.get("hidden") or model.ports.get("logits")
    fits = ports["ids"].shape == ports["positions"].shape == (1, tokens)
    if not fits or mask[:2] != (1, tokens) or len(mask) != 3 or result is None:
        raise _bad(
            f"the ids, positions, mask or result of {name} have other shapes than they should"
        )
    past = mask[2] - tokens
    windows = tuple(sorted(w for key in ports if (w := _window(key))))
    for window in windows:
        one = ports[f"mask.{window}"]
        if (one.shape, one.dtype) != (mask, ports["mask"].dtype):
            raise _bad(f"the masks of {name} differ in shape or type")
    found = [port for key, port in ports.items() if key.startswith("past_")]
    if past < 0 or any(port.shape[:2] != (1, past) for port in found):
        raise _bad(f"the mask of {name} does not fit its slots")
    others = [n for n in ports if n not in FIXED and not n.startswith("past_")]
    strangers = [n for n in others if not _window(n)]
    names = {f"past_{n}" for n in _rows(model)} if past else set()
    if strangers or {n for n in ports if n.startswith("past_")} != names:
        raise _bad(f"{name} has inputs that no language model takes, or lacks some")
    return Variant(name, tokens, past, result.shape[1], windows)


def _window(port: str) -> int:
    """W of an input mask.W; 0 for others."""
    kind, _, number = port.partition(".")
    fits = kind == "mask" and number.isascii() and number.isdigit() and number[0] != "0"
    return int(number) if fits and len(number) < 19 else 0


def _rows(model: CompiledModel[Any]) -> dict[str, Port]:
    """The outputs that are new rows of a cache."""
    return {
        name: model.ports[name]
        for name in model.outputs
        if name.partition(".")[0] in ("keys", "values") and name.partition(".")[2].isdigit()
    }


def _bad(message: str) -> TilewrightError:
    return TilewrightError(
        "TW3160", message, hint="see docs/language-models.md for what entry points look like"
    )
