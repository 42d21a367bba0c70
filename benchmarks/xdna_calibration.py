"""The XDNA model against published figures: kernel rates, whole GEMMs, ablations, search.

    python benchmarks/xdna_calibration.py            # rows and ablations, some minutes
    python benchmarks/xdna_calibration.py --search   # also the searches, several minutes
    python benchmarks/xdna_calibration.py --search --write

Writes benchmarks/results/xdna.md.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.targets.xdna.analytic import estimate
from tilewright.targets.xdna.bandwidth import lower_bound
from tilewright.targets.xdna.bitnet import LAYERS_2B
from tilewright.targets.xdna.design import Kernel
from tilewright.targets.xdna.device import ArrayDevice, load_device
from tilewright.targets.xdna.events import simulate_time
from tilewright.targets.xdna.gemm import gemm_behind, plan_gemm
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import Gemm
from tilewright.targets.xdna.request import gemm_of
from tilewright.targets.xdna.search import search

RESULTS = Path(__file__).parent / "results" / "xdna.md"
Tile = tuple[int, int, int]

# Published single-core rates: device, operands, result, tile, MAC/cycle.
KERNELS: list[tuple[str, str, str, Tile, float]] = [
    ("npu2", "i8", "i8", (64, 232, 64), 450.6),
    ("npu2", "i8", "i16", (64, 216, 64), 419.8),
    ("npu2", "i8", "i32", (48, 280, 48), 384.0),
    ("npu2", "bf16", "bf16", (48, 152, 48), 158.1),
    ("npu1", "i8", "i8", (64, 232, 64), 233.0),
    ("npu1", "i8", "i16", (64, 216, 64), 217.6),
    ("npu1", "i8", "i32", (48, 280, 48), 192.0),
    ("npu1", "bf16", "bf16", (64, 104, 64), 112.6),
]
# Published GEMMs on the whole npu2 array: operands, result, tile, MAC/cycle, shape, TOPS.
ROWS: list[tuple[str, str, Tile, float, Tile, float]] = [
    ("i8", "i8", (144, 72, 144), 343.0, (4032, 4320, 4608), 37.35),
    ("i8", "i8", (160, 64, 144), 322.6, (4480, 4224, 4608), 36.13),
    ("i8", "i16", (128, 72, 112), 307.2, (4096, 4320, 4480), 30.77),
    ("i8", "i16", (160, 64, 96), 271.4, (4480, 4224, 4608), 29.59),
    ("i8", "i32", (96, 64, 96), 256.0, (4224, 4224, 4608), 24.74),
    ("i8", "i32", (128, 56, 80), 209.9, (4096, 4032, 4480), 21.67),
    ("bf16", "bf16", (112, 48, 96), 137.2, (4032, 4224, 4608), 14.52),
    ("bf16", "bf16", (160, 40, 80), 124.1, (4480, 4160, 4480), 13.67),
]
# Column-major against row-major B: device, operands, result, tile, k_mt, MAC/cycle, published gain.
# Tiles of npu1 are our choice; its rates follow from those of a single core.
ColumnRow = tuple[str, str, str, Tile, int, float | None, str]
COLUMNS: list[ColumnRow] = [
    ("npu2", "i8", "i8", (144, 72, 144), 432, 343.0, "+19.1 %"),
    ("npu2", "i8", "i16", (128, 72, 112), 432, 307.2, "+25.2 %"),
    ("npu2", "bf16", "bf16", (112, 48, 96), 384, 137.2, "+8.7 %"),
    ("npu1", "i8", "i8", (112, 112, 112), 336, None, "+4.8 %"),
    ("npu1", "i8", "i16", (96, 112, 96), 336, None, "+4.4 %"),
    ("npu1", "bf16", "bf16", (96, 56, 96), 224, None, "+0.57 %"),
]
CANDIDATES = {"wide_k": 3, "auto": 6}  # simulated, besides the best of each policy
SEARCHED = ((4096, 4096, 4096), (4032, 4320, 4608), (4224, 4224, 4608))


def tops(
    shape: Tile,
    tile: Tile,
    policy: str,
    rate: float | None = None,
    device: str = "npu2",
    **more: Any,
) -> float:
    """Simulated TOPS; the bound is checked on the way."""
    design = plan_gemm(*shape, tile=tile, policy=policy, device=device, **more)
    seconds = simulate_time(design, kernel_rate=rate).seconds
    assert seconds >= lower_bound(design, kernel_rate=rate).seconds * (1 - 1e-9)
    return gemm_behind(design).operations / seconds / 1e12


def percent(value: float, published: float) -> str:
    return f"{100 * (value / published - 1):+.1f} %"


def kernel_rows() -> list[str]:
    lines = [
        "| device | type | tile | published MAC/cycle | scheduled | error |",
        "|---|---|---|---|---|---|",
    ]
    whole = [("npu2", i, o, t, r) for i, o, t, r, _, _ in ROWS]
    for name, operands, result, tile, published in [*KERNELS, *whole]:
        device = load_device(name)
        kernel = Kernel("", "multiply", *tile, device.mac[operands].shape, operands, operands, result, b_layout="col")  # fmt: skip
        rate = kernel_time(kernel, device).macs_per_cycle
        lines.append(
            f"| {name} | {operands} to {result} | {'x'.join(map(str, tile))} | {published} |"
            f" {rate:.1f} | {percent(rate, published)} |"
        )
    return lines


def array_rows() -> list[str]:
    lines = [
        "| type | tile | shape | published TOPS | published kernel rates | error | own rates | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operands, result, tile, rate, shape, published in ROWS:
        given = tops(shape, tile, "wide_k", rate, dtype=operands, out=result)
        own = tops(shape, tile, "wide_k", dtype=operands, out=result)
        lines.append(
            f"| {operands} to {result} | {'x'.join(map(str, tile))} | {'x'.join(map(str, shape))} |"
            f" {published} | {given:.2f} | {percent(given, published)} | {own:.2f} |"
            f" {percent(own, published)} |"
        )
    return lines


def published_rate(device: str, operands: str, result: str, k: int) -> float:
    """MAC/cycle at another k: the overhead of the published rate, four cycles per step of s."""
    rows = [(tile[1], rate) for name, a, c, tile, rate in KERNELS if (name, a, c) == (device, operands, result)]  # fmt: skip
    (length, rate) = rows[0]
    r, s, t = load_device(device).mac[operands].shape
    overhead = 4 * r * t * length / rate - 4 * length / s
    return 4 * r * t * k / (4 * k / s + overhead)


def sweep(row: ColumnRow, rate: float | None) -> list[tuple[Gemm, Gemm]]:
    """Column-major and row-major B of 400 random shapes, by what the closed form says B's layout
    gains, from least to most."""
    name, operands, result, tile, k_mt, _, _ = row
    choose, array = random.Random(4), load_device(name)
    m, _, n = tile
    units = (4 * m, k_mt, array.columns * n)
    pairs = []
    for _ in range(400):
        M, K, N = (unit * choose.randint(1, 8192 // unit) for unit in units)
        column, plain = (
            gemm_of(M, K, N, tile, "wide_k", array, dtype=operands, out=result, b_layout=layout, k_mt=k_mt)
            for layout in ("col", "row")
        )  # fmt: skip
        gain = _dispatched(column, array, rate) / _dispatched(plain, array, rate)
        pairs.append((gain, column, plain))
    return [(column, plain) for _, column, plain in sorted(pairs, key=lambda pair: pair[0])]


def strata(pairs: list[tuple[Gemm, Gemm]], many: int) -> list[tuple[Gemm, Gemm]]:
    """The middle of each of so many equal parts: few shapes whose mean gain is the sweep's."""
    return [pairs[(2 * i + 1) * len(pairs) // (2 * many)] for i in range(many)]


def _dispatched(gemm: Gemm, array: ArrayDevice, rate: float | None, events: bool = False) -> float:
    """Operations per second with 0.2 ms of dispatch, by the closed form or by events."""
    if events:
        seconds = simulate_time(design_of(gemm, array), array, rate).seconds
    else:
        seconds = estimate(gemm, array, rate).seconds
    return gemm.operations / (seconds + 0.2e-3)


def column_gain(
    pairs: list[tuple[Gemm, Gemm]], array: ArrayDevice, rate: float | None, events: bool = False
) -> str:
    """Percent that column-major B gains in mean TOPS."""
    column, plain = (
        sum(_dispatched(gemm, array, rate, events) for gemm in side)
        for side in zip(*pairs, strict=True)
    )
    return percent(column, plain)


def column_rows(simulated: int) -> list[str]:
    lines = [
        f"Mean TOPS with 0.2 ms dispatch: the closed form over 400 random shapes of whole native sizes,"
        f" and over the {simulated} of them that are the middles of equal parts of the sweep in the order"
        " of that gain; events over the same.",
        "",
        "| device | type | tile | kernel rates | published | closed form, all | closed form, sample | events |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in COLUMNS:
        name, operands, result, tile, _, given, published = row
        array = load_device(name)
        of_k = given or published_rate(name, operands, result, tile[1])
        for rates, rate in (("scheduled", None), ("published", of_k)):
            pairs = sweep(row, rate)
            few = strata(pairs, simulated)
            lines.append(
                f"| {name} | {operands} to {result} | {'x'.join(map(str, tile))} | {rates} |"
                f" {published} | {column_gain(pairs, array, rate)} |"
                f" {column_gain(few, array, rate)} | {column_gain(few, array, rate, True)} |"
            )
            print(lines[-1], flush=True)  # events take long
    return lines


def ablations() -> list[str]:
    base_shape, base_tile = (4096, 4320, 4480), (128, 72, 112)
    base = tops(base_shape, base_tile, "wide_k", 307.2, out="i16")
    narrow = tops(base_shape, base_tile, "wide_k", 307.2, out="i16", k_mt=72)
    double = tops((4032, 4320, 4608), (112, 48, 96), "wide_k", out="i16", c_depth=2, k_mt=432)
    waits = tops(base_shape, base_tile, "wide_k", 307.2, out="i16", synchronisation="sequential")
    alone = tops((4096, 4320, 4608), (64, 216, 64), "wide_k", 419.8, out="i16", k_mt=432)
    halo = tops((2048, 2048, 2048), (64, 64, 64), "stock", device="npu2_strix_halo")
    late = 1 / (1 / halo + 0.2e-3 / (2 * 2048**3 / 1e12))
    rows = [
        ("long DRAM runs (k_mt 432 instead of 72)", "3.6 x", f"{base / narrow:.2f} x"),
        ("single C and a larger tile instead of double C", "+18 %", percent(base, double)),
        ("one task set at a time instead of a rolling window", "-28 %", percent(waits, base)),
        ("the tile that is best for one core, on the array", "17.86 TOPS", f"{alone:.2f} TOPS"),
        ("stock 64x64x64, 2048 cubed, slope 0.5 GB/s per byte", "9.0 to 9.2 TOPS", f"{halo:.2f} TOPS"),
        ("the same with 0.2 ms dispatch", "8.1 to 8.3 TOPS", f"{late:.2f} TOPS"),
    ]  # fmt: skip
    lines = ["| choice | published | simulated |", "|---|---|---|"]
    return [*lines, *(f"| {what} | {published} | {ours} |" for what, published, ours in rows)]


def npu1_rows() -> list[str]:
    """Nothing about npu1 but its single-core rates and these ratios went into the model."""
    lines = ["| choice | published | simulated |", "|---|---|---|"]

    def rate(operands: str, result: str, tile: Tile) -> float:
        return published_rate("npu1", operands, result, tile[1])

    def run(shape: Tile, tile: Tile, operands: str, result: str, **more: Any) -> float:
        given = rate(operands, result, tile)
        return tops(shape, tile, "wide_k", given, "npu1", dtype=operands, out=result, **more)

    wide = run((4224, 4032, 4032), (88, 112, 112), "i8", "i16", k_mt=448)
    double = run((4224, 4000, 4224), (88, 80, 96), "i8", "i16", k_mt=400, c_depth=2)
    lines.append(f"| best of the size sweep, i8 to i8 | 6.76 TOPS | {run((5824, 6048, 4480), (112, 112, 112), 'i8', 'i8', k_mt=336):.2f} TOPS |")  # fmt: skip
    float_tile, float_shape = (96, 56, 96), (4224, 4032, 4224)
    lines.append(f"| best of the size sweep, bf16 | 3.14 TOPS | {run((4992, 8064, 3840), float_tile, 'bf16', 'bf16', k_mt=224):.2f} TOPS |")  # fmt: skip
    floats = run(float_shape, float_tile, "bf16", "bf16", k_mt=224)
    narrow = run(float_shape, float_tile, "bf16", "bf16", k_mt=56)
    lines.append(f"| long DRAM runs, bf16 | 2.4 x | {floats / narrow:.2f} x |")
    lines.append(f"| single C and a larger tile instead of double C | +13 % | {percent(wide, double)} |")  # fmt: skip
    waits = run((4224, 4032, 4032), (88, 112, 112), "i8", "i16", k_mt=448, synchronisation="sequential")  # fmt: skip
    lines.append(f"| one task set at a time instead of a rolling window | -27 % | {percent(waits, wide)} |")  # fmt: skip
    return lines


def searches(bandwidth: float, shapes: tuple[Tile, ...]) -> list[str]:
    device = load_device("npu2").with_bandwidth(bandwidth * 1e9)
    lines = [
        f"Bandwidth {bandwidth:g} GB/s, scheduled kernel rates, column-major B.",
        "",
        "| result | shape | stock | wide_k | auto | design | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in ("i8", "i16", "i32"):
        for shape in shapes:
            best = {}
            for policy in ("wide_k", "auto"):
                found = search(
                    *shape,
                    device,
                    out=result,
                    b_layout="col",
                    policy=policy,
                    candidates=CANDIDATES[policy],
                )
                gemm = gemm_behind(found.design)
                assert found.time is not None
                best[policy] = (gemm.operations / found.time.seconds / 1e12, gemm)
            # The best stock design is among those that auto has simulated.
            stock = [row for row in found.ranked if row[0].policy == "stock" and row[2]]
            assert stock[0][2] is not None
            best["stock"] = (stock[0][0].operations / stock[0][2] / 1e12, stock[0][0])
            for _, out, tile, _, _, _ in ROWS:  # the published tiles are candidates too
                if out == result:
                    design = plan_gemm(*shape, tile=tile, policy="wide_k", device=device, out=out)
                    gemm = gemm_behind(design)
                    rate = gemm.operations / simulate_time(design).seconds / 1e12
                    best["wide_k"] = max(best["wide_k"], (rate, gemm), key=lambda b: b[0])
            rate, gemm = best["auto"]
            other = max(best["stock"][0], best["wide_k"][0])
            lines.append(
                f"| {result} | {'x'.join(map(str, shape))} | {best['stock'][0]:.2f} |"
                f" {best['wide_k'][0]:.2f} | {rate:.2f} | {gemm.policy} {gemm.m}x{gemm.k}x{gemm.n}"
                f"{', staggered' if gemm.stagger else ''} |"
                f" {percent(rate, other)} |"
            )
            print(lines[-1], flush=True)  # a search takes long
    return lines


def bitnet() -> list[str]:
    device = load_device("npu2")
    lines = [
        "M = 1024, 58 GB/s, i32 sums, TOPS of the best design of each shape.",
        "",
        "| layer | K x N | int8 | design | ternary | design |",
        "|---|---|---|---|---|---|",
    ]
    for name, inner, columns, _ in LAYERS_2B:
        cells = []
        for dtype in ("i8", "ternary"):
            found = search(1024, inner, columns, device, dtype=dtype, out="i32", candidates=4)
            gemm = gemm_behind(found.design)
            assert found.time is not None
            rate = gemm.operations / found.time.seconds / 1e12
            cells.append(f"{rate:.1f} | {gemm.policy} {gemm.m}x{gemm.k}x{gemm.n}")
        lines.append(f"| {name} | {inner}x{columns} | {' | '.join(cells)} |")
    return lines


def _shape(text: str) -> Tile:
    rows, inner, columns = (int(side) for side in text.split("x"))
    return rows, inner, columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--search", action="store_true", help="also search designs")
    parser.add_argument("--shape", action="append", help="MxKxN searched instead; may be repeated")
    parser.add_argument("--shapes", type=int, default=len(SEARCHED), help="shapes searched")
    parser.add_argument("--simulated", type=int, default=12, help="shapes of a sweep run in time")
    parser.add_argument("--section", help="only sections with this in their title; not written")
    parser.add_argument("--append", action="store_true", help="only the search, added to the file")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    lines = [
        "# XDNA: model against published figures",
        "",
        f"`python benchmarks/xdna_calibration.py{' --search' if arguments.search else ''} --write`,"
        f" {platform.machine()}, {datetime.date.today()}. Nothing here was run on hardware.",
    ]
    sections: list[tuple[str, Callable[[], list[str]]]] = [
        ("Kernel rates from the slot scheduler", kernel_rows),
        ("Whole GEMMs on npu2, event simulation, 58 GB/s, wide_k", array_rows),
        ("Ablations", ablations),
        ("npu1", npu1_rows),
        ("Column-major B", lambda: column_rows(arguments.simulated)),
    ]
    if arguments.search:
        sections.append(("BitNet 2B-4T layers", bitnet))
        shapes = SEARCHED[-arguments.shapes :]
        if arguments.shape:
            shapes = tuple(_shape(text) for text in arguments.shape)
        sections.append(("Search against the published policies", lambda: searches(58, shapes)))
    if arguments.append:
        sections = sections[-1:]
        lines = RESULTS.read_text(encoding="utf-8").rstrip().splitlines()
    if arguments.section:
        if arguments.write:
            parser.error("--section shows some sections; --write writes all of them")
        sections = [section for section in sections if arguments.section in section[0]]
    for title, rows_of in sections:
        print(title, flush=True)
        rows = rows_of()
        print(*rows, sep="\n", flush=True)
        lines += ["", f"## {title}", "", *rows]
        if arguments.write:  # what there is so far: the searches take long
            RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
