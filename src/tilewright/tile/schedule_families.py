"""What launches on whole blocks of tiles do, in terms of the tile language.

A launch of the compiler works on blocks of any shape (32x70 rows of a softmax); here it becomes
operations on 32x32 tiles, with the elements beyond an edge left out of reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.dialects.kernel_call import KernelCall
from tilewright.errors import TilewrightError
from tilewright.tile import ops
from tilewright.tile.arrays import TileArray, binary, reduce, transpose, unary
from tilewright.tile.backend import Backend
from tilewright.tile.bodies import BODIES
from tilewright.tile.masks import LOWEST
from tilewright.tile.products import Accumulation

TINY = 1e-30  # keeps the sum of a row that sees nothing from being zero
Tiles = dict[str, TileArray]

_BINARY = [f"elementwise_{n}" for n in ("add", "sub", "mul", "div", "max", "min")]
_UNARY = [
    name for name in BODIES if name.startswith("elementwise_") and name not in _BINARY
] + ["silu"]  # fmt: skip


@dataclass
class Chains:
    """Sums and attention states that run from one launch to the next."""

    backend: Backend
    sums: dict[int, Accumulation] = field(default_factory=dict)
    attention: dict[str, Any] = field(default_factory=dict)


def launch(call: KernelCall, tiles: Tiles, chains: Chains) -> TileArray | None:
    """The tiles a launch gives, None where its result is not meaningful yet."""
    name = call.family.name
    if name.startswith("matmul"):
        return _matmul(call, tiles, chains)
    if call.family.kind == "attention":
        return _attention(call, tiles, chains)
    maker = _FAMILIES.get(name)
    if maker is None:
        raise TilewrightError(
            "TW1464",
            f"{name} has no micro-kernel on tiles",
            hint="run it on the host, or write it as a kernel of the tile language",
        )
    return maker(call, tiles)


def _operands(call: KernelCall, tiles: Tiles) -> list[TileArray]:
    """Operands of an element-wise launch, repeated as its maps say."""
    values = list(tiles.values())
    rank = len(call.result.get_shape())
    if "operand_maps" not in call.attributes:
        return values
    result = []
    for value, map_ in zip(values, call.operand_maps(), strict=True):
        positions = [getattr(e, "position", None) for e in map_.results]
        result.append(_repeated(value, positions, rank))
    return result


def _repeated(value: TileArray, positions: list[int | None], rank: int) -> TileArray:
    """A block whose dimensions follow these of the result; None is a dimension of one."""
    if positions == list(range(rank)):
        return value
    if rank == 2 and positions == [1] and value.kind in ("row", "number"):
        return value
    if rank == 2 and positions == [0] and value.kind in ("column", "number"):
        return value
    if rank == 2 and positions == [0, None]:
        return value if value.kind in ("column", "number") else reduce("sum", 1, value)
    if rank == 2 and positions == [None, 1]:
        return value if value.kind in ("row", "number") else reduce("sum", 0, value)
    if positions and set(positions) == {None}:
        return reduce("sum", 0, reduce("sum", 1, value)) if value.kind == "full" else value
    raise TilewrightError(
        "TW1466",
        f"an operand of dimensions {positions} of the result cannot be repeated on tiles",
        hint="rows, columns and single numbers can",
    )


def _number(call: KernelCall, name: str) -> float | None:
    value = call.attributes.get(name)
    data = getattr(value, "value", None)
    return None if value is None else float(getattr(data, "data", data))  # type: ignore[arg-type]


def _elementwise_binary(call: KernelCall, tiles: Tiles) -> TileArray:
    values: list[Any] = _operands(call, tiles)
    left, right = _number(call, "scalar_lhs"), _number(call, "scalar_rhs")
    if left is not None:
        values.insert(0, left)
    if right is not None:
        values.append(right)
    return binary(call.family.name, *values)


def _elementwise_unary(call: KernelCall, tiles: Tiles) -> TileArray:
    return unary(call.family.name, *_operands(call, tiles))


def _gelu(call: KernelCall, tiles: Tiles) -> TileArray:
    inner = _number(call, "inner_scale")
    if inner is not None and abs(inner - math.sqrt(2 / math.pi)) > 1e-3:
        raise TilewrightError("TW1466", f"gelu_tanh with inner_scale {inner} has no micro-kernel")
    return unary("gelu_tanh", *_operands(call, tiles))


def _silu_gate(call: KernelCall, tiles: Tiles) -> TileArray:
    gate, up = _operands(call, tiles)
    return ops.silu(gate) * up


def _clamp(call: KernelCall, tiles: Tiles) -> TileArray:
    (value,) = _operands(call, tiles)
    low, high = _number(call, "min"), _number(call, "max")
    value = value if low is None else ops.maximum(value, low)
    return value if high is None else ops.minimum(value, high)


def _cast(call: KernelCall, tiles: Tiles) -> TileArray:
    (value,) = _operands(call, tiles)
    wanted = str(call.result.element_type)
    if wanted == "f8E4M3FN":
        return value if value.dtype == "fp8" else ops.to_fp8(value)
    return value if value.dtype == "bf16" else ops.to_bf16(value)


def _requant(call: KernelCall, tiles: Tiles) -> TileArray:
    """x / scale as fp8."""
    x, scale = tiles["x"], _number(call, "scale")
    if "scale" in tiles:
        x = x / _scales(call, tiles["scale"])
    return ops.to_fp8(x, None if scale is None else 1 / scale)


def _dequant(call: KernelCall, tiles: Tiles) -> TileArray:
    """x * scale as bf16."""
    if call.attributes.keys() & {"block", "scale_encoding"}:
        raise TilewrightError("TW1466", "dequant by blocks has no micro-kernel on tiles")
    scale = _number(call, "scale")
    value = ops.to_bf16(tiles["x"], None if scale is None else 1 / scale)
    return value if "scale" not in tiles else value * _scales(call, tiles["scale"])


def _scales(call: KernelCall, scale: TileArray) -> TileArray:
    if "operand_maps" not in call.attributes:
        return scale
    map_ = call.operand_maps()[1]
    positions = [getattr(e, "position", None) for e in map_.results]
    return _repeated(scale, positions, len(call.result.get_shape()))


def _axis(call: KernelCall, x: TileArray) -> int:
    rank = len(call.types()["x"].get_shape())
    return 1 if rank == 1 else call.axis(rank)


def _reduction(call: KernelCall, tiles: Tiles) -> TileArray:
    kind = call.family.name.removeprefix("reduction_")
    shape = call.types()["x"].get_shape()
    axes = tuple(call.integers("axes") or ())
    if "init" in tiles or kind == "prod" or len(shape) > 2:
        raise TilewrightError("TW1466", f"{call.family.name} of this form has no micro-kernel")
    value = tiles["x"]
    count = 1
    for axis in axes:
        number = tiles["x"].shape[1 if len(shape) == 1 else axis]
        count *= number
        value = reduce("sum" if kind == "mean" else kind, 1 if len(shape) == 1 else axis, value)
    return value * (1 / count) if kind == "mean" else value


def _softmax(call: KernelCall, tiles: Tiles) -> TileArray:
    x = tiles["x"]
    axis = _axis(call, x)
    powers = ops.exp(x - reduce("max", axis, x))
    return powers * ops.recip(reduce("sum", axis, powers))


def _rms_norm(call: KernelCall, tiles: Tiles) -> TileArray:
    x = tiles["x"]
    axis = _axis(call, x)
    mean = reduce("sum", axis, ops.square(x)) * (1 / x.shape[axis])
    y = x * ops.rsqrt(mean + (_number(call, "epsilon") or 0.0))
    return _weighted(y, tiles)


def _layer_norm(call: KernelCall, tiles: Tiles) -> TileArray:
    x = tiles["x"]
    axis = _axis(call, x)
    centred = x - reduce("sum", axis, x) * (1 / x.shape[axis])
    variance = reduce("sum", axis, ops.square(centred)) * (1 / x.shape[axis])
    y = centred * ops.rsqrt(variance + (_number(call, "epsilon") or 0.0))
    return _weighted(y, tiles)


def _weighted(y: TileArray, tiles: Tiles) -> TileArray:
    y = y * tiles["weight"] if "weight" in tiles else y
    return y + tiles["bias"] if "bias" in tiles else y


def _turn(call: KernelCall, tiles: Tiles) -> TileArray:
    (x,) = tiles.values()
    if x.dtype == "fp8":
        return transpose(x)
    raise TilewrightError("TW1466", "only fp8 tiles can be transposed, this one is bf16")


def _fp8(x: TileArray, what: str) -> TileArray:
    if x.dtype != "fp8":
        raise TilewrightError(
            "TW1466",
            f"{what} of {x.dtype} tiles: the matrix units take fp8",
            hint="convert-linalg-to-npu-kernel with demote-matmul-fp8, or quantise first",
        )
    return x


def _matmul(call: KernelCall, tiles: Tiles, chains: Chains) -> TileArray | None:
    from tilewright.transforms.tile_contractions import matmul_dimensions

    lhs, rhs = (_fp8(tiles[n], "a matrix product") for n in ("lhs", "rhs"))
    turned = matmul_dimensions(call)[-2:]
    lhs, rhs = transpose(lhs) if turned[0] else lhs, transpose(rhs) if turned[1] else rhs
    part = call.family.name.removeprefix("matmul").removeprefix("_acc_")
    slot = call.integer("slot") or 0
    if part in ("", "first"):
        chains.sums[slot] = Accumulation(chains.backend)
        if "acc" in tiles:
            chains.sums[slot].held = tiles["acc"].tiles()
    elif slot not in chains.sums:
        raise TilewrightError("TW1465", f"accumulator {slot} has no first product")
    chains.sums[slot] += lhs @ rhs
    if part not in ("", "last"):
        return None
    result = chains.sums.pop(slot).tiles()
    return ops.to_fp8(result) if str(call.result.element_type) == "f8E4M3FN" else result


def _attention(call: KernelCall, tiles: Tiles, chains: Chains) -> TileArray | None:
    """The running maximum, sum and output, as states; casts to fp8 are part of the kernel."""
    q, k, v = (x if x.dtype == "fp8" else ops.to_fp8(x) for x in (tiles[n] for n in "qkv"))
    kt = k if call.flag("transpose_k") else transpose(k)
    v = transpose(v) if call.flag("transpose_v") else v
    if call.flag("causal") or call.string("mask_kind") == "bool":
        raise TilewrightError(
            "TW1466", "attention with a boolean mask has no micro-kernel", hint="use an added mask"
        )
    scale = _number(call, "scale")
    width = call.types()["q"].get_shape()[-1]
    scores = (q @ kt) * (1 / math.sqrt(width) if scale is None else scale)
    if "mask" in tiles:
        scores = scores + tiles["mask"]
    part = call.family.name.rpartition("_acc_")[2] if call.family.state else ""
    held = chains.attention
    top = ops.maximum(reduce("max", 1, scores), LOWEST)
    if part in ("", "first"):
        powers = ops.exp(scores - top)
        held["top"] = ops.state(top)
        held["sum"] = ops.state(reduce("sum", 1, powers))
        held["out"] = ops.state((ops.to_fp8(powers) @ v).tiles())
    else:
        if not held:
            raise TilewrightError("TW1465", "attention has no first block of keys")
        best = ops.maximum(held["top"], top)
        fade, powers = ops.exp(held["top"] - best), ops.exp(scores - best)
        held["sum"].set(held["sum"] * fade + reduce("sum", 1, powers))
        held["out"].set(held["out"] * fade + ops.to_fp8(powers) @ v)
        held["top"].set(best)
    if part not in ("", "last"):
        return None
    result = held["out"] * ops.recip(ops.maximum(held["sum"], TINY))
    held.clear()
    return ops.to_fp8(result) if str(call.result.element_type) == "f8E4M3FN" else result


_FAMILIES: dict[str, Callable[[KernelCall, Tiles], TileArray]] = {
    **dict.fromkeys(_BINARY, _elementwise_binary),
    **dict.fromkeys(_UNARY, _elementwise_unary),
    "gelu_tanh": _gelu,
    "silu_gate": _silu_gate,
    "clamp": _clamp,
    "cast": _cast,
    "requant": _requant,
    "dequant": _dequant,
    "transpose": _turn,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    **{f"reduction_{n}": _reduction for n in ("sum", "max", "min", "mean")},
}
