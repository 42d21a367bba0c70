"""One GEMM on the array: what the user asked for, checked, and the sizes that follow.

M x K times K x N in tiles of m x k x n, one tile per core and step, four core rows by `columns`
columns. Odd shapes are padded by the host with zeros; the numbers here are of the padded shape
unless they are called logical.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
MAX_EXACT_K = 131071  # int8 products summed in int32 cannot wrap up to here
LARGEST = 1 << 20


def refuse(sentence: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW8030", sentence, hint=hint)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def nearest_multiple(value: int, multiple: int) -> int:
    return max(multiple, round(value / multiple) * multiple)


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
    def c_memory_depth(self) -> int:
        return 2 if self.policy == "stock" else 1

    @property
    def l2_bytes(self) -> int:
        """All memory tiles together."""
        a_object = self.rows_per_a * self.m * self.object_k * self.input_bytes
        b_object = self.weight_bytes(self.object_k_b * self.n)
        a_many, b_many = 2, 2
        if self.policy == "resident_a":
            a_many = self.padded[1] // self.object_k
        if self.policy == "resident_b":
            b_many = self.padded[1] // self.object_k_b
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
        return {
            "a": M * K * self.input_bytes * a_times,
            "b": self.weight_bytes(K * N) * b_times,
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
        groups = self.panels * -(-self.sweeps // self.batch)
        resident, streamed = self.columns, self.a_columns
        if self.policy == "resident_a":
            resident, streamed = self.a_columns, self.columns
        each = push * (self.columns + streamed) + token * self.columns
        return groups * each + self.panels * resident * push * (1 + min(3, self.sweeps))

    def slots(self) -> tuple[int, ...]:
        """Objects in each slot of the resident panel."""
        width = self.object_k if self.policy == "resident_a" else self.object_k_b
        objects = self.padded[1] // width
        many = min(SLOTS, objects)
        return tuple(objects // many + (i < objects % many) for i in range(many))


def default_k_mt(K: int, k: int, device: ArrayDevice, element_bytes: int = 1) -> int:
    """The multiple of k that wastes least: padding of K against DRAM runs shorter than they pay."""
    best, best_cost = k, math.inf
    for k_mt in range(k, max(k, device.max_run_elements) + 1, k):
        slow = device.dram.bandwidth / device.dram.rate(k_mt * element_bytes, adjacent=False)
        cost = round_up(K, k_mt) * slow
        if cost <= best_cost:
            best, best_cost = k_mt, cost
    return best


def gemm_of(
    M: int,
    K: int,
    N: int,
    tile: tuple[int, int, int],
    policy: str,
    device: ArrayDevice,
    *,
    columns: int | None = None,
    dtype: str = "i8",
    out: str | None = None,
    weights: str | None = None,
    b_layout: str | None = None,
    c_layout: str = "row",
    c_depth: int | None = None,
    k_mt: int | None = None,
    synchronisation: str | None = None,
    shift: int = 0,
    rounding: str = "half_even",
    saturate: bool = True,
    zero_point: str = "sub",
    numbers: str = "exact",
    wide_sum: bool = False,
    pretiled: bool = False,
) -> Gemm:
    """Check a GEMM and its tile against the array; every refusal names the nearest legal choice."""
    if policy not in POLICIES:
        raise refuse(f"there is no policy {policy!r}", f"policies: {', '.join(POLICIES)}")
    inputs, weights = _types(dtype, weights)
    output = out or ("bf16" if inputs == "bf16" else "i32")
    _check_types(inputs, weights, output)
    for name, value in (("M", M), ("K", K), ("N", N)):
        if not 1 <= value <= LARGEST:
            raise refuse(f"{name} is {value}; sizes from 1 to {LARGEST} can be mapped")
    columns = _columns(columns, device)
    if inputs not in device.mac:
        raise refuse(f"{device.name} has no multiply for {inputs}")
    block = device.mac[inputs].shape
    _check_tile(tile, block, weights)
    m, k, n = tile
    b_layout = b_layout or ("row" if policy == "stock" else "col")
    for name, layout in (("B", b_layout), ("C", c_layout)):
        if layout not in ("row", "col"):
            raise refuse(f"{name} cannot lie {layout!r}", "layouts: row, col")
    if c_depth is None:
        c_depth = 2 if policy == "stock" and not wide_sum else 1
    if c_depth not in (1, 2):
        raise refuse(f"C cannot be buffered {c_depth} times in a core", "1 or 2")
    if wide_sum and c_depth != 1:
        raise refuse("with f32 sums beside it, C is buffered once", "use c_depth 1")
    if k_mt is None:
        k_mt = k if policy == "stock" else default_k_mt(K, k, device, ELEMENT_BYTES[inputs])
    if k_mt < k or k_mt % k:
        raise refuse(
            f"k_mt of {k_mt} is no multiple of k = {k}",
            f"nearest legal: {nearest_multiple(k_mt, k)}",
        )
    if policy == "stock" and k_mt != k:
        raise refuse("the stock policy moves objects of k columns", f"k_mt is {k}, or use wide_k")
    allowed = SYNCHRONISATIONS[policy]
    synchronisation = synchronisation or allowed[0]
    if synchronisation not in allowed:
        raise refuse(
            f"the {policy} policy does not synchronise by {synchronisation!r}",
            f"choices: {', '.join(allowed)}",
        )
    if rounding not in ROUNDINGS:
        raise refuse(f"there is no rounding {rounding!r}", f"roundings: {', '.join(ROUNDINGS)}")
    if zero_point not in ("sub", "rowsum"):
        raise refuse(f"there is no zero point {zero_point!r}", "sub or rowsum")
    gemm = Gemm(
        M=M, K=K, N=N, m=m, k=k, n=n, columns=columns, policy=policy, device_name=device.name,
        block=block, rows=device.core_rows, inputs=inputs, weights=weights, output=output,
        b_layout=b_layout, c_layout=c_layout, c_depth=c_depth, k_mt=k_mt,
        synchronisation=synchronisation, shift=shift, rounding=rounding, saturate=saturate,
        zero_point=zero_point, numbers=numbers, wide_sum=wide_sum, pretiled=pretiled,
        stack_bytes=device.stack.stock if policy == "stock" else device.stack.other,
    )  # fmt: skip
    _check_policy(gemm, device)
    _check_accumulators(gemm)
    return with_batch(gemm, device)


def with_batch(gemm: Gemm, device: ArrayDevice) -> Gemm:
    """The fewest tiles per task set that keep the controller well below the multiplies.

    A panel keeps at least two sets, so that the next one is announced before it ends; the rows a
    task reaches over have to fit its iteration.
    """
    if not gemm.policy.startswith("resident"):
        return gemm
    _, K, N = gemm.padded
    words = 1 << device.tile["shim"].step_bits
    if gemm.policy == "resident_b":
        reach = gemm.rows * gemm.m * max(K * gemm.input_bytes, N * gemm.output_bytes)
    elif gemm.packed:
        reach = gemm.columns * gemm.weight_bytes(gemm.n * K)
    else:
        reach = gemm.columns * gemm.n * (K if gemm.b_layout == "col" else 1) * gemm.input_bytes
    most = min(-(-gemm.sweeps // 2), 1 << device.tile["shim"].iteration_bits)
    if reach > 4 * words or (gemm.c_layout == "col" and gemm.policy == "resident_a"):
        most = 1
    mode = device.mac[gemm.inputs]
    peak = math.prod(mode.shape) / mode.interval
    multiplies = gemm.multiplies / (peak * gemm.rows * gemm.columns * device.clock_hz)
    batch = 1
    while batch < most:
        tried = replace(gemm, batch=batch)
        if tried.controller_seconds(device) <= 0.6 * multiplies:
            break
        batch += 1
    return replace(gemm, batch=batch)


def _types(dtype: str, weights: str | None) -> tuple[str, str]:
    if dtype in ("ternary", "int4"):
        return "i8", dtype
    if dtype not in ("i8", "bf16"):
        raise refuse(f"there is no GEMM for {dtype!r}", "types: i8, ternary, int4, bf16")
    return dtype, weights or dtype


def _check_types(inputs: str, weights: str, output: str) -> None:
    if output not in ELEMENT_BYTES:
        raise refuse(f"there is no output type {output!r}", "outputs: i32, i16, i8, bf16, f32")
    if output not in OUTPUTS[inputs]:
        raise refuse(
            f"{inputs} inputs do not give {output}: both are integer or both float",
            f"outputs for {inputs}: {', '.join(OUTPUTS[inputs])}",
        )
    if weights not in WEIGHT_BITS or (weights == "bf16") != (inputs == "bf16"):
        raise refuse(f"weights of type {weights} do not go with {inputs} inputs")
    if weights == "ternary" and output != "i32":
        raise refuse(
            f"a ternary GEMM has i32 output only, not {output}: right-hand sums are scaled by 4"
            " until the last step and the host applies the scales",
            "use i32",
        )


def _columns(columns: int | None, device: ArrayDevice) -> int:
    legal = [c for c in (1, 2, 4, 8) if c <= device.columns]
    if columns is None:
        return legal[-1]
    if columns not in legal:
        near = min(legal, key=lambda c: abs(c - columns))
        raise refuse(
            f"{columns} columns of {device.name} cannot be used: the rows of A need 1, 2, 4 or 8",
            f"nearest legal: {near}",
        )
    return columns


def granules(block: tuple[int, int, int], weights: str) -> tuple[int, int, int]:
    """What m, k and n have to be multiples of."""
    r, s, t = block
    return 2 * r, 2 * s if weights == "ternary" else s, 2 * t


def _check_tile(tile: tuple[int, int, int], block: tuple[int, int, int], weights: str) -> None:
    steps = granules(block, weights)
    if any(size < 1 or size % step for size, step in zip(tile, steps, strict=True)):
        near = tuple(nearest_multiple(size, step) for size, step in zip(tile, steps, strict=True))
        raise refuse(
            f"the tile {'x'.join(map(str, tile))} is not made of blocks: m, k, n are multiples of"
            f" {', '.join(map(str, steps))}",
            f"nearest legal tile: {'x'.join(map(str, near))}",
        )


def _check_policy(gemm: Gemm, device: ArrayDevice) -> None:
    room = device.tile["core"].memory_bytes
    if gemm.l1_bytes > room:
        smaller = _smaller_tile(gemm, room)
        raise refuse(
            f"the tile {gemm.m}x{gemm.k}x{gemm.n} needs {gemm.l1_bytes} bytes of core memory"
            f" ({gemm.stack_bytes} of them stack), a core has {room}",
            f"nearest legal tile: {smaller}" if smaller else "use smaller tiles",
        )
    if gemm.policy == "resident_a":
        if gemm.rows_per_a != 1:
            raise refuse(
                f"resident_a keeps one row panel per memory tile; {gemm.columns} columns need"
                f" {gemm.rows_per_a}",
                "use 4 or 8 columns, or resident_b",
            )
        if gemm.column_tiles < 2:
            raise refuse(
                f"resident_a sends a panel of A at least twice; N = {gemm.N} is one sweep",
                "use wide_k, or a smaller n",
            )
    if gemm.policy == "resident_b" and gemm.row_tiles < 2:
        raise refuse(
            f"resident_b sends a panel of B at least twice; M = {gemm.M} is one sweep",
            "use wide_k, or a smaller m",
        )


def _smaller_tile(gemm: Gemm, room: int) -> str | None:
    """The tile with the same m and n, or shrunk alike, that fits."""
    step_m, step_k, step_n = granules(gemm.block, gemm.weights)
    for k in range(gemm.k, 0, -step_k):
        if replace(gemm, k=k, k_mt=k).l1_bytes <= room:
            return f"{gemm.m}x{k}x{gemm.n}"
    for m in range(gemm.m, 0, -step_m):
        n = round_up(gemm.n * m // gemm.m, step_n)
        if replace(gemm, m=m, n=n).l1_bytes <= room:
            return f"{m}x{gemm.k}x{n}"
    return None


def _check_accumulators(gemm: Gemm) -> None:
    if gemm.inputs != "i8":
        return
    if gemm.weights == "ternary":
        bound = (1 << 31) // (128 * (4 if gemm.zero_point == "sub" else 8)) - 1
        if gemm.padded[1] > bound:
            raise refuse(f"K = {gemm.padded[1]} can overflow the accumulators", f"K up to {bound}")
        return
    if gemm.output == "i32" and gemm.padded[1] > MAX_EXACT_K:
        raise refuse(
            f"K = {gemm.padded[1]} can overflow the int32 accumulators",
            f"K up to {MAX_EXACT_K}; split the reduction",
        )
    if gemm.output != "i32":
        largest = (1 << (8 * gemm.output_bytes - 1)) << gemm.shift
        if gemm.shift < 0 or largest + gemm.k * 128 * 128 >= 1 << 31:
            raise refuse(
                f"a shift of {gemm.shift} lets C << shift plus one step of k = {gemm.k} overflow"
                " the int32 accumulators",
                f"nearest legal shift: {_largest_shift(gemm)}",
            )


def _largest_shift(gemm: Gemm) -> int:
    shift = 0
    while ((1 << (8 * gemm.output_bytes - 1)) << (shift + 1)) + gemm.k * 128 * 128 < 1 << 31:
        shift += 1
    return shift
