"""How fast the native Atlas machine simulates, next to the Python machine.

    python benchmarks/sim_speed.py [--write]

Each row is a loop on atlas-v1 that does one kind of work. Rates are per second of processor time
of the one thread that simulates (best of several runs); the bound is what the project promises.
`--write` keeps the table in benchmarks/results/sim_speed.md.
"""

from __future__ import annotations

import datetime
import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.native import KERNELS, NativeMachine
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Data, Program

RESULTS = Path(__file__).parent / "results" / "sim_speed.md"

# One K step of a matrix product: both operands loaded, weights pushed, product accumulated.
MATMUL = """
    li x1, {count}
    li x2, 1024
loop:
    vload m0, 0(x0)
    delay 32
    vload m2, 0(x2)
    delay 32
    vmatpush.weight.mxu1 w0, m2
    delay 30
    addi x1, x1, -1
    bne x1, x0, loop
    vmatmul.acc.mxu1 acc0, m0, w0
    delay 33
"""

# A row of softmax and its scaling: maximum, difference, exponential, sum, reciprocal, product.
VECTOR = """
    li x1, {count}
    seli e0, 1
loop:
    vmul.bf16 m4, m0, m2
    delay 64
    vredmax.row.bf16 m6, m4
    delay 32
    vsub.bf16 m8, m4, m6
    delay 64
    vexp.bf16 m10, m8
    delay 64
    vredsum.row.bf16 m12, m10
    delay 37
    vrecip.bf16 m14, m12
    delay 64
    vmul.bf16 m16, m10, m14
    delay 64
    addi x1, x1, -1
    bne x1, x0, loop
    vpack.bf16.fp8 m18, m16, e0
    delay 64
"""

SCALAR = """
    li x1, {count}
    li x5, 3
loop:
    add x2, x2, x5
    xor x3, x3, x2
    slli x4, x2, 3
    sub x6, x4, x3
    addi x1, x1, -1
    bne x1, x0, loop
    and x7, x6, x2
    addi x8, x8, 1
"""

DMA = """
    li x1, {count}
    li x2, 1024
    li x3, 4096
loop:
    dma.load.ch0 x0, x0, x2
    dma.load.ch1 x2, x2, x2
    dma.wait.ch0
    dma.store.ch2 x3, x0, x2
    dma.wait.ch1
    addi x1, x1, -1
    bne x1, x0, loop
    dma.wait.ch2
    nop
"""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    source: str
    unit: str
    per_loop: int  # units of work in one iteration; 0 counts cycles
    native_loops: int
    python_loops: int
    bound: float


ROWS = (
    Row("matmul with its loads and push", MATMUL, "matmuls/s", 1, 100_000, 40, 300_000),
    Row("attention-like vector loop", VECTOR, "vector instructions/s", 8, 30_000, 20, 400_000),
    Row("scalar loop", SCALAR, "instructions/s", 8, 2_000_000, 2_000, 20_000_000),
    Row("DMA-bound loop", DMA, "cycles/s", 0, 100_000, 50, 10_000_000),
)


def program_for(row: Row, loops: int) -> Program:
    program = assemble(row.source.format(count=loops), load_profile("atlas-v1"))
    values = np.random.default_rng(1).normal(0, 1, 4096).astype(np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    program.data = [Data("dram", 0, halves), Data("vmem", 0, halves)]
    return program


def rate(row: Row, machine: PythonMachine | NativeMachine, loops: int, repeats: int) -> float:
    """Units of work per second of processor time, best of `repeats`."""
    program = program_for(row, loops)
    best = float("inf")
    for _ in range(repeats):
        machine.load(program)
        for register in range(4):  # ordinary numbers for the vector loop
            machine.write_register(f"m{register}", program.data[0].bytes[:1024])
        started = time.thread_time()
        outcome = machine.run()
        best = min(best, time.thread_time() - started)
        assert outcome.reason == "end", outcome
    return (row.per_loop * loops or machine.cycles) / best


def start_up() -> tuple[float, float]:
    """Milliseconds to build, load and run with 16 GiB of DRAM, and MiB it adds to the process."""
    profile = replace(load_profile("atlas-v1"), dram_bytes=16 << 30)
    program = assemble("addi x1, x0, 1", profile)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.thread_time()
    machine = NativeMachine(profile)
    machine.load(program)
    machine.write("dram", (16 << 30) - 64, b"end")
    machine.run()
    seconds = time.thread_time() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1000 * seconds, (after - before) / 1024


def table(repeats: int, with_python: bool, kernels: list[str], progress: Callable[[str], None]):
    """Lines of the table, in Markdown."""
    profile = load_profile("atlas-v1")
    milliseconds, mebibytes = start_up()
    names = ["python", *kernels]
    yield "| loop | unit | " + " | ".join(names) + " | best / python | bound | best / bound |"
    yield "|---|---|" + "---:|" * (len(names) + 3)
    for row in ROWS:
        progress(row.name)
        slow = rate(row, PythonMachine(profile), row.python_loops, 1) if with_python else None
        fast = [
            rate(row, NativeMachine(profile, kernels=name), row.native_loops, repeats)
            for name in kernels
        ]
        cells = [row.name, row.unit, f"{slow:,.0f}" if slow else "-"]
        cells += [f"{value:,.0f}" for value in fast]
        cells += [f"{max(fast) / slow:,.0f}x" if slow else "-", f"{row.bound:,.0f}"]
        yield "| " + " | ".join([*cells, f"{max(fast) / row.bound:.1f}x"]) + " |"
    yield ""
    yield (
        f"Start-up with 16 GiB of DRAM (build, load, write one byte at its end, run): "
        f"{milliseconds:.1f} ms, {mebibytes:.1f} MiB more resident; bound 50 ms."
    )


@click.command()
@click.option("--repeats", default=3, help="Runs of each loop on the native machine.")
@click.option("--no-python", is_flag=True, help="Leave the Python machine out.")
@click.option("--write", is_flag=True, help=f"Keep the table in {RESULTS.name}.")
def main(repeats: int, no_python: bool, write: bool) -> None:
    """Print the table."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.name == "posix" else ():
        if line.startswith("model name"):
            processor = line.split(":")[1].strip()
            break
    today = datetime.date.today().isoformat()
    lines = [
        "# Simulation speed",
        "",
        f"{processor}, one thread, {today}; Python {platform.python_version()}. "
        "Processor time of the simulating thread, best of several runs. "
        "Columns avx512, avx2 and portable are the native machine's three paths.",
        "",
    ]
    for line in table(repeats, not no_python, list(KERNELS), lambda name: None):
        lines.append(line)
        print(line, flush=True)
    if write:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
