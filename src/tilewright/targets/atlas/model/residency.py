"""Which results stay in VMEM, and until when: the choice that saves most transfers.

A result may stay until its last reader, or only until an earlier one: then it is written to DRAM
as well, for those that read it later. Every kernel keeps the room it works in, which grows with
the operands it has to fetch. The best choice is found by a solver with fixed limits, so the same
model always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortools.sat.python import cp_model

from tilewright.targets.atlas.kernels.attention import FEW
from tilewright.targets.atlas.model.blocking import sums_bytes
from tilewright.targets.atlas.model.kernel_records import over_images
from tilewright.targets.atlas.model.kernels_images import chained
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.tile.layouts import SIDE

KIB = 1024
IMAGES = 64 * KIB  # for masks and tiles between uses, of kernels over images
FILTERS, PIXELS = 384 * KIB, 32 * KIB  # of filters and of an image at a time, at least
EFFORT = 4.0  # deterministic time of the solver


@dataclass(frozen=True)
class ResidencyInterval:
    """A tensor in VMEM from the call that makes it up to call `until`."""

    tensor: StoredTensor
    first: int
    until: int
    whole: bool  # nobody reads it later: it needs no place in DRAM


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
) -> list[ResidencyInterval]:
    """The stays that save most DRAM traffic."""
    if not candidates:
        return []
    model = cp_model.CpModel()
    options: dict[tuple[StoredTensor, int], cp_model.IntVar] = {}
    gains: list[tuple[int, cp_model.IntVar]] = []
    for number, (tensor, candidate) in enumerate(candidates.items()):
        chosen = []
        for count, (_, moves) in enumerate(candidate.ends):
            variable = model.new_bool_var(f"t{number}_{count}")
            options[tensor, count] = variable
            gains.append((moves * rounded(tensor) // KIB, variable))
            # Of equal choices the shorter stay.
            chosen.append(variable)
        model.add_at_most_one(chosen)
    for index, call in enumerate(calls):
        terms: list[tuple[int, cp_model.IntVar]] = []
        base = base_room(call) + demands.more.get(index, 0)
        for parameter, tensor in call.tensors.items():
            staged = staged_bytes(call, parameter, tensor)
            base += staged
            if tensor not in candidates:
                continue
            for (other, count), variable in options.items():
                if other is tensor and _covers(candidates[tensor], count, index):
                    terms.append((-staged, variable))
        for (tensor, count), variable in options.items():
            if _covers(candidates[tensor], count, index):
                terms.append((rounded(tensor), variable))
                if index in demands.alone:
                    model.add(variable == 0)
        if terms:
            limit = max(0, capacity - base)
            total = sum(weight // KIB * variable for weight, variable in terms)
            model.add(total <= limit // KIB)
    model.maximize(sum(100 * gain * variable for gain, variable in gains))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = EFFORT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return []
    stays = []
    for (tensor, count), variable in options.items():
        if solver.value(variable):
            candidate = candidates[tensor]
            until, last = candidate.ends[count][0], count + 1 == len(candidate.ends)
            whole = last and not candidate.leaves
            stays.append(ResidencyInterval(tensor, candidate.first, until, whole))
    return stays


def _covers(candidate: Candidate, count: int, index: int) -> bool:
    return candidate.first <= index <= candidate.ends[count][0]


def rounded(tensor: StoredTensor) -> int:
    return -(-tensor.layout.bytes // KIB) * KIB


# --- what kernels need for themselves, about --------------------------------------------------


def _tiles(size: int) -> int:
    return -(-size // SIDE)


def base_room(call: Launch) -> int:
    """Bytes for panels of weights, double, and for tiles that wait between uses."""
    if over_images(call.kernel):
        filters = call.operands["w"].layout.bytes if "w" in call.operands else 0
        held = chained(call.options).scratch if call.kernel == "chain" else 0
        return min(filters, FILTERS) + IMAGES + held
    if "depth" in call.options:
        across = _tiles(call.output.layout.shape[-1])
        return sums_bytes(call.options["rows"] // SIDE, call.options["depth"] // SIDE, across)
    if call.kernel == "recurrent":  # all weights, states, and what a step has in hand
        return call.operands["w"].layout.bytes + 64 * KIB
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
    if call.kernel == "norm":
        room += _tiles(call.output.layout.shape[-1]) * 2 * KIB
    return room


def attention_room(options: Mapping[str, Any], tensors: Mapping[str, Any]) -> int:
    """Bytes that attention needs for scores, and for spans of queries."""
    found = (t for name, t in tensors.items() if name.startswith("kt"))
    keys = sum(_tiles(t.layout.shape[-1]) for t in found)
    span = options.get("span", 0)
    keys = min(keys, max(span, options.get("keys", keys)))
    rows = 4 if keys <= FEW else 2  # blocks of queries under way
    wide = _tiles(tensors["v"].layout.shape[-1])
    return span * (2 * wide + 2) * KIB + rows * keys * 2 * KIB + 40 * KIB


def times_read(call: Launch, tensor: StoredTensor) -> int:
    """How often a call reads one of its operands from end to end."""
    if call.kernel != "chain" or call.operands["x"] is not tensor:
        return 1
    first = call.options["parts"][0]
    return _tiles(first["filters"]) if first["groups"] == 1 else 1  # once for 32 that are widened


def staged_bytes(call: Launch, parameter: str, tensor: StoredTensor) -> int:
    """Bytes a call needs to hold parts of an operand that is not in VMEM."""
    layout = tensor.layout
    if parameter.startswith("w"):
        return 0
    if layout.is_vector:
        return 4 * KIB
    if over_images(call.kernel):
        return min(layout.bytes, PIXELS)
    tile, across = layout.tile_bytes, _tiles(layout.shape[-1])
    if call.kernel in ("linear", "gated", "project"):
        if "depth" in call.options:
            return 0  # in the room for the sums
        if parameter in ("a", "a_low"):
            parts = max(1, -(-layout.shape[-2] // call.options.get("rows", 1 << 30)))
            if call.options.get("norm") and call.kernel == "gated":  # bf16 in passing, then fp8
                return layout.bytes // 2 // parts + 2 * across * tile
            return layout.bytes // parts
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
        rows = dict(call.options["linear"]).get("rows", layout.shape[-2])
        return 2 * _tiles(rows) * tile
    if call.kernel.startswith("attention"):
        if parameter.startswith(("kt", "v")):
            head = layout.bytes // layout.shape[1]
            keys = _tiles(layout.shape[-1 if parameter.startswith("kt") else -2])
            most = max(call.options.get("span", 0), call.options.get("keys", keys))
            return 2 * head * min(keys, most) // keys
        if parameter.startswith("mask"):
            return 2 * 4 * across * tile
        return 2 * 4 * across * tile
    if call.kernel == "reduce" and parameter == "x":
        deep = {"column": _tiles(layout.shape[-2]), "batch": 4}.get(call.options["along"], across)
        return 2 * deep * tile * call.options.get("lines", 1)
    if call.kernel in ("norm", "softmax", "split_heads"):
        return 2 * across * tile
    return 8 * tile
