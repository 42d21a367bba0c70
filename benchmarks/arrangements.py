"""What a large encoder block could take at best, for ways to arrange its work in VMEM.

python benchmarks/arrangements.py                        the SigLIP block: 1024 x 768, 12 heads, 3072
python benchmarks/arrangements.py --rows 256 --width 1024 --heads 16 --hidden 4096

The bound of a model lets all its steps overlap. Here the steps come in phases: what one phase needs is
complete before it starts, and its operands have to fit VMEM. Inside a phase everything overlaps:
it takes as long as its busiest unit, never idle, with no start and no end. So these figures are
what the arrangement allows, not what a program reaches; the first one is how the compiler works.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.targets.atlas.model.bounds import terms_of
from tilewright.targets.atlas.model.kernel_records import work_of
from tilewright.targets.atlas.model.work import Work
from tilewright.targets.atlas.profile import Profile, load_profile

KIB = 1024
SIDE = 32


@dataclass(frozen=True)
class Phase:
    """Work that overlaps, and the bytes it moves."""

    name: str
    work: Work
    bytes: int


@dataclass(frozen=True)
class Block:
    """Sizes of an encoder block on a machine."""

    profile: Profile
    rows: int
    width: int
    heads: int
    hidden: int

    def linear(self, deep: int, wide: int, out: str = "fp8", **options: Any) -> Work:
        shapes = {
            "a": (1, self.rows, deep),
            "w": (deep, wide),
            "out": (1, self.rows, wide),
        }
        options = {"scale": True, "bias": True, "out": out, **options}
        return work_of(self.profile, "linear", options, shapes)

    @property
    def norm(self) -> Work:
        options = {"kind": "layer", "epsilon": 1e-6, "out": "fp8", "factor": 0.5}
        return work_of(self.profile, "norm", options, {"x": (1, self.rows, self.width)})

    @property
    def attention(self) -> Work:
        head = self.width // self.heads
        shapes = {
            "q": (1, self.heads, self.rows, head),
            "kt": (1, self.heads, head, self.rows),
            "v": (1, self.heads, self.rows, head),
        }
        return work_of(self.profile, "attention", {}, shapes)

    # Bytes of tensors: fp8 in front of products, bf16 along the block.
    @property
    def narrow(self) -> int:
        return self.rows * self.width

    @property
    def wide(self) -> int:
        return 2 * self.narrow

    @property
    def square(self) -> int:
        return self.width * self.width

    @property
    def weights(self) -> int:
        return self.width * self.hidden

    @property
    def projections(self) -> Work:
        return self.linear(self.width, self.width).times(3)

    @property
    def out(self) -> Work:
        return self.linear(self.width, self.width, "bf16", residual=True)

    @property
    def mlp(self) -> tuple[Work, Work]:
        return (
            self.linear(self.width, self.hidden, activation="gelu_tanh"),
            self.linear(self.hidden, self.width, "bf16", residual=True),
        )

    def passes(self, bytes_per_row: int, spare: int) -> int:
        """Parts of the rows, so that each fits VMEM."""
        most = max(1, (self.profile.vmem_bytes - spare) // bytes_per_row // SIDE)
        return math.ceil(math.ceil(self.rows / SIDE) / most)


def step_by_step(block: Block) -> list[Phase]:
    """One step after the other; heads and the hidden layer go through DRAM."""
    up, down = block.mlp
    hidden = block.rows * block.hidden
    parts = block.passes(2 * block.width, 240 * KIB)
    return [
        Phase("norm", block.norm, block.wide),
        Phase("projections", block.projections, 3 * block.square + 3 * block.narrow),
        Phase("attention", block.attention, 4 * block.narrow),
        Phase("heads to VMEM", Work(), block.narrow),
        Phase("out", block.out, block.square + 2 * block.wide),
        Phase("norm", block.norm, block.wide),
        Phase("up", up, block.weights + hidden),
        Phase("down", down, parts * block.weights + hidden + 2 * block.wide),
    ]


def rows_in_parts(block: Block) -> list[Phase]:
    """From the heads on all of the block for some rows at a time, whose sums and operands stay on
    chip; weights pass by once per part, a few columns of the hidden layer at a time."""
    up, down = block.mlp
    parts = block.passes(3 * block.width, 120 * KIB)
    moved = parts * (block.square + 2 * block.weights) + block.narrow + 2 * block.wide
    return [
        Phase("norm", block.norm, block.wide),
        Phase("projections", block.projections, 3 * block.square + 3 * block.narrow),
        Phase("attention", block.attention, 4 * block.narrow),
        Phase("out, norm, up, down", block.out + block.norm + up + down, moved),
    ]


def heads_meanwhile(block: Block) -> list[Phase]:
    """The same, with the projections of one head beside attention of another."""
    norm, projections, attention, rest = rows_in_parts(block)
    both = Phase(
        "projections and attention",
        projections.work + attention.work,
        3 * block.square + block.narrow,
    )
    return [norm, both, rest]


def ticks(block: Block, phase: Phase) -> tuple[int, str]:
    terms = terms_of(block.profile, phase.work, phase.bytes)
    cause = max(terms, key=lambda name: terms[name])
    return terms[cause], cause


def table(block: Block, bound: int, phases: Sequence[Phase], title: str) -> list[str]:
    lines = [f"### {title}", "", "| phase | bytes | ticks | limit |", "|---|---:|---:|---|"]
    total = 0
    for phase in phases:
        count, cause = ticks(block, phase)
        total += count
        lines.append(f"| {phase.name} | {phase.bytes:,} | {count:,} | {cause} |")
    moved = sum(phase.bytes for phase in phases)
    lines.append(f"| all | {moved:,} | {total:,} | {total / bound:.2f} x the bound |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, size in (("rows", 1024), ("width", 768), ("heads", 12), ("hidden", 3072)):
        parser.add_argument(f"--{name}", type=int, default=size)
    options = vars(parser.parse_args())
    block = Block(load_profile("atlas-v1"), **options)
    everything = step_by_step(block)
    work = Work()
    for phase in everything:
        work += phase.work
    once = 4 * block.square + 2 * block.weights + 2 * block.wide
    bound, cause = ticks(block, Phase("all", work, once))
    print(f"The bound, everything overlapped: {bound:,} ticks ({cause})\n")
    for title, phases in (
        ("Step by step", everything),
        ("Rows in parts", rows_in_parts(block)),
        ("Rows in parts, projections beside attention", heads_meanwhile(block)),
    ):
        print("\n".join(table(block, bound, phases, title)))


if __name__ == "__main__":
    main()
