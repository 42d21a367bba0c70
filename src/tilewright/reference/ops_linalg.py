"""Named `linalg` operations: loop nests with a fixed body, and softmax.

Every structured operation of `tilewright.dialects.linalg_ext` says its maps, iterators and body, so one
evaluation serves them all.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tilewright.dialects.linalg_ext import Linalg, StructuredOp
from tilewright.reference import composites, dtypes
from tilewright.reference.linalg_generic import Nest, check_nest, evaluate_nest
from tilewright.reference.program import OPERATIONS, Builder, Evaluate, element_of, operation
from tilewright.reference.scalar_ops import attribute_of
from tilewright.reference.views import loop_sizes, operand_view, to_operand


def structured(op: Operation, builder: Builder) -> Evaluate:
    assert isinstance(op, StructuredOp)
    block = builder.single_block(op.regions[0], op)
    parallel = [kind == "parallel" for kind in op.iterators]
    nest = Nest(op, list(op.operand_maps), parallel, len(op.inputs), block)
    check_nest(nest, len(op.operands))
    return evaluate_nest(nest, builder)


for _operation in Linalg.operations:
    if issubclass(_operation, StructuredOp):
        OPERATIONS[_operation.name] = structured


def movement(op: Operation, builder: Builder) -> Evaluate:
    """transpose and broadcast without arithmetic: the stored values move as they are."""
    assert isinstance(op, StructuredOp)
    source_map, _ = op.operand_maps
    maps = list(op.operand_maps)

    def evaluate(source: Any, output: Any, *_: Any) -> Any:
        sizes = loop_sizes(op, maps, [source.shape, output.shape])
        view = operand_view(op, source, source_map, sizes)
        return dtypes.contiguous(to_operand(view, maps[1], sizes))

    return evaluate


OPERATIONS["linalg.transpose"] = movement
OPERATIONS["linalg.broadcast"] = movement


@operation("linalg.softmax")
def softmax(op: Operation, builder: Builder) -> Evaluate:
    axis = attribute_of(op, "dimension").value.data
    source, target = element_of(op.operands[0]), element_of(op.results[0])

    def evaluate(values: Any, *_: Any) -> Any:
        result = composites.softmax(dtypes.working(values, source), axis, source)
        return dtypes.stored(result, target)

    return evaluate
