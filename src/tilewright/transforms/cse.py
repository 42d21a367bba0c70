"""cse: compute equal things once."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    Context,
    ModuleOp,
    ModulePass,
    Operation,
    Rewriter,
    SSAValue,
    is_side_effect_free,
    tensor,
)

Key = tuple[object, ...]


@dataclass(frozen=True)
class CommonSubexpressions(ModulePass):
    """Replace a pure operation by an earlier equal one that is visible where it stands.

    before: %a = arith.constant 32 : index   %b = arith.constant 32 : index
    after:  %a, used for both

    Operations with regions are kept; so is every tensor.empty, because each becomes a buffer of
    its own. Names of values do not matter.
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                _visit(block, {}, [])


def _key(op: Operation) -> Key:
    return (
        op.name,
        tuple(op.operands),
        tuple(op.result_types),
        tuple(sorted(op.properties.items(), key=_by_name)),
        # Which part of the model an op came from makes no difference to its value.
        tuple(sorted((e for e in op.attributes.items() if e[0] != "tw.layer"), key=_by_name)),
    )


def _by_name(entry: tuple[str, Attribute]) -> str:
    return entry[0]


def _visit(block: Block, seen: dict[Key, Operation], log: list[Key]) -> None:
    """Walk a block with what is visible in it; entries made here are taken back at its end."""
    mark = len(log)
    for op in list(block.ops):
        for region in op.regions:
            isolated = op.name in ("func.func", "builtin.module")
            for inner in region.blocks:
                if isolated:
                    _visit(inner, {}, [])
                else:
                    _visit(inner, seen, log)
        if op.regions or not op.results or isinstance(op, tensor.EmptyOp):
            continue
        if not is_side_effect_free(op):
            continue
        key = _key(op)
        earlier = seen.get(key)
        if earlier is None:
            seen[key] = op
            log.append(key)
        else:
            results: list[SSAValue] = list(earlier.results)
            Rewriter.replace_op(op, [], results)
    while len(log) > mark:
        del seen[log.pop()]
