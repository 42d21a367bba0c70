"""Weights that a model holds as codes in blocks with scales, decoded: no machine multiplies them so.

before: %w = npu_kernel.ukernel_generic "npu_uk_dequant"(%codes, %scales) {block = 32, axis = 0}
after:  %w = arith.constant dense_resource<codes.decoded>

What the numbers of codes and scales are is computed once, by the reference executor; a machine then
quantises it as it does all weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import TensorType
from tilewright.frontend.imported import Imported
from tilewright.model.weights import named_weights, weight_constant, weight_of
from tilewright.transforms.canonicalize import remove_dead
from tilewright.transforms.kernel_rewriting import family_name, replace_value
from tilewright.transforms.known_values import KnownValues, evaluate


def with_decoded_blocks(model: Imported) -> Imported:
    """The model without codes in blocks; the same one if it has none."""
    if not any(map(_is_blocked, model.module.walk())):
        return model
    module, weights = model.module.clone(), dict(model.weights)
    known = KnownValues(weights)
    for op in list(module.walk()):
        if not _is_blocked(op) or not all(known.is_known(value) for value in op.operands):
            continue
        kind = op.results[0].type
        assert isinstance(op, UKernelGenericOp) and isinstance(kind, TensorType)
        array = evaluate(op, [known.array(value) for value in op.operands])
        name = f"{weight_of(op.operands[0]) or 'codes'}.decoded"
        while name in weights:
            name += "'"
        weights[name] = np.asarray(array)
        constant = weight_constant(name, kind)
        block = op.parent
        assert block is not None
        block.insert_op_before(constant, op)
        constant.results[0].name_hint = op.results[0].name_hint
        replace_value(op, constant.results[0])
    known.forget()
    remove_dead(module)
    used = {*named_weights(module), *model.state}
    left = {name: array for name, array in weights.items() if name in used}
    return replace(model, module=module, weights=left)


def _is_blocked(op: object) -> bool:
    """Whether an operation decodes codes in blocks."""
    return (
        isinstance(op, UKernelGenericOp)
        and family_name(op) == "dequant"
        and "block" in op.attributes
    )
