"""Tensors as grids of tiles in DRAM, and what a kernel may do with them.

Error codes: TW1332 a tile or attribute that does not fit a kernel, TW1321 an address role without
an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import error_at
from tilewright.dialects.xdsl_api import Attribute, Operation, TensorType
from tilewright.errors import TilewrightError
from tilewright.planning import buffers as planning
from tilewright.transforms.kernel_manifest import LAYOUTS, Kernel

TILE = 32
ALIGNMENT = 64
# Kernels that turn zeros into zeros, element by element.
KEEPS_ZEROS = {
    *(f"elementwise_{name}" for name in ("add", "sub", "mul", "max", "min", "relu", "abs", "neg")),
    *(f"elementwise_{name}" for name in ("square", "cube", "sqrt", "tanh", "sin")),
    "silu",
    "silu_gate",
    "gelu_tanh",
    "gelu_erf",
    "requant",
}
TILE_LAYOUTS = {"f8E4M3FN": ("fp8_tile", 1024), "bf16": ("bf16_split_halves", 2048)}


@dataclass(eq=False)
class Buffer:
    """A tensor's memory: a grid of tiles, batches outermost."""

    name: str
    type: TensorType
    role: str
    grid: tuple[int, int]
    layout: str
    tile_bytes: int
    address: int = 0
    value: Attribute | None = None
    steps: list[int] = field(default_factory=list)
    # Rows and columns of each written tile beyond which it is known to hold zeros.
    written: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    origin: Buffer | None = None  # the buffer whose tiles these are, under another shape

    def filled(self, batch: int, row: int, column: int) -> tuple[int, int]:
        """Rows and columns of a tile beyond which it holds zeros; all of them if nobody knows."""
        if self.role in ("input", "constant"):
            rows, columns = (1, 1, *self.type.get_shape())[-2:]
            return clamped(rows - TILE * row), clamped(columns - TILE * column)
        if self.origin is None or (batch, row, column) in self.written:
            return self.written.get((batch, row, column), (TILE, TILE))
        rows, columns = self.origin.grid
        number = (batch * self.grid[0] + row) * self.grid[1] + column
        batch, inside = divmod(number, rows * columns)
        return self.origin.filled(batch, *divmod(inside, columns))

    @property
    def size(self) -> int:
        batches = prod(self.type.get_shape()[:-2]) if self.type.get_num_dims() > 2 else 1
        return batches * self.grid[0] * self.grid[1] * self.tile_bytes

    def lifetime(self, name: str, end: int, is_result: bool) -> planning.Buffer:
        """The buffer as memory planning sees it: inputs live from the start, results to the end."""
        written_before = self.role in ("input", "constant")
        first = 0 if written_before else min(self.steps, default=0)
        last = end if written_before or is_result else max(self.steps, default=0) + 1
        return planning.Buffer(name, self.size, first, last, region="dram")


@dataclass(frozen=True)
class View:
    """A part of a buffer on the tile grid: a batch number, a first tile, a shape."""

    buffer: Buffer
    shape: tuple[int, ...]
    batch: int = 0
    row: int = 0
    column: int = 0

    def filled(self) -> tuple[int, int]:
        """Rows and columns of the view's first tile beyond which it holds zeros."""
        return self.buffer.filled(self.batch, self.row, self.column)

    def ends_in_zeros(self) -> bool:
        """Whether the tiles under the view hold zeros wherever the view itself ends before them."""
        *leading, height, width = (1, 1, *self.shape)
        for batch in range(prod(leading)):
            for row in range(-(-height // TILE)):
                for column in range(-(-width // TILE)):
                    rows, columns = self.buffer.filled(
                        self.batch + batch, self.row + row, self.column + column
                    )
                    inside = rows <= height - TILE * row and columns <= width - TILE * column
                    if rows and columns and not inside:
                        return False
        return True

    def address(self) -> int:
        tile = (self.batch * self.buffer.grid[0] + self.row) * self.buffer.grid[1] + self.column
        return self.buffer.address + tile * self.buffer.tile_bytes


def clamped(size: int) -> int:
    """As much of a size as lies in one tile."""
    return max(0, min(TILE, size))


def filled_by(call: KernelCall, inputs: Sequence[View]) -> tuple[int, int]:
    """Rows and columns of a launch's result beyond which its operands' zeros make zeros.

    A product has the rows of its left and the columns of its right operand. (A row with NaN is NaN
    beyond them too, but so is then all that is computed from that row.)
    """
    if call.family.kind == "matmul" and len(inputs) == 2:
        return inputs[0].filled()[0], inputs[1].filled()[1]
    if call.family.name not in KEEPS_ZEROS or call.attributes:
        return TILE, TILE
    rows, columns = zip(*(view.filled() for view in inputs), strict=True)
    return max(rows), max(columns)


@dataclass
class Launch:
    """A kernel with the views its address roles are bound to."""

    op: Operation
    kernel: Kernel
    inputs: list[View]
    output: View | None


@dataclass
class Machine:
    """Where tensors may lie and how long a program may be."""

    base: int = 0
    size: int = 1 << 20
    max_instructions: int = 1_000_000
    strategy: str = "none"


def bind_input(
    launch: Launch, number: int, count: int, operand: int | None, offset: int
) -> tuple[int, int]:
    """Which operand, and how far into it, an input role of a kernel reads.

    A kernel that does not say has one role per operand, or one per half of each operand.
    """
    if operand is not None and operand < len(launch.inputs):
        return operand, offset
    inputs = len(launch.inputs)
    if operand is None and count == inputs:
        return number, 0
    if operand is None and count == 2 * inputs:
        return number // 2, 1024 * (number % 2)
    raise error_at(
        launch.op,
        "TW1321",
        f"kernel {launch.kernel.name} reads {count} addresses, the launch has {inputs} operands",
        "name the operand of each patch point in the manifest",
    )


def check_fit(op: Operation, call: KernelCall, kernel: Kernel, inputs: Sequence[View]) -> None:
    """The kernel computes exactly what the launch asks: element types, attributes, tile shape."""
    wanted = LAYOUTS.get(kernel.input_layout)
    if wanted is None:
        raise error_at(
            op, "TW1332", f"kernel {kernel.name} has the unknown layout {kernel.input_layout}"
        )
    for number, type_ in enumerate(call.tensor_types()):
        if str(type_.element_type) != wanted[0]:
            raise error_at(
                op,
                "TW1332",
                f"operand {number} holds {type_.element_type}, kernel {kernel.name} takes {wanted[0]}",
                "convert the operand, or choose a kernel of its type",
            )
    result = LAYOUTS.get(kernel.output_layout)
    if result is not None and str(call.result.element_type) != result[0]:
        raise error_at(
            op,
            "TW1332",
            f"the result holds {call.result.element_type}, kernel {kernel.name} makes {result[0]}",
        )
    rank = call.result.get_num_dims()
    for name in call.attributes:
        if (name == "axis" and call.axis(rank) == rank - 1) or "." in name:
            continue
        raise error_at(op, "TW1332", f"kernel {kernel.name} cannot honour the attribute {name}")
    if len(call.operand_types) > len({p.operand for p in kernel.roles("dram_in")} - {None}) > 0:
        raise error_at(
            op,
            "TW1332",
            f"kernel {kernel.name} takes fewer than {len(call.operand_types)} operands",
        )
    tile = tuple(kernel.tile_shape[:2])
    row_wise = call.family.kind not in ("matmul", "elementwise", "quant")
    for type_, view in zip(call.tensor_types(), inputs, strict=True):
        shape = tuple(type_.get_shape())
        partial = shape != tile
        if len(shape) != 2 or shape[0] > tile[0] or shape[1] > tile[1]:
            raise _wrong_tile(op, kernel, shape)
        if partial and (row_wise or (call.family.kind == "matmul" and not view.ends_in_zeros())):
            raise _wrong_tile(op, kernel, shape)


def _wrong_tile(op: Operation, kernel: Kernel, shape: tuple[int, ...]) -> TilewrightError:
    text = "x".join(map(str, shape))
    tile = "x".join(map(str, kernel.tile_shape))
    return error_at(
        op,
        "TW1332",
        f"a tile of {text} does not fit kernel {kernel.name}, which works on {tile}",
        "run tile-npu-kernel-to-schedule with the same manifest first",
    )
