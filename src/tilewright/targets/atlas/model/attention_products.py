"""Which products with weights become one kernel with the attention whose heads they take.

before: attention; heads to VMEM, where they do not fit beside it; linear, which waits for its weights
after:  attention_linear, whose weights arrive while attention runs

That pays where attention leaves the DMA engine time for the weights, and where VMEM has room for them
beside attention: with the heads on chip as well, or with the heads in DRAM if a copy of them would have to
be made there anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.targets.atlas.model.bounds import terms_of
from tilewright.targets.atlas.model.buffer_assignment import ONE_BODY
from tilewright.targets.atlas.model.calls import Call, Tensor
from tilewright.targets.atlas.model.kernel_records import work_of
from tilewright.targets.atlas.model.residency import attention_room
from tilewright.targets.atlas.model.ways import way_of
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE

KIB = 1024
ROWS = 4 * SIDE  # of the product at a time, where heads come from DRAM
SPARE = 64 * KIB  # VMEM for scales, residuals and results


def with_products(
    calls: Sequence[Call],
    profile: Profile,
    wanted: Collection[Tensor],
    refused: Collection[SSAValue] = (),
) -> list[Call]:
    """The calls, some of them one with the next; wanted: results that others read too. refused:
    values that cannot be computed so."""
    separate = len({profile.timing[kind].unit for kind in ("tensor_load", "vector")}) > 1
    readers: dict[Tensor, int] = {}
    for call in calls:
        for tensor in call.operands.values():
            readers[tensor] = readers.get(tensor, 0) + 1
    result: list[Call] = []
    for call in calls:
        before = result[-1] if result else None
        if (
            separate
            and before is not None
            and _follows(call, before)
            and readers[before.output] == 1
            and before.output not in wanted
            and call.output.value not in refused
            and (options := _options(before, call, profile)) is not None
        ):
            result[-1] = _joined(before, call, options)
        else:
            result.append(call)
    return result


def _follows(call: Call, before: Call) -> bool:
    """Whether a call is a plain product on the heads of the attention before it."""
    plain = not any(
        call.options.get(name) for name in ("precise", "depth", "rows", "resident", "blocks")
    )
    return (
        before.kernel == "attention"
        and before.options.get("out", "fp8") == "fp8"
        and call.kernel == "linear"
        and bool(call.options.get("heads"))
        and call.operands["a"] is before.output
        and plain
        and not call.deferred
        and not before.deferred
        and all(size % SIDE == 0 for size in call.operands["w"].layout.shape)
    )


def _options(attention: Call, linear: Call, profile: Profile) -> dict[str, bool | int] | None:
    """Options of the product and where the heads are; None if both stay apart."""
    heads, weights = attention.output.layout, linear.operands["w"].layout
    sources = sum(t.layout.bytes for t in attention.operands.values())
    shapes = {name: t.layout.shape for name, t in attention.tensors.items()}
    work = work_of(profile, "attention", attention.all_options(), shapes)
    busy = max(terms_of(profile, work, 0).values())
    room = attention_room(way_of(attention.options), attention.tensors) + weights.bytes
    residual = linear.operands.get("residual")
    held = heads.bytes + sources + (0 if residual is None else residual.layout.bytes)
    if room + held + SPARE <= profile.vmem_bytes:
        return {"heads_on_chip": True}
    batch, rows = linear.output.layout.shape[:2]
    large = heads.bytes // KIB > ONE_BODY  # their copy is the left operand of all columns
    idle = busy - profile.dma.ticks(sources + heads.bytes)
    if large and rows % ROWS == 0 and batch == 1 and profile.dma.ticks(weights.bytes) <= idle:
        values = attention.operands["kt"].layout.bytes + attention.operands["v"].layout.bytes
        head = 2 * values // attention.operands["v"].layout.shape[1]
        part = 2 * heads.bytes * ROWS // rows + SPARE
        if max(room + head, weights.bytes + part) <= profile.vmem_bytes:
            return {"rows": ROWS}
    return None


def _joined(attention: Call, linear: Call, options: dict[str, bool | int]) -> Call:
    """Both calls as one."""
    own = {name: v for name, v in linear.options.items() if v is not None and name != "heads"}
    inside = {name: tensor for name, tensor in linear.operands.items() if name != "a"}
    scale = attention.output.scale
    return Call(
        linear.name,
        "attention_linear",
        {**attention.operands, **inside},
        linear.output,
        {**attention.options, **own, **options},
        {},
        (*attention.sources, *linear.sources),
        attention.macs + linear.macs,
        linear.value,
        (*attention.noted, *linear.noted, *(() if scale is None else (scale,))),
        linear.scale,
    )
