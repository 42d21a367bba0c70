"""`iree_linalg_ext.attention` as the attention kernel, with all it says kept.

before: attention <maps> ins(%q, %k, %v, %scale, %mask) outs(%o)
after:  ukernel "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %v, %mask)
          {scale = 0.125 : f32, mask_kind = "bool", transpose_v}

The normal form is q [b.., m, d], k [b.., n, d], v [b.., n, dv]. Keys and values that lie the other
way round are marked, any other order goes through a transpose. Keys and values that were only
repeated for grouped query heads are read unrepeated, with `kv_group`.
"""

from __future__ import annotations

import math
from math import prod
from typing import cast

from tilewright.dialects.intents import Lane, shape_of, tensor_type, text
from tilewright.dialects.linalg_ext import AttentionOp
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntegerAttr,
    SSAValue,
    TensorType,
    UnitAttr,
    f32,
    i1,
    i64,
)
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    constant_of,
    kernel_of,
    loops_of,
)


def convert_attention(emitter: Emitter, op: AttentionOp) -> None:
    for value in (op.query, op.key, op.value, op.output):
        element = tensor_type(value).element_type
        check_element(element)
        if not isinstance(element, AnyFloat):
            raise Unmapped("TW1222", f"attention on {element} has no kernel", "use a float type")
    if not op.keeps_score:
        raise Unmapped(
            "TW1225",
            "its region changes the score",
            "export attention spelled out, as two matmuls and a softmax",
        )
    maps = [loops_of(m, f"operand {i}") for i, m in enumerate(op.operand_maps)]
    q, k, v, out = (cast("tuple[int, ...]", maps[i]) for i in (0, 1, 2, -1))
    if any(None in m for m in maps):
        raise Unmapped("TW1223", "an operand is read at a constant index", "drop that dimension")
    batch = [d for d in out if d in q and d in k and d in v]
    rows = [d for d in out if d in q and d not in k]
    keys = [d for d in k if d in v and d not in out]
    width = [d for d in q if d in k and d not in out]
    values = [d for d in out if d in v and d not in q]
    if any(len(group) != 1 for group in (rows, keys, width, values)):
        raise Unmapped(
            "TW1223",
            "its maps are not (batch, m, k1), (batch, k2, k1), (batch, k2, n)",
            "collapse grouped dimensions first",
        )
    attributes: dict[str, Attribute] = {"scale": _scale(emitter, op)}
    m, n, d, dv = rows[0], keys[0], width[0], values[0]
    query = _ordered(emitter, emitter.value(op.query), q, [*batch, m, d])
    key, turned = _either(emitter, emitter.value(op.key), k, batch, n, d)
    if turned:
        attributes["transpose_k"] = UnitAttr()
    value, turned = _either(emitter, emitter.value(op.value), v, batch, n, dv)
    if turned:
        attributes["transpose_v"] = UnitAttr()
    key, value, group = _grouped(emitter, key, value)
    if group > 1:
        attributes["kv_group"] = IntegerAttr(group, i64)
    operands = [query, key, value]
    if op.mask is not None and _is_causal(emitter.value(op.mask)):
        attributes["causal"] = UnitAttr()
    elif op.mask is not None:
        mask, kind = _mask(emitter, op, cast("tuple[int, ...]", maps[4]), batch, m, n)
        operands.append(mask)
        attributes["mask_kind"] = text(kind)
    type_ = cast(TensorType, op.res[0].type)
    order = [*batch, m, dv]
    sizes = dict(zip(out, type_.get_shape(), strict=True))
    result = TensorType(type_.element_type, [sizes[x] for x in order])
    suffix = (tensor_type(query).element_type, type_.element_type)
    attended = emitter.call("gemma_attention", operands, result, attributes, suffix)
    emitter.values[op.res[0]] = _ordered(emitter, attended, order, out)


def _scale(emitter: Emitter, op: AttentionOp) -> FloatAttr:
    constant = constant_of(op.scale)
    if not isinstance(constant, FloatAttr):
        raise Unmapped(
            "TW1225", "its scale is no constant", "make the scale a constant of the model"
        )
    scale = FloatAttr(constant.value.data, f32)
    if scale.value.data != constant.value.data:
        raise Unmapped(
            "TW1222",
            f"its scale {constant.value.data} is no f32 number",
            "give the scale in f32 or a narrower type",
        )
    return scale


def _ordered(emitter: Emitter, value: SSAValue, loops, wanted) -> SSAValue:
    return emitter.transpose(value, [list(loops).index(x) for x in wanted])


def _either(
    emitter: Emitter, value: SSAValue, loops: tuple[int, ...], batch: list[int], n: int, d: int
) -> tuple[SSAValue, bool]:
    """The operand as [batch.., n, d], or as [batch.., d, n] and True."""
    if list(loops) == [*batch, d, n]:
        return value, True
    return _ordered(emitter, value, loops, [*batch, n, d]), False


def _mask(
    emitter: Emitter,
    op: AttentionOp,
    loops: tuple[int, ...],
    batch: list[int],
    m: int,
    n: int,
) -> tuple[SSAValue, str]:
    """The mask as [batch.., m, n], leading dimensions left out where it does not vary."""
    mask = emitter.value(cast(SSAValue, op.mask))
    element = tensor_type(mask).element_type
    kind = "bool" if element == i1 else "additive"
    if kind == "additive" and not isinstance(element, AnyFloat):
        raise Unmapped("TW1222", f"a mask of {element} has no meaning", "use i1 or a float type")
    if list(loops) == [*batch, m, n] and (shared := _same_for_all_heads(mask)) is not None:
        return emitter.reshape(shared, shape_of(mask)[-2:]), kind
    extents = dict(zip(loops, shape_of(mask), strict=True))
    for operand, map_ in zip(op.operands, op.operand_maps, strict=True):
        if isinstance(operand.type, TensorType):
            for loop, size in zip(loops_of(map_, ""), operand.type.get_shape(), strict=True):
                extents[cast(int, loop)] = size
    mine = [x for x in batch if x in loops]
    if mine != batch[len(batch) - len(mine) :]:
        mine = list(batch)
    return emitter.broadcast(Lane(mask, loops), [*mine, m, n], extents), kind


def _is_causal(mask: SSAValue) -> bool:
    """Whether a mask lets query i see exactly the keys up to i, of as many keys as queries.

    before: select(iota queries >= iota keys, 0, -inf), or the comparison alone as bits
    after:  the attribute `causal`
    """
    mask = _same_for_all_heads(mask) or mask
    found = kernel_of(mask)
    rows, keys = shape_of(mask)[-2:] if len(shape_of(mask)) >= 2 else (0, -1)
    if found and found[0] == "select":
        chosen = [found[1].attributes.get(f"scalar_{x}") for x in "ab"]
        if not all(isinstance(value, FloatAttr) for value in chosen):
            return False
        if [cast(FloatAttr, v).value.data for v in chosen] != [0.0, -math.inf]:
            return False
        found = kernel_of(found[1].operands[0])
    if not found or found[0] != "compare" or rows != keys or len(found[1].operands) != 2:
        return False
    test = found[1]
    maps = test.attributes.get("operand_maps")
    rank = len(shape_of(test.result))
    if not isinstance(maps, ArrayAttr) or shape_of(test.result)[-2:] != (rows, keys):
        return False
    if any((kernel_of(v) or ("",))[0] != "iota" or len(shape_of(v)) != 1 for v in test.operands):
        return False
    reads = [loops_of(m.data, "the mask") for m in maps]  # type: ignore[attr-defined]
    predicate = test.attributes["predicate"].data  # type: ignore[attr-defined]
    straight = reads == [(rank - 2,), (rank - 1,)] and predicate in ("ge", "uge")
    turned = reads == [(rank - 1,), (rank - 2,)] and predicate in ("le", "ule")
    return straight or turned


def _same_for_all_heads(mask: SSAValue) -> SSAValue | None:
    """The queries by keys that a mask only repeats for every head, if it does."""
    found = kernel_of(mask)
    if (
        found
        and found[0] == "reshape"
        and shape_of(found[1].operands[0])[-2:] == shape_of(mask)[-2:]
    ):
        found = kernel_of(found[1].operands[0])
    if not found or found[0] != "cast":
        return None
    source, maps = found[1].operands[0], found[1].attributes.get("operand_maps")
    if not isinstance(maps, ArrayAttr):
        return None
    rank = len(shape_of(found[1].result))
    reads = loops_of(maps.data[0].data, "the mask")  # type: ignore[attr-defined]
    wide = [d for d, size in zip(reads, shape_of(source), strict=True) if size != 1]
    shape = shape_of(found[1].result)
    needed = [d for d in (rank - 2, rank - 1) if shape[d] != 1]
    return source if wide == needed else None


def _repeated(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The heads behind a value that repeats each of them, and how often.

    before: reshape(cast 1x5x113x64 repeated to 1x5x3x113x64) to 15x113x64
    after:  1x5x113x64 and 3
    """
    found = kernel_of(value)
    if found is None or found[0] != "reshape":
        return None
    wide = found[1].operands[0]
    inner = kernel_of(wide)
    if inner is None or inner[0] != "cast":
        return None
    maps = inner[1].attributes.get("operand_maps")
    source = inner[1].operands[0]
    if not isinstance(maps, ArrayAttr) or source.type == wide.type:
        return None
    if tensor_type(source).element_type != tensor_type(wide).element_type:
        return None
    shape = shape_of(wide)
    reads = loops_of(maps.data[0].data, "keys")  # type: ignore[attr-defined]
    group = len(shape) - 3
    if len(shape) < 4 or reads != tuple(d for d in range(len(shape)) if d != group):
        return None
    if shape_of(value) != (prod(shape[:-2]), *shape[-2:]):
        return None
    return source, shape[group]


def _grouped(emitter: Emitter, key: SSAValue, value: SSAValue) -> tuple[SSAValue, SSAValue, int]:
    """Keys and values without repeated heads, and the number of query heads per head."""
    first, second = _repeated(key), _repeated(value)
    if first is None or second is None or first[1] != second[1]:
        return key, value, 1
    (narrow_key, group), (narrow_value, _) = first, second
    key, value = (
        emitter.reshape(x, (prod(shape_of(x)[:-2]), *shape_of(x)[-2:]))
        for x in (narrow_key, narrow_value)
    )
    return key, value, group
