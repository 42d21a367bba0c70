"""Tiling of matmul and attention: loops outside, chains of launches along K and the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dialects.family_checks import resolve_transposes
from tilewright.dialects.intents import shape_of
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import (
    AffineExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntegerAttr,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    arith,
    i1,
    i32,
    i64,
)
from tilewright.transforms.tile_emitter import INDEX, Emitter, Offset, tensor_type


@dataclass(frozen=True)
class TileSizes:
    """Tile of the result and of the contracted dimension; longer chains than `limit` loop.

    `pad_small` grows dimensions below a tile to the tile, for kernels of one fixed shape. `ragged`
    leaves the last block of a dimension as short as it is, instead of padding it.
    `columns_outside` makes N the outer loop: a block of columns stays while the rows pass by.
    """

    m: int = 32
    n: int = 32
    k: int = 32
    limit: int = 8
    pad_small: bool = False
    ragged: bool = False
    columns_outside: bool = False

    def fit(self, size: int, tile: int) -> tuple[int, int]:
        """(tile used, padded size) for a dimension."""
        if size <= tile and not self.pad_small:
            return size, size
        if self.ragged:
            return tile, size
        return tile, -(-size // tile) * tile


def _batch_loops(
    emitter: Emitter,
    batch: Sequence[int],
    initial: SSAValue,
    body: Callable[[list[Offset], SSAValue], SSAValue],
) -> SSAValue:
    """One loop per batch dimension larger than 1."""

    def nest(dim: int, indices: list[Offset], carried: SSAValue) -> SSAValue:
        if dim == len(batch):
            return body(indices, carried)
        if batch[dim] == 1:
            return nest(dim + 1, [*indices, 0], carried)
        return emitter.loop(
            0, batch[dim], 1, carried, lambda i, acc: nest(dim + 1, [*indices, i], acc), "b"
        )

    return nest(0, [], initial)


def _over_blocks(
    emitter: Emitter,
    size: int,
    tile: int,
    carried: SSAValue,
    body: Callable[[SSAValue, int, SSAValue], SSAValue],
    name: str,
) -> SSAValue:
    """A loop over blocks of a dimension, and the last one by itself where it is shorter.

    `body(offset, length, carried)` returns what is carried on.
    """
    whole = size // tile * tile
    if whole:
        carried = emitter.loop(
            0, whole, tile, carried, lambda offset, acc: body(offset, tile, acc), name
        )
    if whole < size:
        carried = body(emitter.constant(whole), size - whole, carried)
    return carried


def _chain(
    emitter: Emitter,
    count: int,
    tile: int,
    limit: int,
    step: Callable[[str, Offset, int], SSAValue],
) -> SSAValue:
    """first, mid..., last over `count` tiles; middles of a long chain become a loop.

    `step(part, offset, index)` emits one launch and returns its result.
    """
    step("first", emitter.constant(0), 0)
    if count <= limit:
        for index in range(1, count - 1):
            step("mid", emitter.constant(index * tile), index)
    else:
        emitter.plain_loop(
            tile, (count - 1) * tile, tile, lambda offset: step("mid", offset, 1), "k"
        )
    return step("last", emitter.constant((count - 1) * tile), count - 1)


def matmul_is_one_tile(call: KernelCall, sizes: TileSizes) -> bool:
    """Whether a launch on the whole operands is already a tile."""
    m, n, k, batch, _, _ = matmul_dimensions(call)
    if batch or len(call.tensor_types()[1].get_shape()) > 2:
        return False
    if sizes.pad_small:
        return (m, n, k) == (sizes.m, sizes.n, sizes.k)
    return m <= sizes.m and n <= sizes.n and k <= sizes.k


def matmul_dimensions(
    call: KernelCall,
) -> tuple[int, int, int, tuple[int, ...], bool, bool]:
    """m, n, k, batch of the result, and how the operands are read."""
    types = call.types()
    lhs, rhs = tuple(types["lhs"].get_shape()), tuple(types["rhs"].get_shape())
    result = tuple(call.result.get_shape())
    found = resolve_transposes(
        lhs, rhs, result, call.flag("transpose_lhs"), call.flag("transpose_rhs")
    )
    assert found is not None, "the verifier accepts only operands that fit"
    k = lhs[-2] if found[0] else lhs[-1]
    return result[-2], result[-1], k, result[:-2], *found


def emit_matmul(
    call: KernelCall, operands: Sequence[SSAValue], sizes: TileSizes, emitter: Emitter
) -> SSAValue:
    """Loops over batch, M and N; K as first, mid, last."""
    m, n, k, batch, lhs_transposed, rhs_transposed = matmul_dimensions(call)
    (tile_m, full_m), (tile_n, full_n), (tile_k, full_k) = (
        sizes.fit(size, tile) for size, tile in ((m, sizes.m), (n, sizes.n), (k, sizes.k))
    )
    by_role = dict(zip(call.role_names(), operands, strict=True))
    lhs, rhs, initial = by_role["lhs"], by_role["rhs"], by_role.get("acc")
    lhs_dims = (full_k, full_m) if lhs_transposed else (full_m, full_k)
    rhs_dims = (full_n, full_k) if rhs_transposed else (full_k, full_n)
    lhs = emitter.pad(lhs, (*shape_of(lhs)[:-2], *lhs_dims))
    rhs = emitter.pad(rhs, (*shape_of(rhs)[:-2], *rhs_dims))
    if initial is not None:
        initial = emitter.pad(initial, (*batch, full_m, full_n))

    marks: dict[str, Attribute] = {}
    if lhs_transposed:
        marks["transpose_lhs"] = UnitAttr()
    if rhs_transposed:
        marks["transpose_rhs"] = UnitAttr()
    element = call.result.element_type
    count = full_k // tile_k

    def tile_of(
        source: SSAValue,
        indices: list[Offset],
        rows: Offset,
        columns: Offset,
        shape: tuple[int, int],
    ) -> SSAValue:
        leading = indices if len(shape_of(source)) > 2 else []
        return emitter.extract(
            source, [*leading, rows, columns], [*(1 for _ in leading), *shape], shape
        )

    def body(
        indices: list[Offset],
        rows: tuple[SSAValue, int],
        columns: tuple[SSAValue, int],
        carried: SSAValue,
    ) -> SSAValue:
        (row, height), (column, width) = rows, columns

        def step(part: str, offset: Offset, index: int) -> SSAValue:
            a = (
                tile_of(lhs, indices, offset, row, (tile_k, height))
                if lhs_transposed
                else tile_of(lhs, indices, row, offset, (height, tile_k))
            )
            b = (
                tile_of(rhs, indices, column, offset, (width, tile_k))
                if rhs_transposed
                else tile_of(rhs, indices, offset, column, (tile_k, width))
            )
            inputs = [a, b]
            if initial is not None and part in ("first", "only"):
                inputs.append(tile_of(initial, indices, row, column, (height, width)))
            symbol = call.symbol if part == "only" else f"npu_uk_matmul_acc_{part}"
            return emitter.launch(symbol, inputs, tensor_type((height, width), element), marks)

        if count == 1:
            value = step("only", emitter.constant(0), 0)
        else:
            value = _chain(emitter, count, tile_k, sizes.limit, step)
        return emitter.insert(
            value, carried, [*indices, row, column], [*(1 for _ in batch), height, width]
        )

    down, across = (full_m, tile_m, "m"), (full_n, tile_n, "n")

    def planes(indices: list[Offset], carried: SSAValue) -> SSAValue:
        outer, inner = (across, down) if sizes.columns_outside else (down, across)

        def inside(place: SSAValue, length: int, acc: SSAValue) -> SSAValue:
            def at(other: SSAValue, extent: int, acc: SSAValue) -> SSAValue:
                blocks = ((place, length), (other, extent))
                rows, columns = blocks[::-1] if sizes.columns_outside else blocks
                return body(indices, rows, columns, acc)

            return _over_blocks(emitter, inner[0], inner[1], acc, at, inner[2])

        return _over_blocks(emitter, outer[0], outer[1], carried, inside, outer[2])

    value = _batch_loops(emitter, batch, emitter.empty((*batch, full_m, full_n), element), planes)
    shape = (*batch, m, n)
    return emitter.extract(value, (0,) * len(shape), shape)


def _attention_dimensions(call: KernelCall) -> tuple[tuple[int, ...], int, int, int, int]:
    """Batch, queries, keys, head width, value width."""
    types = call.types()
    q, k, v = (types[name].get_shape() for name in ("q", "k", "v"))
    keys = k[-1] if call.flag("transpose_k") else k[-2]
    value_width = v[-2] if call.flag("transpose_v") else v[-1]
    return tuple(q[:-2]), q[-2], keys, q[-1], value_width


def attention_is_one_tile(call: KernelCall, sizes: TileSizes) -> bool:
    batch, queries, keys, _, _ = _attention_dimensions(call)
    if sizes.pad_small:
        return not batch and (queries, keys) == (sizes.m, sizes.n)
    return not batch and queries <= sizes.m and keys <= sizes.n


def emit_attention(
    call: KernelCall, operands: Sequence[SSAValue], sizes: TileSizes, emitter: Emitter
) -> SSAValue:
    """Loops over batch and blocks of queries; tiles of keys as first, mid, last.

    Keys beyond the last are padding, which the last launch masks out (`valid_keys`).
    """
    batch, queries, keys, width, value_width = _attention_dimensions(call)
    tile_q, full_q = sizes.fit(queries, sizes.m)
    tile_k, full_k = sizes.fit(keys, sizes.n)
    by_role = dict(zip(call.role_names(), operands, strict=True))
    mask = by_role.get("mask")
    attributes = {k: v for k, v in call.attributes.items() if k not in ("causal", "kv_group")}
    if call.flag("causal"):
        mask = _causal_mask(emitter, mask, queries, keys, attributes)
    k_transposed, v_transposed = call.flag("transpose_k"), call.flag("transpose_v")
    q, k, v = by_role["q"], by_role["k"], by_role["v"]
    q = emitter.pad(q, (*batch, full_q, width))
    k = emitter.pad(k, (*shape_of(k)[:-2], *((width, full_k) if k_transposed else (full_k, width))))
    v = emitter.pad(
        v, (*shape_of(v)[:-2], *((value_width, full_k) if v_transposed else (full_k, value_width)))
    )
    if mask is not None:
        mask = emitter.pad(mask, (*shape_of(mask)[:-2], full_q, full_k))
    element = call.result.element_type
    tile_type = tensor_type((tile_q, value_width), element)
    count = full_k // tile_k
    group = call.integer("kv_group") or 1

    def body(indices: list[Offset], row: SSAValue, carried: SSAValue) -> SSAValue:
        ones = [1] * len(batch)
        kv_indices = _kv_indices(emitter, indices, group)
        q_tile = emitter.extract(q, [*indices, row, 0], [*ones, tile_q, width], [tile_q, width])

        def step(part: str, offset: Offset, index: int) -> SSAValue:
            k_where = [0, offset] if k_transposed else [offset, 0]
            k_shape = [width, tile_k] if k_transposed else [tile_k, width]
            v_where = [0, offset] if v_transposed else [offset, 0]
            v_shape = [value_width, tile_k] if v_transposed else [tile_k, value_width]
            inputs = [
                q_tile,
                emitter.extract(k, [*kv_indices, *k_where], [*ones, *k_shape], k_shape),
                emitter.extract(v, [*kv_indices, *v_where], [*ones, *v_shape], v_shape),
            ]
            if mask is not None:
                leading = _mask_indices(shape_of(mask), indices)
                inputs.append(
                    emitter.extract(
                        mask,
                        [*leading, row, offset],
                        [*(1 for _ in leading), tile_q, tile_k],
                        [tile_q, tile_k],
                    )
                )
            launch = dict(attributes)
            if part in ("last", "only") and full_k != keys:
                launch["valid_keys"] = IntegerAttr(keys - (count - 1) * tile_k, i64)
            symbol = call.symbol if part == "only" else f"npu_uk_attention_acc_{part}"
            return emitter.launch(symbol, inputs, tile_type, launch)

        if count == 1:
            value = step("only", 0, 0)
        else:
            value = _chain(emitter, count, tile_k, sizes.limit, step)
        return emitter.insert(value, carried, [*indices, row, 0], [*ones, tile_q, value_width])

    def blocks(indices: list[Offset], carried: SSAValue) -> SSAValue:
        return emitter.loop(
            0, full_q, tile_q, carried, lambda row, acc: body(indices, row, acc), "q"
        )

    value = _batch_loops(
        emitter, batch, emitter.empty((*batch, full_q, value_width), element), blocks
    )
    shape = (*batch, queries, value_width)
    return emitter.extract(value, (0,) * len(shape), shape)


def _kv_indices(emitter: Emitter, indices: list[Offset], group: int) -> list[Offset]:
    """Batch indices of keys and values: the last one is shared by `group` query heads."""
    if group == 1 or not indices or isinstance(indices[-1], int):
        return indices
    head = emitter.add(arith.DivUIOp(indices[-1], emitter.constant(group), INDEX))
    return [*indices[:-1], head]


def _mask_indices(shape: tuple[int, ...], indices: list[Offset]) -> list[Offset]:
    """Leading indices into a mask whose batch dimensions may be 1 or missing."""
    missing = len(indices) - (len(shape) - 2)
    return [
        0 if shape[position] == 1 else indices[position + missing]
        for position in range(len(shape) - 2)
    ]


def _causal_mask(
    emitter: Emitter,
    mask: SSAValue | None,
    queries: int,
    keys: int,
    attributes: dict[str, Attribute],
) -> SSAValue:
    """The mask with the causal triangle worked in: query i sees keys up to i + keys - queries.

    before: causal attention, [mask]
    after:  iota over rows and columns, compare, and the given mask joined to it
    """

    def iota(size: int) -> SSAValue:
        return emitter.launch(
            "npu_uk_iota", [], tensor_type((size,), i32), {"axis": IntegerAttr(0, i64)}
        )

    def maps(*entries: AffineMap) -> ArrayAttr:
        return ArrayAttr([AffineMapAttr(entry) for entry in entries])

    row = AffineMap(2, 0, (AffineExpr.dimension(0),))
    column = AffineMap(2, 0, (AffineExpr.dimension(1),))
    rows = iota(queries)
    if keys != queries:
        rows = emitter.launch(
            "npu_uk_elementwise_add",
            [rows],
            tensor_type((queries,), i32),
            {"scalar_rhs": IntegerAttr(keys - queries, i32)},
        )
    seen = emitter.launch(
        "npu_uk_compare",
        [rows, iota(keys)],
        tensor_type((queries, keys), i1),
        {"predicate": StringAttr("ge"), "operand_maps": maps(row, column)},
    )
    if mask is None:
        attributes["mask_kind"] = StringAttr("bool")
        return seen
    type_ = mask.type
    assert isinstance(type_, TensorType)
    rank = type_.get_num_dims()
    last_two = AffineMap(rank, 0, tuple(AffineExpr.dimension(rank - 2 + i) for i in range(2)))
    identity = AffineMap.identity(rank)
    if type_.element_type == i1:
        return emitter.launch(
            "npu_uk_logical_and", [mask, seen], type_, {"operand_maps": maps(identity, last_two)}
        )
    return emitter.launch(
        "npu_uk_select",
        [seen, mask],
        type_,
        {
            "scalar_b": FloatAttr(float("-inf"), type_.element_type),
            "operand_maps": maps(last_two, identity),
        },
    )
