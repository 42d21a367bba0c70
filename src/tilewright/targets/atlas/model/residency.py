"""Which results stay in VMEM, and until when: the choice that saves most transfers.

A result may stay until its last reader, or only until an earlier one: then it is written to DRAM
as well, for those that read it later. Every kernel keeps the room it works in, which grows with
the operands it has to fetch. The best choice is found by a solver with fixed limits, so the same
model always gets the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any

from tilewright.targets.atlas.kernels.attention import FEW
from tilewright.targets.atlas.model.blocking import PASSING, sums_bytes
from tilewright.targets.atlas.model.kernel_records import RECORDS, over_images
from tilewright.targets.atlas.model.kernels_images import chained, convolved
from tilewright.targets.atlas.model.known_stays import Limit, Question, answered
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE

KIB = 1024
IMAGES = 64 * KIB  # for masks and tiles between uses, of kernels over images
FEW_FILTERS = 160 * KIB  # of convolutions, which are cut by the room that they find
FILTERS, PIXELS = 384 * KIB, 32 * KIB  # of filters and of an image at a time, at least
AGAIN = 384 * KIB  # of images that are read again for other filters, at most
AROUND = 2  # times an image is read, about, by windows over few rows at a time
EFFORT = 4.0  # deterministic time of the solver


@dataclass(frozen=True)
class ResidencyInterval:
    """A tensor in VMEM from the call that makes it up to call `until`."""

    tensor: StoredTensor
    first: int
    until: int
    whole: bool  # nobody reads it later: it needs no place in DRAM


Stay = tuple[StoredTensor, int]  # a candidate, and which of its ends


@dataclass(frozen=True)
class Candidate:
    """A result that could stay in VMEM from call `first` on.

    ends: the last calls of possible stays, and how many of its transfers each saves; after the last of
    them no call reads it. leaves: the host reads it, so that it is in DRAM in any case.
    """

    first: int
    ends: tuple[tuple[int, int], ...]
    leaves: bool = False


@dataclass
class Demands:
    """What calls need beyond the estimates here, as found by lowering them.

    more: bytes. alone: calls during which nothing stays. slack: VMEM that is left unused, where
    addresses were not found otherwise.
    """

    more: dict[int, int] = field(default_factory=dict)
    alone: set[int] = field(default_factory=set)
    slack: int = 0


def choose(
    calls: Sequence[Launch],
    candidates: Mapping[StoredTensor, Candidate],
    capacity: int,
    demands: Demands,
    profile: Profile,
) -> list[ResidencyInterval]:
    """The stays that save most DRAM traffic."""
    if not candidates:
        return []
    choice = _Choice.of(calls, candidates, capacity, demands, profile)
    chosen = choice.everything()
    if chosen is None:
        chosen = choice.best()
    stays = []
    for tensor, count in chosen:
        candidate = candidates[tensor]
        until, last = candidate.ends[count][0], count + 1 == len(candidate.ends)
        whole = last and not candidate.leaves
        stays.append(ResidencyInterval(tensor, candidate.first, until, whole))
    return stays


@dataclass
class _Limit:
    """During one call: KiB of VMEM, what stays take of them, and those that may not be."""

    room: int
    terms: list[tuple[int, Stay]]
    refused: list[Stay]


@dataclass
class _Choice:
    """One stay of each candidate, or none: what each gains, and what has room together."""

    stays: dict[Stay, int] = field(default_factory=dict)  # by candidates, from short to long
    limits: list[_Limit] = field(default_factory=list)

    @staticmethod
    def of(
        calls: Sequence[Launch],
        candidates: Mapping[StoredTensor, Candidate],
        capacity: int,
        demands: Demands,
        profile: Profile,
    ) -> _Choice:
        result = _Choice()
        for tensor, candidate in candidates.items():
            for count, (_, moves) in enumerate(candidate.ends):
                result.stays[tensor, count] = moves * rounded(tensor) // KIB
        for index, call in enumerate(calls):
            terms: list[tuple[int, Stay]] = []
            refused: list[Stay] = []
            base = base_room(call, profile) + demands.more.get(index, 0)
            for parameter, tensor in call.tensors.items():
                staged = staged_bytes(call, parameter, tensor)
                base += staged
                if tensor not in candidates:
                    continue
                for other, count in result.stays:
                    if other is tensor and _covers(candidates[tensor], count, index):
                        terms.append((-staged // KIB, (other, count)))
            for tensor, count in result.stays:
                if _covers(candidates[tensor], count, index):
                    terms.append((rounded(tensor) // KIB, (tensor, count)))
                    if index in demands.alone:
                        refused.append((tensor, count))
            if terms:
                result.limits.append(_Limit(max(0, capacity - base) // KIB, terms, refused))
        return result

    def everything(self) -> list[Stay] | None:
        """The longest stay of every candidate, where they have room together and nothing else gains
        as much: then nobody needs a solver, which takes longer to load than small models to compile.
        """
        longest: dict[StoredTensor, tuple[Stay, int]] = {}
        for stay, gain in self.stays.items():
            if gain <= (longest[stay[0]][1] if stay[0] in longest else 0):
                return None
            longest[stay[0]] = stay, gain
        chosen = [stay for stay, _ in longest.values()]
        known = set(chosen)
        fits = all(
            sum(n for n, stay in limit.terms if stay in known) <= limit.room
            and known.isdisjoint(limit.refused)
            for limit in self.limits
        )
        return chosen if fits else None

    def best(self) -> list[Stay]:
        """What gains most; nothing where the solver finds nothing in time."""
        stays = list(self.stays)
        return [stays[k] for k in answered(self.question(), _solved)]

    def question(self) -> Question:
        """The same in numbers: stays of one candidate are a group."""
        number = {stay: k for k, stay in enumerate(self.stays)}
        group = {tensor: k for k, tensor in enumerate(dict.fromkeys(t for t, _ in self.stays))}
        return Question(
            [group[tensor] for tensor, _ in self.stays],
            list(self.stays.values()),
            [
                Limit(
                    limit.room,
                    [(number[stay], taken) for taken, stay in limit.terms],
                    [number[stay] for stay in limit.refused],
                )
                for limit in self.limits
            ],
            {"num_workers": 1, "random_seed": 0, "max_deterministic_time": EFFORT},
        )


def _solved(question: Question) -> list[int]:
    from ortools.sat.python import cp_model  # slow to import

    model = cp_model.CpModel()
    options: list[cp_model.IntVar] = []
    for number, group in groupby(range(len(question.groups)), key=question.groups.__getitem__):
        variables = [model.new_bool_var(f"t{number}_{k}") for k, _ in enumerate(group)]
        model.add_at_most_one(variables)
        options += variables
    for limit in question.limits:
        for k in limit.refused:
            model.add(options[k] == 0)
        model.add(sum(taken * options[k] for k, taken in limit.terms) <= limit.room)
    model.maximize(sum(100 * gain * options[k] for k, gain in enumerate(question.gains)))
    solver = cp_model.CpSolver()
    for name, value in question.settings.items():
        setattr(solver.parameters, name, value)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return []
    return [k for k, variable in enumerate(options) if solver.value(variable)]


def _covers(candidate: Candidate, count: int, index: int) -> bool:
    return candidate.first <= index <= candidate.ends[count][0]


def rounded(tensor: StoredTensor) -> int:
    return -(-tensor.layout.bytes // KIB) * KIB


# --- what kernels need for themselves, about --------------------------------------------------


def _tiles(size: int) -> int:
    return -(-size // SIDE)


def base_room(call: Launch, profile: Profile) -> int:
    """Bytes for panels of weights, double, and for tiles that wait between uses."""
    if over_images(call.kernel):
        filters = call.operands["w"].layout.bytes if "w" in call.operands else 0
        if call.kernel == "conv2d":
            across = _tiles(call.operands["w"].layout.shape[-1])
            return min(filters, max(FEW_FILTERS, 2 * filters // across)) + IMAGES
        held = 0
        if call.kernel == "chain":
            chain = chained(
                RECORDS["chain"].given(call.options)
            )  # what comes from the host passes through more buffers
            held = chain.scratch + (IMAGES if chain.parts[0].unfolded else 0)
        return min(filters, FILTERS) + IMAGES + held
    if "depth" in call.options:
        across = _tiles(call.output.layout.shape[-1])
        return sums_bytes(call.options["rows"] // SIDE, call.options["depth"] // SIDE, across)
    if call.kernel == "recurrent":  # all weights, states, and what a step has in hand
        return call.operands["w"].layout.bytes + 64 * KIB
    if call.options.get("resident"):
        return call.operands["w"].layout.bytes + 24 * KIB
    room = 8 * KIB
    for parameter in ("w", "w_low", "w_gate", "w_up"):
        if parameter in call.operands:
            layout = call.operands[parameter].layout
            wide = _tiles(layout.shape[-1]) if call.kernel == "project" else 1
            wide *= call.options.get("together", 1)
            room += 2 * _tiles(layout.shape[-2]) * KIB * wide
    if call.kernel == "attention":
        return attention_room(call.options, call.tensors)
    if call.kernel == "attention_linear":
        room = attention_room(call.options, call.tensors) + call.operands["w"].layout.bytes
        q, v = call.operands["q"].layout, call.operands["v"].layout
        heads = q.bytes // _tiles(q.shape[-1]) * _tiles(v.shape[-1])
        return room + heads * bool(call.options.get("heads_on_chip"))
    if call.kernel == "norm" and not call.options.get("passes"):
        room += _tiles(call.output.layout.shape[-1]) * 2 * KIB
    return room


def attention_room(options: Mapping[str, Any], tensors: Mapping[str, Any]) -> int:
    """Bytes that attention needs for scores, and for spans of queries."""
    found = (t for name, t in tensors.items() if name.startswith("kt"))
    keys = sum(_tiles(t.layout.shape[-1]) for t in found)
    span = options.get("span", 0)
    keys = min(keys, max(span, options.get("keys", keys)))
    deep, wide = (_tiles(tensors[name].layout.shape[-1]) for name in "qv")
    room = options.get("sharing", 1) * span * (deep + 2 * wide + 2) * KIB
    rows = 4 if keys <= FEW else 2  # blocks of queries under way
    return room + rows * keys * 2 * KIB + 40 * KIB


def _panels(call: Launch, profile: Profile) -> int:
    """How often a convolution goes over its image, each time for other filters."""
    return _panels_of(json.dumps(call.options), profile)


@lru_cache(1024)
def _panels_of(options: str, profile: Profile) -> int:
    convolution = convolved(RECORDS["conv2d"].given(json.loads(options)))
    if convolution.filters.groups > 1:
        return 1
    panels = _tiles(convolution.filters.filters)
    return -(-panels // convolution.blocking(profile).panels)


def times_read(call: Launch, tensor: StoredTensor, profile: Profile) -> int:
    """How often a call reads one of its operands from end to end."""
    image = any(t is tensor for p, t in call.operands.items() if p.startswith("x"))
    if call.kernel == "conv2d" and image:
        return _panels(call, profile)
    if call.kernel.startswith("attention") and call.options.get("by_rows"):
        keys = [t for name, t in call.operands.items() if name.startswith(("kt", "v"))]
        return _tiles(call.operands["q"].layout.shape[-2]) if tensor in keys else 1
    if call.kernel != "chain" or call.operands.get("x") is not tensor or call.options.get("rows"):
        return 1
    first, again = call.options["parts"][0], call.operands.get("added") is tensor
    if first["groups"] != 1:
        return again + AROUND
    return again + _tiles(first["filters"])  # once for 32 that are widened


def staged_bytes(call: Launch, parameter: str, tensor: StoredTensor) -> int:
    """Bytes a call needs to hold parts of an operand that is not in VMEM."""
    layout = tensor.layout
    if parameter.startswith("w"):
        return 0
    if layout.is_vector:
        return 4 * KIB
    if over_images(call.kernel):
        # Where filters pass by an image that is not on chip, more of them at a time are worth much.
        again = call.kernel == "conv2d" and parameter.startswith("x")
        again = again and layout.bytes <= AGAIN < call.operands["w"].layout.bytes
        return min(layout.bytes, AGAIN if again else PIXELS)
    tile, across = layout.tile_bytes, _tiles(layout.shape[-1])
    if call.kernel in ("linear", "gated", "project"):
        if "depth" in call.options:
            return 0  # in the room for the sums
        if call.options.get("resident"):  # few rows at a time, those of an operand twice
            return 2 * PASSING * across * tile if parameter in ("a", "cos", "sin") else 8 * tile
        if parameter in ("a", "a_low"):
            rows = layout.shape[-2]
            held = layout.bytes * min(rows, call.options.get("rows", rows)) // rows
            if call.options.get("norm") and call.kernel == "gated":  # bf16 in passing, then fp8
                return held // 2 + 2 * across * tile
            return held
        if parameter in ("cos", "sin"):
            return layout.bytes
        high = 8 if call.options.get("together") else _tiles(layout.shape[-2])
        return 2 * high * tile
    if call.kernel == "product":
        whole = layout.bytes // layout.shape[0]  # of one batch
        if parameter == "a":
            rows = call.output.layout.shape[-2]
            return whole // max(1, -(-rows // call.options.get("rows", 1 << 30)))
        columns = call.output.layout.shape[-1]
        return 2 * whole // max(1, _tiles(columns)) if parameter == "b" else 4 * across * tile
    if call.kernel == "attention_linear" and parameter in ("residual", "out"):
        rows = call.options.get("rows", layout.shape[-2])
        return 2 * _tiles(rows) * tile
    if call.kernel.startswith("attention"):
        if parameter.startswith(("kt", "v")):
            head = layout.bytes // layout.shape[1]
            keys = _tiles(layout.shape[-1 if parameter.startswith("kt") else -2])
            most = max(call.options.get("span", 0), call.options.get("keys", keys))
            return 2 * head * min(keys, most) // keys
        rows = 1 if parameter.startswith("mask") and call.options.get("by_rows") else 4
        return 2 * rows * across * tile
    if call.kernel == "reduce" and parameter == "x":
        deep = {"column": _tiles(layout.shape[-2]), "batch": 4}.get(call.options["along"], across)
        return 2 * deep * tile * call.options.get("lines", 1)
    if call.kernel in ("norm", "softmax", "split_heads") and not call.options.get("passes"):
        return 2 * across * tile
    return 8 * tile
