"""`iree_linalg_ext.attention` with its indexing maps, mask and score function."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.reference import attention, dtypes
from tilewright.reference.bodies import Body
from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault
from tilewright.reference.program import Builder, Evaluate, as_array, element_of, operation
from tilewright.reference.scalar_ops import attribute_of
from tilewright.reference.views import dimensions_of, loop_sizes, operand_view, to_operand


@operation("iree_linalg_ext.attention")
def whole_attention(op: Operation, builder: Builder) -> Evaluate:
    maps = [m.data for m in attribute_of(op, "indexing_maps").data]
    count = len(op.operands)
    q_map, k_map, v_map, output_map = maps[0], maps[1], maps[2], maps[-1]
    used = [dimensions_of(m) for m in (q_map, k_map, v_map, output_map)]
    in_q, in_k, in_v, in_output = used
    inner = sorted((in_q & in_k) - in_output)
    keys = sorted((in_k & in_v) - in_output)
    columns = sorted((in_v & in_output) - in_q - in_k)
    rows = sorted((in_q & in_output) - in_k - in_v)
    batch = [d for d in range(maps[0].num_dims) if d not in {*inner, *keys, *columns, *rows}]
    if not inner or not keys or not in_output >= {*batch, *rows, *columns}:
        raise fault(op, "TW1502", "the indexing maps are not those of an attention")
    block = builder.single_block(op.regions[0], op)
    score_type = element_of(block.args[0])
    assert block.last_op is not None
    changed = block.last_op.operands[0] is not block.args[0]
    body = Body(block, [block.last_op.operands[0]], op) if changed else None
    elements = [element_of(v) for v in op.operands]
    has_mask = count == 6
    target = elements[-1]

    def evaluate(*values: Any) -> Array:
        arrays = [
            dtypes.working(as_array(v), e) for v, e in zip(values[:count], elements, strict=True)
        ]
        captured = values[count:]
        sizes = loop_sizes(op, maps, [a.shape for a in arrays])
        views = [operand_view(op, a, m, sizes) for a, m in zip(arrays, maps, strict=True)]

        def matrix(view: Array, first: list[int], second: list[int], at: tuple[int, ...]) -> Array:
            """The part of an operand at one batch position, as [first, second]."""
            place = [0] * view.ndim
            cut: list[Any] = [slice(None)] * view.ndim
            for d, index in zip(batch, at, strict=True):
                place[d] = index if view.shape[d] > 1 else 0
                cut[d] = slice(place[d], place[d] + 1)
            part = view[tuple(cut)]
            rest = [d for d in range(view.ndim) if d not in {*first, *second}]
            moved = part.transpose(rest + first + second)
            full = [sizes[d] for d in first + second]
            moved = np.broadcast_to(moved, [1] * len(rest) + full)
            return moved.reshape(int(np.prod(full[: len(first)])), int(np.prod(full[len(first) :])))

        def change(score: Array) -> Array:
            assert body is not None
            return body.run([score], captured, lambda d: np.asarray(0))[0]

        shape = [sizes[d] if d in in_output else 1 for d in range(len(sizes))]
        result = np.empty(shape, dtype=target.work)
        for at in np.ndindex(*[sizes[d] for d in batch]) if result.size else ():
            score = attention.scores(
                matrix(views[0], rows, inner, at),
                matrix(views[1], keys, inner, at),
                arrays[3],
                score_type,
                matrix(views[4], rows, keys, at) if has_mask else None,
                elements[4] if has_mask else None,
                change if body is not None else None,
            )
            state = attention.update(None, score, matrix(views[2], keys, columns, at))
            part = dtypes.rounded(state.result(), target)
            cut: list[Any] = [slice(None)] * len(sizes)
            for d, index in zip(batch, at, strict=True):
                cut[d] = index
            view = result[tuple(cut)]
            kept = [d for d in range(len(sizes)) if d not in batch]
            order = rows + columns
            part = part.reshape([sizes[d] for d in order])
            part = part.transpose([order.index(d) for d in sorted(order)])
            view[...] = part.reshape([shape[d] for d in kept])
        return dtypes.stored(dtypes.contiguous(to_operand(result, output_map, sizes)), target)

    return evaluate
