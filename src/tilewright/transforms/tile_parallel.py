"""Tiling of kernels whose result elements are independent along some dimensions.

Element-wise kernels, row-wise kernels (their rows stay whole), transposes and quantisation all
have the same shape: a space of independent dimensions, and for every operand and the result a
list saying which of those dimensions each of its own dimensions follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    IntegerAttr,
    SSAValue,
    TensorType,
    i64,
)
from tilewright.transforms.tile_emitter import Emitter, Offset, tensor_type

# For each dimension of a tensor: the space dimension it follows, None when it stays whole, or
# DROPPED for a dimension of size 1 that is repeated along one walked step by step.
Access = tuple[int | None, ...]
DROPPED = -1


@dataclass(frozen=True)
class Plan:
    """How one kernel is cut.

    `sizes` and `tiles` describe the space; dimensions in `single` are walked one by one and
    disappear from the tiles. `row_tile` is the number of rows of a row-wise kernel's tile. `attributes` makes the launch's attributes from the accesses that
    remain.
    """

    sizes: tuple[int, ...]
    tiles: tuple[int, ...]
    single: frozenset[int]
    operands: tuple[Access, ...]
    result: Access
    attributes: Callable[[Plan], dict[str, Attribute]]
    row_tile: int | None = None

    def kept(self, access: Access) -> tuple[int, ...]:
        """Positions of an access that stay in the tile."""
        return tuple(i for i, dim in enumerate(access) if dim not in self.single and dim != DROPPED)

    @property
    def is_one_tile(self) -> bool:
        return not self.single and self.padded() == self.sizes == self.tiles

    def padded(self) -> tuple[int, ...]:
        """The space rounded up to whole tiles."""
        return tuple(-(-n // t) * t for n, t in zip(self.sizes, self.tiles, strict=True))


def plan_call(call: KernelCall, tile: tuple[int, int], pad_small: bool = False) -> Plan | None:
    """The plan for a call, or None when its family is not cut this way.

    With `pad_small` dimensions below the tile are cut too, that is, padded to a whole tile.
    """
    plan = _plan(call, tile)
    if plan is None or not pad_small:
        return plan
    chosen = iter(tile if len(plan.sizes) - len(plan.single) > 1 else (prod(tile),))
    tiles = tuple(
        t if dim in plan.single else next(chosen, t) if plan.row_tile is None else plan.row_tile
        for dim, t in enumerate(plan.tiles)
    )
    return replace(plan, tiles=tiles)


def _plan(call: KernelCall, tile: tuple[int, int]) -> Plan | None:
    if call.family.kind == "elementwise" or _scales_all_alike(call):
        return _elementwise(call, tile)
    if call.family.name == "transpose":
        return _transpose(call, tile)
    if call.family.name.startswith("reduction_"):
        return _reduction(call, tile)
    if call.family.kind in ("rows", "quant"):
        return _rows(call, tile)
    return None


def _scales_all_alike(call: KernelCall) -> bool:
    """Whether a (de)quantisation treats its elements one by one: no scale operand, no blocks."""
    alone = call.family.kind == "quant" and len(call.operand_types) == 1
    return alone and "block" not in call.attributes


def _cut(
    sizes: Sequence[int], tile: tuple[int, int], candidates: Sequence[int]
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Tile sizes and the dimensions walked one by one: the last two candidates get the tile."""
    if len(candidates) == 1:
        chosen = {candidates[0]: tile[0] * tile[1]}
    else:
        chosen = dict(zip(candidates[-2:], tile, strict=True)) if candidates else {}
    tiles = tuple(min(n, chosen.get(i, 1)) for i, n in enumerate(sizes))
    return tiles, frozenset(i for i in range(len(sizes)) if i not in chosen)


def _map_access(map_: AffineMap) -> Access:
    return tuple(e.position if isinstance(e, AffineDimExpr) else None for e in map_.results)


def _kept_maps(plan: Plan, rank: int) -> ArrayAttr | None:
    """Operand maps over the tile's dimensions, or None when all are the identity."""
    kept = [i for i in range(rank) if i not in plan.single]
    number = {dim: position for position, dim in enumerate(kept)}
    maps = []
    for access in plan.operands:
        results = [
            AffineExpr.constant(0)
            if (dim := access[i]) is None
            else AffineExpr.dimension(number[dim])
            for i in plan.kept(access)
        ]
        maps.append(AffineMap(len(kept), 0, tuple(results)))
    identity = AffineMap.identity(len(kept))
    if all(map_ == identity for map_ in maps):
        return None
    return ArrayAttr([AffineMapAttr(map_) for map_ in maps])


def _elementwise(call: KernelCall, tile: tuple[int, int]) -> Plan:
    shape = call.result.get_shape()
    rank = len(shape)
    tiles, single = _cut(shape, tile, range(rank))

    def attributes(plan: Plan) -> dict[str, Attribute]:
        result = {k: v for k, v in call.attributes.items() if k != "operand_maps"}
        maps = _kept_maps(plan, rank)
        return result if maps is None else {**result, "operand_maps": maps}

    operands = tuple(_map_access(map_) for map_ in call.operand_maps())
    return Plan(tuple(shape), tiles, single, operands, tuple(range(rank)), attributes)


def _transpose(call: KernelCall, tile: tuple[int, int]) -> Plan:
    shape = call.result.get_shape()
    rank = len(shape)
    permutation = call.integers("permutation") or ()
    tiles, single = _cut(shape, tile, range(rank))
    access: list[int | None] = [None] * rank
    for position, source in enumerate(permutation):
        access[source] = position

    def attributes(plan: Plan) -> dict[str, Attribute]:
        kept_sources = [i for i in range(rank) if access[i] not in plan.single]
        order = [kept_sources.index(permutation[i]) for i in plan.kept(plan.result)]
        return {**call.attributes, "permutation": DenseArrayBase.from_list(i64, order)}

    return Plan(tuple(shape), tiles, single, (tuple(access),), tuple(range(rank)), attributes)


def _reduction(call: KernelCall, tile: tuple[int, int]) -> Plan:
    shape = call.types()["x"].get_shape()
    axes = set(call.integers("axes") or ())
    free = [i for i in range(len(shape)) if i not in axes]
    number = {dim: position for position, dim in enumerate(free)}
    sizes = tuple(shape[i] for i in free)
    # The whole of the reduced dimensions sits in one tile, so only one free dimension is cut.
    tiles = tuple(min(n, tile[0]) if i == len(free) - 1 else 1 for i, n in enumerate(sizes))
    single = frozenset(range(len(free) - 1))
    x_access: Access = tuple(number.get(i) for i in range(len(shape)))
    result: Access = x_access if call.flag("keepdims") else tuple(range(len(free)))

    def attributes(plan: Plan) -> dict[str, Attribute]:
        kept = plan.kept(x_access)
        new_axes = [position for position, i in enumerate(kept) if i in axes]
        return {**call.attributes, "axes": DenseArrayBase.from_list(i64, new_axes)}

    operands = tuple(x_access if name == "x" else result for name in call.role_names())
    return Plan(sizes, tiles, single, operands, result, attributes, tile[0])


def _rows(call: KernelCall, tile: tuple[int, int]) -> Plan:
    """Softmax, norms, rope and (de)quantisation: all of `axis` stays in the tile."""
    shape = call.result.get_shape()
    rank = len(shape)
    has_axis = call.family.attribute("axis") is not None and rank > 0
    whole = call.axis(rank) if has_axis else rank - 1
    free = [i for i in range(rank) if i != whole]
    number = {dim: position for position, dim in enumerate(free)}
    sizes = tuple(shape[i] for i in free)
    tiles = tuple(min(n, tile[0]) if i == len(free) - 1 else 1 for i, n in enumerate(sizes))
    single = frozenset(range(len(free) - 1))
    main: Access = tuple(number.get(i) for i in range(rank))

    def access_of(name: str, type_: TensorType, map_: AffineMap | None) -> Access:
        if name == "x":
            return main
        if name in ("weight", "bias"):
            return (None,)
        if map_ is not None:
            return tuple(
                number.get(e.position) if isinstance(e, AffineDimExpr) else None
                for e in map_.results
            )
        missing = rank - type_.get_num_dims()
        followed: list[int | None] = []
        for i, n in enumerate(type_.get_shape(), start=missing):
            repeated = n == 1 and shape[i] != 1
            dim = number.get(i)
            followed.append((DROPPED if dim in single else None) if repeated else dim)
        return tuple(followed)

    maps = call.operand_maps() if "operand_maps" in call.attributes else None
    operands = tuple(
        access_of(name, type_, maps[i] if maps else None)
        for i, (name, type_) in enumerate(zip(call.role_names(), call.tensor_types(), strict=True))
    )

    def attributes(plan: Plan) -> dict[str, Attribute]:
        result = {k: v for k, v in call.attributes.items() if k != "operand_maps"}
        kept = plan.kept(main)
        if has_axis:
            result["axis"] = IntegerAttr(kept.index(whole), i64)
        if maps is not None:
            place = {dim: position for position, dim in enumerate(kept)}
            new_maps = []
            for map_, access in zip(maps, plan.operands, strict=True):
                results = [
                    AffineExpr.dimension(place[e.position]) if isinstance(e, AffineDimExpr) else e
                    for e in (map_.results[i] for i in plan.kept(access))
                ]
                new_maps.append(AffineMapAttr(AffineMap(len(kept), 0, tuple(results))))
            result["operand_maps"] = ArrayAttr(new_maps)
        return result

    return Plan(sizes, tiles, single, operands, main, attributes, tile[0])


def merge_leading(
    call: KernelCall, emitter: Emitter, operands: list[SSAValue]
) -> KernelCall | None:
    """The same call with all leading dimensions merged into one, when order in memory allows.

    before: softmax over axis 3 of 2x12x64x64
    after:  softmax over axis 1 of 1536x64
    """
    if "operand_maps" in call.attributes or "roles" in call.attributes:
        return None
    shape = call.result.get_shape()
    rank = len(shape)
    kind = call.family.kind
    attributes = dict(call.attributes)
    flat: dict[int, tuple[int, ...]]
    if kind == "elementwise" and rank > 2:
        merged = (prod(shape[:-1]), shape[-1])
        flat = dict.fromkeys(range(len(operands)), merged)
        result = merged
    elif kind == "rows" and call.family.name in ("softmax", "rms_norm", "layer_norm"):
        if rank <= 2 or call.axis(rank) != rank - 1:
            return None
        result = (prod(shape[:-1]), shape[-1])
        flat = {0: result}
        attributes["axis"] = IntegerAttr(1, i64)
    elif call.family.name.startswith("reduction_"):
        source = call.types()["x"].get_shape()
        axes = call.integers("axes") or ()
        first = min(axes, default=0)
        if sorted(axes) != list(range(first, len(source))) or first <= 1:
            return None
        rows = prod(source[:first])
        flat = {0: (rows, prod(source[first:]))}
        attributes["axes"] = DenseArrayBase.from_list(i64, [1])
        result = (rows, 1) if call.flag("keepdims") else (rows,)
        if len(operands) > 1:
            flat[1] = result
    else:
        return None
    for index, new_shape in flat.items():
        operands[index] = emitter.reshape(operands[index], new_shape)
    return KernelCall(
        call.family,
        call.symbol,
        tuple(operand.type for operand in operands),
        attributes,
        tensor_type(tuple(result), call.result.element_type),
    )


def emit_plan(
    plan: Plan, call: KernelCall, operands: Sequence[SSAValue], emitter: Emitter
) -> SSAValue:
    """Loops over the space with one launch inside; returns the whole result."""
    padded = plan.padded()
    sources = [
        emitter.pad(source, _grown(source.type, access, plan, padded))
        for source, access in zip(operands, plan.operands, strict=True)
    ]
    result_type = call.result
    full = _grown(result_type, plan.result, plan, padded)
    launch_attributes = plan.attributes(plan)
    tile_shape = tuple(
        full[i] if (dim := plan.result[i]) is None else plan.tiles[dim]
        for i in plan.kept(plan.result)
    )
    tile_type = tensor_type(tile_shape, result_type.element_type)

    def body(indices: list[Offset], carried: SSAValue) -> SSAValue:
        tiles = [
            _slice(emitter, source, access, plan, indices)
            for source, access in zip(sources, plan.operands, strict=True)
        ]
        value = emitter.launch(call.symbol, tiles, tile_type, launch_attributes)
        offsets, sizes = _window(carried.type, plan.result, plan, indices)
        return emitter.insert(value, carried, offsets, sizes)

    def nest(dim: int, indices: list[Offset], carried: SSAValue) -> SSAValue:
        if dim == len(padded):
            return body(indices, carried)
        if dim in plan.single and padded[dim] == 1:
            return nest(dim + 1, [*indices, 0], carried)
        return emitter.loop(
            0,
            padded[dim],
            plan.tiles[dim],
            carried,
            lambda index, acc: nest(dim + 1, [*indices, index], acc),
            "ijklmnop"[dim] if dim < 8 else f"d{dim}",
        )

    value = nest(0, [], emitter.empty(full, result_type.element_type))
    shape = tuple(result_type.get_shape())
    return emitter.extract(value, (0,) * len(shape), shape)


def _grown(
    type_: Attribute, access: Access, plan: Plan, padded: tuple[int, ...]
) -> tuple[int, ...]:
    """A tensor's shape with the dimensions that follow a padded one grown alike."""
    assert isinstance(type_, TensorType)
    return tuple(
        n if dim is None or dim == DROPPED else padded[dim]
        for n, dim in zip(type_.get_shape(), access, strict=True)
    )


def _window(
    type_: Attribute, access: Access, plan: Plan, indices: list[Offset]
) -> tuple[list[Offset], list[int]]:
    assert isinstance(type_, TensorType)
    offsets: list[Offset] = [0 if dim is None or dim == DROPPED else indices[dim] for dim in access]
    sizes = [
        n if dim is None or dim == DROPPED else 1 if dim in plan.single else plan.tiles[dim]
        for n, dim in zip(type_.get_shape(), access, strict=True)
    ]
    return offsets, sizes


def _slice(
    emitter: Emitter, source: SSAValue, access: Access, plan: Plan, indices: list[Offset]
) -> SSAValue:
    offsets, sizes = _window(source.type, access, plan, indices)
    return emitter.extract(source, offsets, sizes, [sizes[i] for i in plan.kept(access)])
