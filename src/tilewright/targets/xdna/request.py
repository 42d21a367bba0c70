"""What the user asked for, checked against the array: every refusal names a legal choice."""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.targets.xdna.design import ELEMENT_BYTES
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.problem import (
    LARGEST,
    MAX_ELEMENTS,
    MAX_EXACT_K,
    MAX_ROW_DEPTH,
    MAX_STREAM_DEPTH,
    OUTPUTS,
    POLICIES,
    ROUNDINGS,
    SYNCHRONISATIONS,
    WEIGHT_BITS,
    Gemm,
    granules,
    nearest_multiple,
    refuse,
    round_up,
)

LONGEST_RUN = 1 << 20  # elements; longer ones gain nothing, whatever a device allows


def default_k_mt(K: int, k: int, device: ArrayDevice, element_bytes: int = 1) -> int:
    """The multiple of k that wastes least: padding of K against DRAM runs shorter than they pay."""
    best, best_cost = k, math.inf
    for k_mt in range(k, max(k, min(device.max_run_elements, LONGEST_RUN)) + 1, k):
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
    stagger: bool = False,
    stream_depth: int | None = None,
) -> Gemm:
    """Check a GEMM and its tile against the array; every refusal names the nearest legal choice."""
    if policy not in POLICIES:
        raise refuse(f"there is no policy {policy!r}", f"policies: {', '.join(POLICIES)}")
    inputs, weights = _types(dtype, weights)
    output = out or ("bf16" if inputs == "bf16" else "i32")
    _check_types(inputs, weights, output)
    for name, value in (("M", M), ("K", K), ("N", N)):
        if not 1 <= value <= LARGEST:
            raise refuse(
                f"{name} is {value}; sizes from 1 to {LARGEST} can be mapped",
                f"nearest legal: {min(max(value, 1), LARGEST)}",
            )
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
        stagger=stagger, stack_bytes=device.stack.stock if policy == "stock" else device.stack.other,
    )  # fmt: skip
    if stagger and (policy != "resident_b" or synchronisation != "rolling"):
        raise refuse(
            "panels change one after the other only where each column has its own",
            "use resident_b with rolling synchronisation",
        )
    gemm = with_streams(gemm, device, stream_depth)
    _check_size(gemm)
    _check_policy(gemm, device)
    _check_accumulators(gemm)
    return with_batch(gemm, device)


def with_streams(gemm: Gemm, device: ArrayDevice, asked: int | None = None) -> Gemm:
    """The buffers of streamed operands in the memory tiles: as asked, or as the layout of B needs.

    Row-major B has objects of one step where those of A hold several. While an object of A crosses
    DRAM, the cores live on the steps of B that are there already: so B gets as many buffers as hold
    what column-major B would hold, if descriptors and memory have room for them.
    """
    if asked is not None:
        deepest = MAX_STREAM_DEPTH if gemm.resident else MAX_ROW_DEPTH if gemm.row_streamed else 2
        if not 2 <= asked <= deepest:
            raise refuse(
                f"{gemm.policy} does not buffer objects of streamed operands {asked} times",
                f"nearest legal: {min(max(asked, 2), deepest)} buffers",
            )
        return replace(gemm, stream_depth=asked)
    depth = 2
    if gemm.row_streamed:
        per_tile = device.tile["memory"].memory_bytes
        beside = 2 * gemm.rows_per_a * gemm.m * gemm.object_k * gemm.input_bytes
        beside += gemm.c_memory_depth * gemm.rows * gemm.m * gemm.n * gemm.output_bytes
        room = (per_tile - beside) // (gemm.k * gemm.n * gemm.input_bytes)
        depth = max(2, min(2 * gemm.object_k // gemm.k, MAX_ROW_DEPTH, room))
    return replace(gemm, stream_depth=depth)


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


def _check_tile(tile: tuple[int, int, int], block: tuple[int, int, int], weights: str) -> None:
    steps = granules(block, weights)
    if any(size < 1 or size % step for size, step in zip(tile, steps, strict=True)):
        near = tuple(nearest_multiple(size, step) for size, step in zip(tile, steps, strict=True))
        raise refuse(
            f"the tile {'x'.join(map(str, tile))} is not made of blocks: m, k, n are multiples of"
            f" {', '.join(map(str, steps))}",
            f"nearest legal tile: {'x'.join(map(str, near))}",
        )


def _check_size(gemm: Gemm) -> None:
    """Operands that are too large to be followed; the nearest legal shape has its sides cut."""
    if gemm.largest_operand <= MAX_ELEMENTS:
        return
    sides = {"M": gemm.M, "K": gemm.K, "N": gemm.N}
    while replace(gemm, **sides).largest_operand > MAX_ELEMENTS:
        name = max(sides, key=lambda side: sides[side])
        sides[name] = sides[name] * 15 // 16
    raise refuse(
        f"an operand of {gemm.M}x{gemm.K}x{gemm.N} has {gemm.largest_operand} elements with its"
        f" padding; up to {MAX_ELEMENTS} are followed",
        f"split the product; nearest legal shape: {'x'.join(str(n) for n in sides.values())}",
    )


def _check_policy(gemm: Gemm, device: ArrayDevice) -> None:
    room = device.tile["core"].memory_bytes
    if gemm.l1_bytes > room:
        raise refuse(
            f"the tile {gemm.m}x{gemm.k}x{gemm.n} needs {gemm.l1_bytes} bytes of core memory"
            f" ({gemm.stack_bytes} of them stack), a core has {room}",
            f"nearest legal tile: {_smaller_tile(gemm, room)}",
        )
    if gemm.policy == "resident_a":
        if gemm.rows_per_a != 1:
            raise refuse(
                f"resident_a keeps one row panel per memory tile; {gemm.columns} columns need"
                f" {gemm.rows_per_a}",
                "use 4 or 8 columns, or resident_b",
            )
        if gemm.column_tiles < 2:
            least = _below(gemm.N, gemm.columns, granules(gemm.block, gemm.weights)[2])
            raise refuse(
                f"resident_a sends a panel of A at least twice; N = {gemm.N} is one sweep",
                "use wide_k" + (f", or n up to {least}" if least else ""),
            )
    if gemm.policy == "resident_b" and gemm.row_tiles < 2:
        least = _below(gemm.M, gemm.rows, granules(gemm.block, gemm.weights)[0])
        raise refuse(
            f"resident_b sends a panel of B at least twice; M = {gemm.M} is one sweep",
            "use wide_k" + (f", or m up to {least}" if least else ""),
        )
    if gemm.resident and gemm.sweeps - 2 > device.max_repeat:
        side, size, many, step = "m", gemm.M, gemm.rows, granules(gemm.block, gemm.weights)[0]
        if gemm.policy == "resident_a":
            side, size, many = "n", gemm.N, gemm.columns
            step = granules(gemm.block, gemm.weights)[2]
        least = round_up(-(-size // (many * (device.max_repeat + 2))), step)
        fits = replace(gemm, **{side: least}).l1_bytes <= room
        raise refuse(
            f"{gemm.policy} would send a panel {gemm.sweeps} times; a task repeats"
            f" {device.max_repeat} times at most",
            "use wide_k" + (f", or {side} of at least {least}" if fits else ""),
        )


def _below(size: int, many: int, step: int) -> int:
    """The largest side of a tile of which more than one, `many` at a time, are in `size`; or 0."""
    return max(0, (size - 1) // many // step * step)


def _smaller_tile(gemm: Gemm, room: int) -> str:
    """The tile with a shorter k, down to the half, or with all sides shrunk alike, that fits."""
    steps = granules(gemm.block, gemm.weights)
    for k in range(gemm.k, gemm.k // 2 - 1, -steps[1]):
        if k and replace(gemm, k=k, k_mt=k).l1_bytes <= room:
            return f"{gemm.m}x{k}x{gemm.n}"
    m, k, n = gemm.m, gemm.k, gemm.n
    while replace(gemm, m=m, k=k, n=n).l1_bytes > room and (m, k, n) != steps:
        m, k, n = (
            max(step, side * 31 // 32 // step * step)
            for side, step in zip((m, k, n), steps, strict=True)
        )
    return f"{m}x{k}x{n}"


def _check_accumulators(gemm: Gemm) -> None:
    if gemm.shift and gemm.output not in ("i16", "i8"):
        raise refuse(
            f"{gemm.output} results are not shifted, so a shift of {gemm.shift} means nothing",
            "nearest legal shift: 0; only i16 and i8 results are narrowed",
        )
    if gemm.inputs != "i8":
        return
    if gemm.weights == "ternary":
        bound = (1 << 31) // (128 * (4 if gemm.zero_point == "sub" else 8)) - 1
        if bound < gemm.K:
            raise refuse(f"K = {gemm.K} can overflow the accumulators", f"K up to {bound}")
        return
    if gemm.output == "i32" and gemm.K > MAX_EXACT_K:  # padding is zeros and adds nothing
        raise refuse(
            f"K = {gemm.K} can overflow the int32 accumulators",
            f"K up to {MAX_EXACT_K}; split the reduction",
        )
    if gemm.output != "i32":
        if gemm.shift < 0:
            raise refuse(f"a shift of {gemm.shift} is negative", "nearest legal shift: 0")
        largest = (1 << (8 * gemm.output_bytes - 1)) << min(gemm.shift, 31)
        if largest + gemm.k * 128 * 128 >= 1 << 31:
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
