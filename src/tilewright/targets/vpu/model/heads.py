"""Attention and rotations: heads side by side, as the VPU takes them."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.model.capture import Node
from tilewright.targets.vpu.model.supports import rope_position
from tilewright.targets.vpu.model.value_reader import ValueReader


class HeadReader(ValueReader):
    """Calls of attention and of rotations."""

    def attention(self, node: Node) -> None:
        """Heads side by side: [H, S, E] becomes [S, H·E]; values lie transposed; batches in turn."""
        call = node.call

        def heads(role: str) -> str:
            name = self.plain(node.inputs[role])
            shape = self.shape(name)
            return self.reshape(name, (1, *shape)) if len(shape) == 3 else name

        q, k, v = heads("q"), heads("k"), heads("v")
        batch, count, rows, width = self.shape(q)
        if call.flag("transpose_k"):
            k = self.transpose(k, (0, 1, 3, 2))
        if not call.flag("transpose_v"):
            v = self.transpose(v, (0, 1, 3, 2))
        groups, keys, value_width = self.shape(k)[1], self.shape(k)[2], self.shape(v)[2]
        operands = {
            "q": self.reshape(self.transpose(q, (0, 2, 1, 3)), (batch * rows, count * width)),
            "k": self.reshape(self.transpose(k, (0, 2, 1, 3)), (batch * keys, groups * width)),
            "v": self.reshape(v, (batch * groups * value_width, keys)),
        }
        shared = True
        if "mask" in node.inputs:
            mask = self.plain(node.inputs["mask"])
            shape = self.shape(mask)
            shared = prod(shape[:-2]) == 1
            operands["mask"] = self.reshape(mask, (prod(shape[:-1]), shape[-1]))
        attributes: dict[str, Any] = {"heads": count, "groups": groups}
        scale = call.floating("scale")
        attributes["scale"] = float(1 / sqrt(width) if scale is None else scale)
        if call.flag("causal"):
            attributes["causal"] = True
        if call.integer("valid_keys") is not None:
            attributes["valid_keys"] = call.integer("valid_keys")
        dtype, unit = self.format(node.result)
        shape = (rows, count * value_width)
        parts = {}
        for number in range(batch):
            own = {
                role: name if role == "mask" and shared else self._batch(name, number, batch)
                for role, name in operands.items()
            }
            parts[f"part{number}"] = self.emit("attention", own, shape, dtype, unit, **attributes)
        made = parts["part0"]
        if batch > 1:
            made = self.emit("concat", parts, (batch * rows, shape[1]), dtype, unit, axis=0)
        made = self.reshape(made, (batch, rows, count, value_width))
        made = self.transpose(made, (0, 2, 1, 3))
        self.names[node.result] = self.reshape(made, self.rank(node.result))

    def _batch(self, name: str, number: int, batch: int) -> str:
        """The rows of one element of a batch."""
        if batch == 1:
            return name
        rows, width = self.shape(name)
        value, each = self.network.values[name], rows // batch
        if value.data is not None:
            return self.constant(value.data[number * each : (number + 1) * each])
        return self.emit(
            "slice", {"x": name}, (each, width), value.dtype, None, offsets=(number * each, 0),
            sizes=(each, width),
        )  # fmt: skip

    def rope(self, node: Node) -> None:
        shape = self.rank(node.result)
        position = rope_position(node)
        if position is None:
            raise TilewrightError("TW7086", f"{self.label}: angles depend on several dimensions")
        order = [position, *(d for d in range(len(shape)) if d != position)]
        x = self.transpose(self.plain(node.inputs["x"]), order)
        rows, width = shape[position], shape[-1]
        flat = self.reshape(x, (rows, prod(shape) // rows))
        operands = {"x": flat}
        for role in ("cos", "sin"):
            table = self.plain(node.inputs[role])
            operands[role] = self.reshape(table, (rows, self.shape(table)[-1]))
        dtype, scale = self.format(node.result)
        made = self.emit(
            "rope", operands, self.shape(flat), dtype, scale, width=width,
            interleaved=node.call.string("style") == "interleaved",
        )  # fmt: skip
        made = self.reshape(made, [shape[d] for d in order])
        self.names[node.result] = self.transpose(made, [order.index(d) for d in range(len(shape))])
