"""One GEMM on the array: what the user asked for, checked, and the sizes that follow.

M x K times K x N in tiles of m x k x n, one tile per core and step, four core rows by `columns`
columns. Odd shapes are padded by the host with zeros; the numbers here are of the padded shape
unless they are called logical.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import ELEMENT_BYTES
from tilewright.targets.xdna.device import ArrayDevice

POLICIES = ("stock", "wide_k", "resident_a", "resident_b")
SYNCHRONISATIONS = {
    "stock": ("previous_half", "own_half", "sequential", "rolling"),
    "wide_k": ("rolling", "sequential"),
    "resident_a": ("rolling", "sequential"),
    "resident_b": ("rolling", "sequential"),
}
OUTPUTS = {"i8": ("i32", "i16", "i8"), "bf16": ("bf16", "f32")}
ROUNDINGS = (
    "floor", "ceil", "half_up", "half_down", "half_away", "half_to_zero", "half_even", "half_odd",
)  # fmt: skip
WEIGHT_BITS = {"i8": 8, "int4": 4, "ternary": 2, "bf16": 16}
SLOTS = 4  # of a resident panel
MAX_STREAM_DEPTH = 4  # beside a resident panel; deeper hardly helps
MAX_ROW_DEPTH = 8  # of row-major B: two channels of this many descriptors and C's fit one parity
MAX_EXACT_K = 131071  # int8 products summed in int32 cannot wrap up to here
LARGEST = 1 << 20
MAX_ELEMENTS = 1 << 28  # of one operand: values and counts of larger ones are not followed


def refuse(sentence: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW8030", sentence, hint=hint)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def nearest_multiple(value: int, multiple: int) -> int:
    return max(multiple, (2 * value + multiple) // (2 * multiple) * multiple)


def granules(block: tuple[int, int, int], weights: str) -> tuple[int, int, int]:
    """What m, k and n have to be multiples of."""
    r, s, t = block
    return 2 * r, 2 * s if weights == "ternary" else s, 2 * t


@dataclass(frozen=True)
class Gemm:
    """A validated GEMM; build it with `gemm_of`."""

    M: int  # logical
    K: int
    N: int
    m: int
    k: int
    n: int
    columns: int
    policy: str
    device_name: str
    block: tuple[int, int, int]
    rows: int = 4
    inputs: str = "i8"
    weights: str = "i8"
    output: str = "i32"
    b_layout: str = "col"
    c_layout: str = "row"
    c_depth: int = 1
    k_mt: int = 0  # columns of A and rows of B in one memory-tile object; 0: k
    synchronisation: str = "rolling"
    shift: int = 0
    rounding: str = "half_even"
    saturate: bool = True
    zero_point: str = "sub"
    numbers: str = "exact"
    wide_sum: bool = False
    pretiled: bool = False  # B lies in DRAM as whole panels of tiles in the kernel's order
    stack_bytes: int = 1024
    batch: int = 1  # output tiles of a core behind one set of tasks (resident policies)
    stagger: bool = False  # columns change their resident panels of B one after the other
    stream_depth: int = 2  # memory-tile buffers of what streams past a resident panel, or of
    # row-major B beside A's wider objects
    panel_room: int = 0  # K that the room of a resident panel is for, where other products share it
    panel_slots: int = SLOTS  # of a resident panel, at most

    @property
    def resident(self) -> bool:
        return self.policy in ("resident_a", "resident_b")

    @property
    def packed(self) -> bool:
        """Whether B comes in tiles of the kernel's own order, so nothing reorders it."""
        return self.weights in ("int4", "ternary") or self.pretiled

    @property
    def object_k(self) -> int:
        """Width of a memory-tile object of A along K."""
        return self.k if self.policy == "stock" else self.k_mt

    @property
    def object_k_b(self) -> int:
        """The same for B: row-major B keeps objects of k rows."""
        if self.policy == "stock" or (self.b_layout == "row" and not self.packed):
            return self.k
        return self.k_mt

    @cached_property
    def padded(self) -> tuple[int, int, int]:
        step = self.k if self.policy == "stock" else self.k_mt
        return (
            round_up(self.M, self.rows * self.m),
            round_up(self.K, step),
            round_up(self.N, self.n * self.columns),
        )

    @property
    def largest_operand(self) -> int:
        """Elements of A, B or C."""
        M, K, N = self.padded
        return max(M * K, K * N, M * N)

    @property
    def row_tiles(self) -> int:
        """nr: row tiles per core."""
        return self.padded[0] // (self.rows * self.m)

    @property
    def column_tiles(self) -> int:
        """nc: column tiles per core."""
        return self.padded[2] // (self.n * self.columns)

    @property
    def steps(self) -> int:
        """Reduction steps of one output tile."""
        return self.padded[1] // self.k

    @property
    def a_columns(self) -> int:
        """Memory tiles that carry A."""
        return min(self.columns, self.rows)

    @property
    def rows_per_a(self) -> int:
        """Row tiles of A in each of them."""
        return self.rows // self.a_columns

    def a_column(self, index: int) -> int:
        """The array column of A carrier `index`: every second one of eight."""
        return index * max(1, self.columns // self.rows)

    @property
    def input_bytes(self) -> int:
        return ELEMENT_BYTES[self.inputs]

    @property
    def output_bytes(self) -> int:
        return ELEMENT_BYTES[self.output]

    def weight_bytes(self, elements: int) -> int:
        return elements * WEIGHT_BITS[self.weights] // 8

    @property
    def l1_bytes(self) -> int:
        """Core memory: A and B double, C as deep as asked, the f32 sums, the stack."""
        c_bytes = self.m * self.n * self.output_bytes
        sums = 4 * self.m * self.n if self.wide_sum and self.output != "f32" else 0
        return (
            2 * self.m * self.k * self.input_bytes
            + 2 * self.weight_bytes(self.k * self.n)
            + self.c_depth * c_bytes
            + sums
            + self.stack_bytes
        )

    @property
    def row_streamed(self) -> bool:
        """Whether B comes in objects of one step while those of A hold several."""
        return self.policy == "wide_k" and self.b_layout == "row" and not self.packed

    @property
    def a_depth(self) -> int:
        """Memory-tile buffers of A where it is not resident."""
        return 2 if self.policy == "wide_k" else self.stream_depth

    @property
    def c_memory_depth(self) -> int:
        return 2 if self.policy == "stock" else 1

    @property
    def l2_bytes(self) -> int:
        """All memory tiles together."""
        a_object = self.rows_per_a * self.m * self.object_k * self.input_bytes
        b_object = self.weight_bytes(self.object_k_b * self.n)
        a_many, b_many = self.a_depth, self.stream_depth
        if self.policy == "resident_a":
            a_many = max(sum(self.slots()), self.reserved)
        if self.policy == "resident_b":
            b_many = max(sum(self.slots()), self.reserved)
        c_object = self.rows * self.m * self.n * self.output_bytes
        return (
            self.a_columns * a_many * a_object
            + self.columns * b_many * b_object
            + self.columns * self.c_memory_depth * c_object
        )

    def dram_bytes(self) -> dict[str, int]:
        """Bytes of A, B and C across DRAM, repetitions counted."""
        M, K, N = self.padded
        a_times = 1 if self.policy == "resident_a" else self.column_tiles
        b_times = 1 if self.policy == "resident_b" else self.row_tiles
        again = sum(1 for phase in self.phases() if phase)  # first panels that come twice
        return {
            "a": M * K * self.input_bytes * a_times,
            "b": self.weight_bytes(K * N) * b_times + again * self.weight_bytes(K * self.n),
            "c": M * N * self.output_bytes,
        }

    @property
    def multiplies(self) -> int:
        return math.prod(self.padded)

    @property
    def operations(self) -> int:
        """Logical operations: two per multiply-accumulate."""
        return 2 * self.M * self.K * self.N

    @property
    def sweeps(self) -> int:
        """How often a resident panel is sent."""
        return self.column_tiles if self.policy == "resident_a" else self.row_tiles

    @property
    def panels(self) -> int:
        return self.row_tiles if self.policy == "resident_a" else self.column_tiles

    def controller_seconds(self, device: ArrayDevice) -> float:
        """Time of the controller: every push and every token, one after the other."""
        push, token = device.controller.push_seconds, device.controller.token_seconds
        if self.policy == "stock" and self.synchronisation != "rolling":
            groups = -(-self.row_tiles // 2)
            return groups * (self.columns * (push + token)) + self.row_tiles * push * (
                self.a_columns + self.columns
            )
        if not self.policy.startswith("resident"):
            tiles = self.row_tiles * self.column_tiles
            return tiles * (push * (2 * self.columns + self.a_columns) + token * self.columns)
        again = sum(1 for phase in self.phases() if phase) / self.columns
        groups = self.panels * -(-self.sweeps // self.batch)
        resident, streamed = self.columns, self.a_columns
        if self.policy == "resident_a":
            resident, streamed = self.a_columns, self.columns
        each = push * (self.columns + streamed) + token * self.columns
        return groups * each + (self.panels + again) * resident * push * (1 + min(3, self.sweeps))

    def row_groups(self) -> list[int]:
        """Row tiles of each group that one set of tasks covers, over all rows."""
        return [min(self.batch, self.row_tiles - i) for i in range(0, self.row_tiles, self.batch)]

    def phases(self) -> tuple[int, ...]:
        """The row group at which each column changes its panel; a panel is sent twice at least."""
        if not self.stagger:
            return (0,) * self.columns
        groups = self.row_groups()
        found = []
        for column in range(self.columns):
            phase = column * len(groups) // self.columns
            before, after = sum(groups[:phase]), sum(groups[phase:])
            found.append(phase if before >= 2 and after >= 2 else 0)
        return tuple(found)

    def segments(self, column: int) -> list[tuple[int, int, int]]:
        """(first group, end, panel) of a column's resident panels of B, in order.

        The groups of all passes over the rows are counted on. A column whose phase is not zero
        begins with a part of its first panel and ends with the rest of it.
        """
        phase, each, panels = self.phases()[column], len(self.row_groups()), self.column_tiles
        starts = [0, *range(phase or each, each * panels, each)]
        ends = [*starts[1:], each * panels]
        return [(a, b, i % panels) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]

    @property
    def panel_width(self) -> int:
        """K of one object of the resident panel."""
        return self.object_k if self.policy == "resident_a" else self.object_k_b

    @property
    def reserved(self) -> int:
        """Objects that there is room for, where products with another K share it; else 0."""
        return round_up(self.panel_room, self.panel_width) // self.panel_width

    def slots(self) -> tuple[int, ...]:
        """Objects in each slot of the resident panel."""
        objects = self.padded[1] // self.panel_width
        many = min(self.panel_slots, objects)
        return tuple(objects // many + (i < objects % many) for i in range(many))
