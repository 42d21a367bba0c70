"""From traced npu_schedule to steps: loops are written out, slices and launches name tiles.

A step is one operation of the task table on whole tiles. Tensors that the kernel writes and reads
need no place of their own here: a tile that is read is the tile that was written, and the memory
scheduler decides how long it stays on the chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    Block,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    StringAttr,
    arith,
    func,
    scf,
    tensor,
)
from tilewright.errors import TilewrightError
from tilewright.targets.vpu.tile_language.launches import Shape, launch, multiply
from tilewright.tile.recorder import DYNAMIC, Recorder

MOST_STEPS = 400_000
_PREFIX = "npu_uk_"


@dataclass(frozen=True, slots=True)
class Part:
    """A tile of a tensor in DDR; `flipped`: of its transpose, which lies there as well."""

    tensor: str
    place: tuple[int, ...]  # of its first element
    dtype: str
    size: int  # elements
    flipped: bool = False


@dataclass(eq=False, slots=True)
class Made:
    """A tile that a step computes."""

    number: int  # of the step
    dtype: str
    size: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile as it is looked at; `flipped`: what was computed has to be transposed first."""

    root: Part | Made
    shape: Shape
    flipped: bool = False


@dataclass(slots=True)
class Step:
    """An operation of the table."""

    name: str
    inputs: list[Tile]
    made: Made
    shape: Shape
    options: dict[str, Any]


@dataclass(slots=True)
class Steps:
    """What a kernel computes; a maker for launches."""

    steps: list[Step] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)  # by tensor
    outputs: dict[str, dict[tuple[int, ...], Tile]] = field(default_factory=dict)
    _known: dict[tuple[str, Shape, bytes], Tile] = field(default_factory=dict)
    _turned: dict[Made, Tile] = field(default_factory=dict)

    def kind(self, tile: Tile) -> tuple[str, Shape]:
        return tile.root.dtype, tile.shape

    def seen_as(self, tile: Tile, shape: Shape) -> Tile:
        return replace(tile, shape=shape)

    def transposed(self, tile: Tile) -> Tile:
        if isinstance(tile.root, Part):
            return replace(tile, root=replace(tile.root, flipped=not tile.root.flipped))
        return replace(tile, flipped=not tile.flipped)

    def constant(self, array: np.ndarray, dtype: str) -> Tile:
        key = dtype, array.shape, array.tobytes()
        if key not in self._known:
            name = f"constant.{len(self.constants)}"
            self.constants[name] = array
            self._known[key] = Tile(Part(name, (), dtype, array.size), array.shape)
        return self._known[key]

    def operate(
        self, name: str, inputs: Sequence[Tile], dtype: str, shape: Shape, **options: Any
    ) -> Tile:
        if len(self.steps) >= MOST_STEPS:
            raise TilewrightError(
                "TW7097",
                f"the kernel is more than {MOST_STEPS} tasks",
                hint="the VPU has no loops: use larger tiles, compile(side=128)",
            )
        ready = [self.upright(tile) for tile in inputs]
        made = Made(len(self.steps), dtype, int(np.prod(shape)))
        self.steps.append(Step(name, ready, made, shape, options))
        return Tile(made, shape)

    def upright(self, tile: Tile) -> Tile:
        """A computed tile that is looked at transposed, transposed by a step of its own."""
        if not tile.flipped:
            return tile
        assert isinstance(tile.root, Made)
        if tile.root not in self._turned:
            source = replace(tile, flipped=False)
            self._turned[tile.root] = self.operate(
                "transpose", [source], tile.root.dtype, tile.shape, permutation=(1, 0)
            )
        return self._turned[tile.root]


def unrolled(trace: Recorder, dtypes: Mapping[str, str], outputs: Sequence[str]) -> Steps:
    """The steps of a traced function; `dtypes` has the format of every tensor."""
    walk = _Walk(trace, dtypes)
    for name in outputs:
        walk.made.outputs[name] = walk.written.setdefault(name, {})
    walk.block(trace.function.body.blocks[0])
    for tiles in walk.made.outputs.values():
        for place, tile in tiles.items():
            tiles[place] = walk.made.upright(tile)
    return walk.made


class _Walk:
    """Runs the IR with tiles in place of values."""

    def __init__(self, trace: Recorder, dtypes: Mapping[str, str]) -> None:
        self.made = Steps()
        self.dtypes = dtypes
        self.value = trace.value
        self.values: dict[SSAValue, Any] = {arg: name for name, arg in trace.arguments.items()}
        self.written: dict[str, dict[tuple[int, ...], Tile]] = {
            name: {} for name in trace.top.outputs
        }
        self.sums: dict[int, tuple[Tile, int, Tile | None]] = {}  # by slot

    def block(self, block: Block) -> list[Any]:
        """Run a body; the values it hands on."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | func.ReturnOp):
                return [self.values[operand] for operand in op.operands]
            self._run(op)
        return []

    def _run(self, op: Operation) -> None:
        values = self.values
        operands = [values[operand] for operand in op.operands]
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            values[op.result] = op.value.value.data
        elif isinstance(op, arith.AddiOp):
            values[op.result] = operands[0] + operands[1]
        elif isinstance(op, arith.MuliOp):
            values[op.result] = operands[0] * operands[1]
        elif isinstance(op, scf.ForOp):
            first, stop, step, *carried = operands
            body = op.body.blocks[0]
            for index in range(first, stop, step):
                for argument, value in zip(body.args, [index, *carried], strict=True):
                    values[argument] = value
                carried = self.block(body)
            values.update(zip(op.results, carried, strict=True))
        elif isinstance(op, tensor.ExtractSliceOp):
            place = _place(op.static_offsets, operands[1:])
            values[op.results[0]] = self._read(operands[0], place, shape_of(op.results[0]))
        elif isinstance(op, tensor.InsertSliceOp):
            tile, name, *dynamic = operands
            self.written[name][_place(op.static_offsets, dynamic)] = tile
            values[op.results[0]] = name
        elif isinstance(op, UKernelLaunchOp):
            values[op.results[0]] = self._launch(op, operands)
        else:
            raise TilewrightError("TW7095", f"the VPU has no {op.name!r} for tiles")

    def _read(self, name: str, place: tuple[int, ...], shape: Shape) -> Tile:
        dtype = self.dtypes[name]
        if name not in self.written:
            return Tile(Part(name, place, dtype, int(np.prod(shape))), shape)
        if place not in self.written[name]:
            raise TilewrightError(
                "TW1629",
                f"{name} is read at {list(place)}, where it was not written",
                hint="write all of it first",
            )
        tile = self.written[name][place]
        return tile if tile.shape == shape else replace(tile, shape=shape)

    def _launch(self, op: UKernelLaunchOp, inputs: list[Tile]) -> Tile | None:
        attributes = {name: _value(found) for name, found in op.attributes.items()}
        symbol = op.properties["symbol"]
        assert isinstance(symbol, StringAttr)
        family = symbol.data.removeprefix(_PREFIX)
        if family.startswith("matmul"):
            return self._multiply(family, attributes.get("slot", 0), inputs)
        result = op.results[0]
        dtype = attributes.get("tilewright.format") or str(tensor_type(result).element_type)
        return launch(self.made, family, attributes, inputs, dtype, shape_of(result))

    def _multiply(self, family: str, slot: int, inputs: list[Tile]) -> Tile | None:
        first = family in ("matmul", "matmul_acc_first")
        last = family in ("matmul", "matmul_acc_last")
        start = inputs[2] if first and len(inputs) > 2 else None
        sums, count, begun = (None, 0, start) if first else self.sums[slot]
        made = multiply(self.made, inputs[0], inputs[1], self.value, sums, begun, count, last)
        self.sums[slot] = made, count + 1, begun
        return made


def _place(static: Any, dynamic: list[int]) -> tuple[int, ...]:
    moving = iter(dynamic)
    return tuple(next(moving) if n == DYNAMIC else int(n) for n in static.get_values())


def _value(attribute: Any) -> Any:
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    return attribute.data if isinstance(attribute, StringAttr) else attribute
