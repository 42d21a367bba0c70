"""From a GEMM to a design: FIFOs, links and core programs for every policy.

Rows of A go to core rows (broadcast along the columns), columns of B to array columns (broadcast
along the rows), C of the four cores of a column is joined in its memory tile. The policies differ
in what the memory tiles hold: objects of one step (`stock`), objects of several steps so that DRAM
runs are long (`wide_k`), or a whole panel of one operand that is sent again and again
(`resident_a`, `resident_b`).
"""

from __future__ import annotations

from tilewright.targets.xdna.design import (
    Acquire,
    Barrier,
    Call,
    CoreProgram,
    Design,
    Dimensions,
    Fifo,
    HostBuffer,
    Kernel,
    Link,
    Loop,
    ObjectType,
    Parameter,
    Release,
    Residency,
    Tile,
)
from tilewright.targets.xdna.device import FIRST_CORE_ROW, MEMORY_ROW, SHIM_ROW, ArrayDevice
from tilewright.targets.xdna.problem import Gemm
from tilewright.targets.xdna.sequence import runtime_steps

STEPS_PARAMETER, TILES_PARAMETER = 0, 1


def design_of(gemm: Gemm, device: ArrayDevice) -> Design:
    """The design of a validated GEMM."""
    a_fifos, a_links = _a_path(gemm)
    b_fifos, b_links = _b_path(gemm)
    c_fifos, c_links = _c_path(gemm)
    M, K, N = gemm.padded
    b_element = "i8" if gemm.weights in ("int4", "ternary") else gemm.inputs
    b_count = gemm.weight_bytes(K * N) if b_element == "i8" else K * N
    return Design(
        device_name=device.name,
        device=device,
        fifos=(*a_fifos, *b_fifos, *c_fifos),
        links=(*a_links, *b_links, *c_links),
        kernels=_kernels(gemm),
        cores=tuple(
            _core(gemm, row, column) for column in range(gemm.columns) for row in range(gemm.rows)
        ),
        buffers=(
            HostBuffer("A", M * K, gemm.inputs),
            HostBuffer("B", b_count, b_element),
            HostBuffer("C", M * N, gemm.output),
        ),
        runtime=runtime_steps(gemm, device),
        gemm=gemm,
    )


def _a_path(gemm: Gemm) -> tuple[list[Fifo], list[Link]]:
    """A: shim to memory tile, then one broadcast per core row."""
    r, s, _ = gemm.block
    m, k, wide, per = gemm.m, gemm.k, gemm.object_k, gemm.rows_per_a
    arriving: Dimensions = ()
    core_arriving: Dimensions = ()
    if gemm.policy == "stock":
        leaving: Dimensions = ((m // r, r * k), (k // s, s), (r, k), (s, 1))
    else:
        arriving = ((m, k), (wide // k, m * k), (k, 1))
        if per > 1:
            arriving = ((per, m * wide), *arriving)
        leaving = ((wide // k, m * k), (k // s, s), (m, k), (s, 1))
        core_arriving = ((k // s, r * s), (m // r, k // s * r * s), (r * s, 1))
    into: list[Fifo] = []
    onward: list[Fifo] = []
    links: list[Link] = []
    residency = None
    if gemm.policy == "resident_a":
        residency = Residency(gemm.slots(), gemm.column_tiles, gemm.reserved)
    for i in range(gemm.a_columns):
        column = gemm.a_column(i)
        memory = Tile(column, MEMORY_ROW)
        into.append(
            Fifo(
                f"a_l3l2_{i}",
                Tile(column, SHIM_ROW),
                (memory,),
                len(residency.slots) if residency else gemm.a_depth,
                ObjectType((per * m, wide), gemm.inputs),
                from_stream=(arriving,) if arriving else (),
            )
        )
        rows = range(i * per, (i + 1) * per)
        onward += [
            Fifo(
                f"a_l2l1_{row}",
                memory,
                tuple(Tile(c, FIRST_CORE_ROW + row) for c in range(gemm.columns)),
                2,
                ObjectType((m, k), gemm.inputs),
                leaving,
                (core_arriving,) * gemm.columns if core_arriving else (),
            )
            for row in rows
        ]
        links.append(
            Link(
                (f"a_l3l2_{i}",),
                tuple(f"a_l2l1_{row}" for row in rows),
                tuple(m * wide * j for j in range(per)) if per > 1 else (),
                residency,
            )
        )
    return [*into, *onward], links


def _b_path(gemm: Gemm) -> tuple[list[Fifo], list[Link]]:
    """B: shim to memory tile, then a broadcast to the cores of the column."""
    _, s, t = gemm.block
    k, n, wide = gemm.k, gemm.n, gemm.object_k_b
    arriving: Dimensions = ()
    core_arriving: Dimensions = ()
    leaving: Dimensions = ()
    if gemm.packed:
        element = "i8" if gemm.weights in ("int4", "ternary") else gemm.inputs
        scale = (lambda e: gemm.weight_bytes(e)) if element == "i8" else (lambda e: e)
        memory_object = ObjectType((scale(wide * n),), element)
        core_object = ObjectType((scale(k * n),), element)
    elif gemm.b_layout == "row":
        memory_object = core_object = ObjectType((k, n), gemm.inputs)
        leaving = ((k // s, s * n), (n // t, t), (s, n), (t, 1))
    else:
        memory_object = ObjectType((n, wide), gemm.inputs)
        core_object = ObjectType((n, k), gemm.inputs)
        if gemm.policy == "stock":
            leaving = ((n // t, t * k), (k // s, s), (t, k), (s, 1))
        else:
            arriving = ((n, k), (wide // k, n * k), (k, 1))
            leaving = ((wide // k, n * k), (k // s, s), (n, k), (s, 1))
            core_arriving = ((k // s, t * s), (n // t, k // s * t * s), (t * s, 1))
    residency = None
    if gemm.policy == "resident_b":
        residency = Residency(gemm.slots(), gemm.row_tiles, gemm.reserved)
    into: list[Fifo] = []
    onward: list[Fifo] = []
    links: list[Link] = []
    for c in range(gemm.columns):
        memory = Tile(c, MEMORY_ROW)
        into.append(
            Fifo(
                f"b_l3l2_{c}",
                Tile(c, SHIM_ROW),
                (memory,),
                len(residency.slots) if residency else gemm.stream_depth,
                memory_object,
                from_stream=(arriving,) if arriving else (),
            )
        )
        onward.append(
            Fifo(
                f"b_l2l1_{c}",
                memory,
                tuple(Tile(c, FIRST_CORE_ROW + row) for row in range(gemm.rows)),
                2,
                core_object,
                leaving,
                (core_arriving,) * gemm.rows if core_arriving else (),
            )
        )
        links.append(Link((f"b_l3l2_{c}",), (f"b_l2l1_{c}",), (), residency))
    return [*into, *onward], links


def _c_path(gemm: Gemm) -> tuple[list[Fifo], list[Link]]:
    """C: the cores of a column into their memory tile, joined, then to the shim."""
    r, _, t = gemm.block
    m, n = gemm.m, gemm.n
    if gemm.c_layout == "row":
        leaving: Dimensions = ((m // r, r * n), (r, t), (n // t, r * t), (t, 1))
    else:
        leaving = ((n // t, t * m), (t, r), (m // r, r * t), (r, 1))
    from_cores: list[Fifo] = []
    out: list[Fifo] = []
    links: list[Link] = []
    for c in range(gemm.columns):
        memory = Tile(c, MEMORY_ROW)
        names = []
        for row in range(gemm.rows):
            names.append(f"c_l1l2_{row}_{c}")
            from_cores.append(
                Fifo(
                    names[-1],
                    Tile(c, FIRST_CORE_ROW + row),
                    (memory,),
                    gemm.c_depth,
                    ObjectType((m, n), gemm.output),
                )
            )
        out.append(
            Fifo(
                f"c_l2l3_{c}",
                memory,
                (Tile(c, SHIM_ROW),),
                gemm.c_memory_depth,
                ObjectType((gemm.rows * m, n), gemm.output),
                leaving,
            )
        )
        links.append(
            Link(tuple(names), (f"c_l2l3_{c}",), tuple(m * n * row for row in range(gemm.rows)))
        )
    return [*from_cores, *out], links


def _kernels(gemm: Gemm) -> tuple[Kernel, ...]:
    kind = gemm.weights if gemm.weights != gemm.inputs else gemm.inputs
    common = {
        "m": gemm.m,
        "k": gemm.k,
        "n": gemm.n,
        "block": gemm.block,
        "inputs": gemm.inputs,
        "weights": gemm.weights,
        "output": gemm.output,
        "b_layout": "row" if gemm.packed else gemm.b_layout,
        "c_layout": gemm.c_layout,
        "shift": gemm.shift,
        "rounding": gemm.rounding,
        "saturate": gemm.saturate,
        "zero_point": gemm.zero_point,
        "numbers": gemm.numbers,
        "wide_sum": gemm.wide_sum,
    }
    return (
        Kernel(name=f"zero_{gemm.output}", kind="zero", **common),
        Kernel(name=f"matmul_{kind}_{gemm.output}", kind="multiply", **common),
    )


def _core(gemm: Gemm, row: int, column: int) -> CoreProgram:
    zero, multiply = (kernel.name for kernel in _kernels(gemm))
    a, b, c = f"a_l2l1_{row}", f"b_l2l1_{column}", f"c_l1l2_{row}_{column}"
    step = (
        Acquire(a),
        Acquire(b),
        Call(
            multiply,
            ((a, 0), (b, 0), (c, 0)),
            last_step=gemm.weights == "ternary" or gemm.wide_sum,
        ),
        Release(a),
        Release(b),
    )
    tile = (
        Acquire(c),
        Call(zero, ((c, 0),)),
        Loop(Parameter(STEPS_PARAMETER), step),
        Release(c),
    )
    return CoreProgram(
        Tile(column, FIRST_CORE_ROW + row),
        (Barrier(), Loop(Parameter(TILES_PARAMETER), tile)),
        gemm.stack_bytes,
        parameters=2,
    )
