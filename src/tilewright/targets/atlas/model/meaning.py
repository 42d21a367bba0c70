"""What an encoded module computes, bit for bit: kernels by the references of their records.

Executor(encoded.module, encoded.weights, semantics(profile)).run(inputs)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dialects.launches import LaunchOp, PackOp
from tilewright.dialects.xdsl_api import Operation, SSAValue, TensorType
from tilewright.reference.program import Semantics
from tilewright.targets.atlas.model.decode import encoding_of, layout_of
from tilewright.targets.atlas.model.kernel_records import REFERENCES
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.port_types import rounded
from tilewright.tile.layouts import NUMPY, to_codes


def semantics(profile: Profile) -> Semantics:
    """How the reference executor runs encoded modules of this target."""

    def left(op: LaunchOp, value: SSAValue, codes: np.ndarray) -> np.ndarray:
        """A result of a launch as it is stored."""
        kind = value.type
        assert isinstance(kind, TensorType)
        dtype = NUMPY[layout_of(kind, op).dtype]
        return np.ascontiguousarray(codes).view(dtype).reshape(tuple(kind.get_shape()))

    def stored(op: Operation, values: Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
        kind = op.results[0].type
        assert isinstance(kind, TensorType)
        shape = tuple(kind.get_shape())
        if isinstance(op, LaunchOp):
            roles = op.operands_by_role().items()
            codes = {
                role: to_codes(array, layout_of(value.type, op).dtype)
                for (role, value), array in zip(roles, values, strict=True)
            }
            found = REFERENCES[op.kernel.data](profile, op.options(), codes)
            results = {"out": op.result, **op.others_by_role()}
            every = [left(op, value, found[role]) for role, value in results.items()]
            return every if len(every) > 1 else every[0]
        if isinstance(op, PackOp):
            dtype = layout_of(kind, op).dtype
            (array,) = values
            encoding = encoding_of(op)
            array = array if encoding is None else encoding.encoded(array)
            numbers = array.astype(np.float32) if array.dtype.kind in "biu" else array
            return to_codes(numbers, dtype).view(NUMPY[dtype]).reshape(shape)
        numbers = values[0].astype(np.float32).reshape(shape)
        element = str(kind.element_type)
        return numbers != 0 if element == "i1" else rounded(numbers, element)

    return Semantics(stored=stored)
