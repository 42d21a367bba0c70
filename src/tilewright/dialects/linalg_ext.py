"""The linalg dialect as Tilewright knows it, under MLIR's own names.

`Linalg` takes the place of xDSL's dialect of the same name: every op prints and parses MLIR's
custom and generic forms, mixed precision included. `IREELinalgExt` adds attention.
"""

from __future__ import annotations

from tilewright.dialects import (
    linalg_dimensions,
    linalg_elementwise,
    linalg_named,
    linalg_structured,
    linalg_windows,
)
from tilewright.dialects.iree_ext import AttentionOp, IREELinalgExt
from tilewright.dialects.linalg_dimensions import (
    BroadcastOp,
    MapOp,
    ReduceOp,
    SoftmaxOp,
    TransposeOp,
)
from tilewright.dialects.linalg_elementwise import (
    ElementwiseKindAttr,
    ElementwiseKindOp,
    ElementwiseOp,
    FillOp,
)
from tilewright.dialects.linalg_named import (
    BatchMatmulOp,
    ContractionOp,
    ContractOp,
    MatmulOp,
    NamedOp,
)
from tilewright.dialects.linalg_structured import (
    PARALLEL,
    REDUCTION,
    GenericOp,
    IndexOp,
    StructuredOp,
    element_type,
)
from tilewright.dialects.linalg_windows import ConvolutionOp, PoolingOp, WindowOp
from tilewright.dialects.xdsl_api import (
    Dialect,
    IteratorTypeAttr,
    Operation,
    YieldOp,
)

MODULES = (
    linalg_structured,
    linalg_dimensions,
    linalg_named,
    linalg_elementwise,
    linalg_windows,
)


def _operations() -> list[type[Operation]]:
    """Every op class of the linalg modules, in the order of their definition."""
    found: dict[str, type[Operation]] = {YieldOp.name: YieldOp}
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Operation):
                name = getattr(value, "name", "")
                if isinstance(name, str) and name.startswith("linalg."):
                    found.setdefault(name, value)
    return list(found.values())


Linalg = Dialect("linalg", _operations(), [IteratorTypeAttr, ElementwiseKindAttr])

__all__ = [
    "PARALLEL",
    "REDUCTION",
    "AttentionOp",
    "BatchMatmulOp",
    "BroadcastOp",
    "ContractOp",
    "ContractionOp",
    "ConvolutionOp",
    "ElementwiseKindAttr",
    "ElementwiseKindOp",
    "ElementwiseOp",
    "FillOp",
    "GenericOp",
    "IREELinalgExt",
    "IndexOp",
    "IteratorTypeAttr",
    "Linalg",
    "MapOp",
    "MatmulOp",
    "NamedOp",
    "PoolingOp",
    "ReduceOp",
    "SoftmaxOp",
    "StructuredOp",
    "TransposeOp",
    "WindowOp",
    "YieldOp",
    "element_type",
]
