"""Of how many batches and how many heads attention of matrices [L, M, D] is.

Libraries write one head of each example of a batch, heads of one example, and heads and batch as one
dimension the same way. Which it is says where the matrices come from: the split for which queries, keys
and values are columns of flat values [B, M, C] needs nobody to move them.

    before: [B, M, H * D] -> reshape -> transpose -> reshape [B * H, M, D]: attention of B * H matrices
    after:  batch B, heads H, columns of the product that made them
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.model.capture import Node, shape_of
from tilewright.targets.atlas.model.head_sources import Heads, Shape, find_columns, four

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering


def form_of(at: Lowering, node: Node) -> Heads:
    """[B, H, M, D] of attention: the first split of its matrices that finds all of its sources."""
    whole = four(shape_of(node.result))
    if len(shape_of(node.result)) != 3:
        return whole
    forms = at.heads.forms
    if node not in forms:
        fitting = (form for form in _splits(whole) if _fits(at, node, form))
        forms[node] = next(fitting, whole)
    return forms[node]


def split_mask(shape: Shape, form: Heads) -> Heads:
    """[B or 1, H or 1, M, N] of a mask that has as many dimensions as attention, or fewer."""
    whole = four(shape)
    batch, heads = form[:2]
    if len(shape) == 3 and shape[0] == batch * heads:
        return batch, heads, whole[2], whole[3]
    return whole


def _splits(whole: Heads) -> Iterator[Heads]:
    """Ways to read a number of matrices as a batch of heads; as heads of one example first."""
    _, count, rows, width = whole
    for batch in range(1, count + 1):
        if count % batch == 0:
            yield batch, count // batch, rows, width


def _fits(at: Lowering, node: Node, form: Heads) -> bool:
    """Whether queries, keys and values are columns of flat values."""
    batch, heads = form[:2]
    shared = node.call.integer("kv_group") or 1
    if heads % shared:
        return False
    for name in "qkv":
        value, turned = node.inputs[name], node.call.flag(f"transpose_{name}")
        *_, rows, width = shape_of(value)
        if turned:
            rows, width = width, rows
        count = heads if name == "q" else heads // shared
        if len(shape_of(value)) != 3 or shape_of(value)[0] != batch * count:
            return False
        if find_columns(at, value, (batch, count, rows, width), turned) is None:
            return False
    return True
