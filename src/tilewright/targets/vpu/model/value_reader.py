"""Values of an encoded function as the network has them: formats, layouts, constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.encodings import scale_of, zero_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.capture import Node, capture, dtype_of, shape_of
from tilewright.targets.vpu.lowering.network import Shape
from tilewright.targets.vpu.model.emitter import TO_FIRST, TO_LAST, Emitter

_DTYPES = ("i8", "i32", "f16", "f32")


@dataclass(slots=True)
class Product:
    """A product whose sums still have to be rescaled."""

    family: str
    x: str
    weight: np.ndarray
    shape: Shape  # of the result, as the network has it
    attributes: dict[str, Any] = field(default_factory=dict)
    bias: np.ndarray | None = None
    image: bool = False


class ValueReader(Emitter):
    """Names of values in the network, by layout."""

    def __init__(self, model: Imported) -> None:
        super().__init__()
        self.graph = capture(model)
        self.entry_name = model.source
        self.names: dict[SSAValue, str] = {}
        self.images: dict[SSAValue, str] = {}
        self.products: dict[SSAValue, Product] = {}

    def format(self, value: SSAValue) -> tuple[str, float | None]:
        dtype = dtype_of(value)
        if dtype not in _DTYPES or zero_of(value):
            raise TilewrightError("TW7086", f"the VPU has no tensors of {value.type}")
        return dtype, scale_of(value) if dtype == "i8" else None

    def rank(self, value: SSAValue) -> Shape:
        return shape_of(value) or (1,)

    def plain(self, value: SSAValue) -> str:
        """A value in the layout of the source."""
        if value in self.names:
            return self.names[value]
        if value in self.images:
            self.names[value] = self.transpose(self.images[value], TO_FIRST)
            return self.names[value]
        data = self.graph.constants.get(value)
        if data is None:
            raise TilewrightError("TW7086", f"sums of {value.type} are used before they are scaled")
        dtype, scale = self.format(value)
        kinds = {"i8": np.int8, "i32": np.int32, "f16": np.float16, "f32": np.float32}
        array = np.ascontiguousarray(data).astype(kinds[dtype]).reshape(self.rank(value))
        self.names[value] = self.network.constant(self.fresh("constant"), array, scale)
        return self.names[value]

    def image(self, value: SSAValue) -> str:
        """A value [N, C, H, W] with channels last."""
        if value not in self.images:
            self.images[value] = self.transpose(self.plain(value), TO_LAST)
        return self.images[value]

    def data(self, value: SSAValue) -> np.ndarray:
        found = self.graph.constants.get(value)
        if found is None:
            raise TilewrightError("TW7086", f"{self.label}: an operand has to be constant")
        return found

    def converted(self, name: str, dtype: str, scale: float | None) -> str:
        """A value in another format."""
        value = self.network.values[name]
        if (value.dtype, self.unit(name)) == (dtype, scale):
            return name
        return self.emit("cast", {"x": name}, value.shape, dtype, scale)

    def moved(self, node: Node, name: str) -> str:
        """A value that was only moved, in the format of the result; f16 need not become f32."""
        wanted = self.format(node.result)
        if wanted[0] == "f32" and self.network.values[name].dtype == "f16":
            return name
        return self.converted(name, *wanted)

    def made(self, node: Node, family: str, operands: dict[str, str], **attributes: Any) -> str:
        dtype, scale = self.format(node.result)
        shape = self.rank(node.result)
        name = self.names[node.result] = self.emit(
            family, operands, shape, dtype, scale, **attributes
        )
        return name
