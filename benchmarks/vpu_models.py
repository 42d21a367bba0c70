"""Models on the VPU: a Llama-style decoder, paths of attention, vertical fusion.

    benchmarks/vpu_models.py llama [--layers N] [--verify] [--values]
    benchmarks/vpu_models.py attention [--lengths N ...] [--heads H --groups G --width E]
    benchmarks/vpu_models.py fusion

`llama`: tasks, seconds, memory and overlap efficiency of one task list; `--values` runs it and
compares every bit of the output with the reference. `attention`: modelled and scheduled cycles of
the three paths over lengths, and what the chooser takes. `fusion`: DDR bytes and makespan with
and without vertical fusion.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/vpu"))

from vpu_decoder import Llama, llama, residual_block

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.attention_paths import PATHS, choose_path, heads_of
from tilewright.targets.vpu.lowering.groups import groups
from tilewright.targets.vpu.lowering.lower import Lowered, LoweringOptions, lower
from tilewright.targets.vpu.lowering.network import Network
from tilewright.targets.vpu.machine import Machine, preset
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.reference.executor import run_network
from tilewright.targets.vpu.scheduling.schedule import Schedule, portfolio
from tilewright.targets.vpu.simulator import simulate
from tilewright.targets.vpu.task_list import DDR
from tilewright.targets.vpu.values import run_values


def seconds(start: float) -> str:
    return f"{time.perf_counter() - start:.1f} s"


def ddr_bytes(made: Schedule) -> int:
    """Bytes that transfers move from and to DDR; a multicast reads once."""
    total = 0
    for item in made.tasks.tasks.values():
        reads = {r for r in item.reads if r.space == DDR}
        total += sum(r.bytes * r.count for r in (*reads, *item.writes) if r.space == DDR)
    return total


def run_llama(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    network = llama(Llama(layers=arguments.layers, sequence=arguments.sequence))
    print(f"network   {arguments.layers} layers, {seconds(start)}", flush=True)
    start, begun = time.perf_counter(), time.process_time()
    options = LoweringOptions(groups=arguments.groups or None)
    lowered = lower(network, preset(arguments.target), options)
    graph = lowered.chip.graph()
    counts = sorted({region.count for region in lowered.regions})
    print(
        f"lowered   {len(graph.tasks)} tasks, {seconds(start)}, groups of rows {counts}", flush=True
    )
    made = portfolio(graph, budget=0)
    whole, work = time.perf_counter() - start, time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"scheduled {len(made.tasks.tasks)} tasks, {len(made.tasks.barriers)} barriers, "
        f"{whole:.1f} s with lowering ({work:.1f} s of processor time), {peak:.2f} GiB"
    )
    print(
        f"makespan  {made.makespan} cycles, strong bound {made.bounds.strong}: "
        f"{made.bounds.strong / made.makespan:.4f}"
    )
    if arguments.verify:
        start = time.perf_counter()
        found = verify(made.tasks, graph, strict=True)
        print(f"verified  {len(found)} findings, {seconds(start)}")
    if arguments.values:
        compare_values(network, lowered, made)


def compare_values(network: Network, lowered: Lowered, made: Schedule) -> None:
    """Run a list and its reference on random inputs."""
    rng = np.random.default_rng(7)
    inputs = {}
    for name in network.inputs:
        value = network.values[name]
        inputs[name] = rng.standard_normal(value.shape).astype(np.float16)
    ddr = np.zeros(max(place + size for place, size in made.tasks.ddr.values()), np.uint8)
    held = {name: constant.build() for name, constant in lowered.chip.constants.items()}
    for name, array in (held | inputs).items():
        place, size = made.tasks.ddr[name]
        ddr[place : place + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    begun = time.process_time()
    wanted = run_network(lowered.network, inputs)
    plain = time.process_time() - begun
    print(f"reference {plain:.1f} s of processor time", flush=True)
    begun = time.process_time()
    outcome = run_values(made.tasks, None, lowered.chip.operations(), kernels(), ddr)
    spent = time.process_time() - begun
    print(f"values    {spent:.1f} s of processor time, {spent / plain:.2f} of the reference's")
    for name in network.outputs:
        place, size = made.tasks.ddr[lowered.chip.homes[name].tensor]
        same = outcome.ddr[place : place + size].tobytes() == wanted[name].tobytes()
        print(f"values    {name}: {'equal' if same else 'DIFFERENT'}")


@dataclass(frozen=True)
class AttentionCase:
    """Shapes of one attention call."""

    queries: int
    keys: int
    heads: int
    groups: int
    width: int

    def network(self) -> Network:
        network = Network()
        q = network.input("q", (self.queries, self.heads * self.width), "f16")
        k = network.input("k", (self.keys, self.groups * self.width), "f16")
        v = network.input("v", (self.groups * self.width, self.keys), "f16")
        y = network.value("y", (self.queries, self.heads * self.width), "f16")
        network.outputs = [
            network.call("attention", y, {"q": q, "k": k, "v": v}, heads=self.heads,
                         groups=self.groups, causal=self.queries > 1)
        ]  # fmt: skip
        return network


def run_attention(arguments: argparse.Namespace) -> None:
    machine = preset(arguments.target)
    lengths = [n for n in arguments.lengths if n <= arguments.longest]
    worst = 0.0
    print("| queries | keys | " + " | ".join(PATHS) + " | chosen | over the best |")
    print("|---|---|" + "---|" * (len(PATHS) + 2))
    for length in lengths:
        for queries in dict.fromkeys((1, min(length, arguments.queries))):
            case = AttentionCase(
                queries, length, arguments.heads, arguments.groups, arguments.width
            )
            cells, best, chosen = path_cells(machine, case)
            over = chosen[1] / best - 1
            worst = max(worst, over)
            row = " | ".join(cells)
            print(
                f"| {queries} | {length} | {row} | {chosen[0]} | {100 * over:.1f} % |", flush=True
            )
    print(f"\nlargest distance of the chooser from the best: {100 * worst:.1f} %")


def path_cells(machine: Machine, case: AttentionCase) -> tuple[list[str], int, tuple[str, int]]:
    """Per path "modelled / simulated", the best simulated, and what the chooser takes."""
    cells, found = [], {}
    network = case.network()
    shape = heads_of(network.values, network.calls[0])
    for path in PATHS:
        try:
            lowered = lower(network, machine, LoweringOptions(attention=path))
            made = portfolio(lowered.chip.graph(), budget=0)
            model = 0
            for group in groups(machine, case.queries, lowered.regions[0].count):
                rows = max(len(block) for block, _ in group.blocks)
                model += choose_path(machine, shape, rows, path).cycles
            found[path] = simulate(made.tasks).makespan
            cells.append(f"{model} / {found[path]}")
        except TilewrightError as error:
            cells.append(error.code)
    lowered = lower(network, machine)
    taken = str(lowered.network.calls[0].attributes["path"])
    return cells, min(found.values()), (taken, found[taken])


def run_fusion(arguments: argparse.Namespace) -> None:
    machine = preset(arguments.target)
    cases = {
        "transformer block": llama(
            Llama(layers=1, sequence=256, hidden=1024, heads=16, groups=4, intermediate=2816)
        ),
        "image block": residual_block(56, 64, 2),
    }
    print("| block | fusion | DDR bytes | makespan | tasks |")
    print("|---|---|---|---|---|")
    for name, network in cases.items():
        before = None
        for fused in (False, True):
            lowered = lower(network, machine, LoweringOptions(fused=fused))
            made = portfolio(lowered.chip.graph(), budget=0)
            moved = ddr_bytes(made)
            ratio = (
                ""
                if before is None
                else (
                    f" ({moved / before[0]:.2f} of the bytes, {made.makespan / before[1]:.2f} of the time)"
                )
            )
            print(f"| {name} | {'on' if fused else 'off'} | {moved} | {made.makespan}{ratio} "
                  f"| {len(made.tasks.tasks)} |", flush=True)  # fmt: skip
            before = (moved, made.makespan)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="vpu40", help="a preset")
    commands = parser.add_subparsers(dest="command", required=True)
    model = commands.add_parser("llama", help="one task list of a decoder")
    model.add_argument("--layers", type=int, default=2)
    model.add_argument("--sequence", type=int, default=512)
    model.add_argument("--groups", type=int, default=0, help="groups of rows; 0: by modelled time")
    model.add_argument("--verify", action="store_true", help="check the whole list")
    model.add_argument("--values", action="store_true", help="run it and compare every bit")
    paths = commands.add_parser("attention", help="the three paths over lengths")
    paths.add_argument("--longest", type=int, default=8192)
    paths.add_argument("--queries", type=int, default=512)
    paths.add_argument("--heads", type=int, default=8)
    paths.add_argument("--groups", type=int, default=2, help="heads of keys and values")
    paths.add_argument("--width", type=int, default=64, help="of a head")
    paths.add_argument(
        "--lengths", type=int, nargs="+",
        default=[1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    )  # fmt: skip
    commands.add_parser("fusion", help="vertical fusion on and off")
    arguments = parser.parse_args()
    {"llama": run_llama, "attention": run_attention, "fusion": run_fusion}[arguments.command](
        arguments
    )


if __name__ == "__main__":
    main()
