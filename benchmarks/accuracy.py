"""What the choices of quantisation give: distance to float32 and cycles, for small networks.

    python benchmarks/accuracy.py                       all networks, on Atlas and in int8 on a VPU
    python benchmarks/accuracy.py --only transformer
    python benchmarks/accuracy.py --write               also benchmarks/results/accuracy.md, in which
                                                        networks that were not measured stay

Every program is calibrated on four samples and compared with float32 on two others, of which the
worse counts. Weights are drawn; in networks with large channels a few channels of the inputs are
hundreds of times the others, and weights that read them smaller by as much, as in trained ones.
`exact`: every step gives what its reference gives, bit for bit. The goal of --accuracy is the middle
between the program as it is and the one with all layers kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import tilewright as tw  # noqa: E402
from tilewright.frontend.builder import ModelBuilder  # noqa: E402
from tilewright.frontend.imported import Imported  # noqa: E402
from tilewright.reference.executor import Executor  # noqa: E402

HEADS = ("network", "machine", "choice", "cosine", "relative error", "cycles", "x max", "exact")
LARGE = [3, 17, 40, 90]  # channels
F = np.float32


@dataclass(frozen=True)
class Network:
    """A network, how its inputs are drawn, and the layers that can be kept more precise."""

    make: Callable[[], Imported]
    sample: Callable[[np.random.Generator], np.ndarray]
    keep: tuple[str, ...]


def _normal(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.standard_normal(shape).astype(F)


def _with_large(times: float, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    def draw(random: np.random.Generator) -> np.ndarray:
        x = random.standard_normal(shape).astype(F)
        x[..., LARGE] *= F(times)
        return x

    return draw


def _quiet(model: Imported, readers: Sequence[str], factor: float) -> Imported:
    """Weights that read large channels, as small as these are large."""
    for name, array in model.weights.items():
        if name.removesuffix(".weight").rpartition(".")[2] in readers and array.ndim == 2:
            array[:, LARGE] *= F(factor)
    return model


def transformer() -> Imported:
    net = ModelBuilder("transformer", seed=1)
    x = net.input("x", (1, 64, 128))
    for number in range(2):
        with net.layer(f"layers.{number}"):
            h = net.rms_norm(x, "norm1")
            q, k, v = (net.heads(net.linear(h, 128, name, bias=False), 4) for name in "qkv")
            x = x + net.linear(net.attention(q, k, v), 128, "out", bias=False)
            h = net.rms_norm(x, "norm2")
            gate, up = (net.linear(h, 256, name, bias=False) for name in ("gate", "up"))
            x = x + net.linear(net.silu_gate(gate, up), 128, "down", bias=False)
    net.output("y", net.linear(net.rms_norm(x, "last"), 96, "head", bias=False))
    return _quiet(net.build(), ("q", "k", "v", "gate", "up", "head"), 1 / 1500)


def mlp() -> Imported:
    net = ModelBuilder("mlp", seed=2)
    x = net.input("x", (60, 96))
    h = net.relu(net.linear(net.rms_norm(x, "norm"), 200, "fc1", bias=False))
    net.output("y", net.linear(h, 64, "fc2", bias=False))
    return _quiet(net.build(), ("fc1",), 1 / 4000)


def vit() -> Imported:
    net = ModelBuilder("vit", seed=3)
    x = net.input("x", (1, 64, 96))
    for number in range(2):
        with net.layer(f"blocks.{number}"):
            h = net.layer_norm(x, "norm1")
            q, k, v = (net.heads(net.linear(h, 96, name), 3) for name in "qkv")
            x = x + net.linear(net.attention(q, k, v), 96, "proj")
            x = x + net.linear(
                net.gelu(net.linear(net.layer_norm(x, "norm2"), 192, "fc1")), 96, "fc2"
            )
    net.output("y", net.linear(net.layer_norm(x, "norm"), 40, "head"))
    return net.build()


def cnn() -> Imported:
    net = ModelBuilder("cnn", seed=4)
    x = net.input("x", (1, 3, 24, 24))
    h = net.relu(net.batch_norm(net.conv2d(x, 32, 3, "stem", padding=1), "stem_norm"))
    h = net.relu(net.conv2d(h, 64, 3, "conv1", stride=2, padding=1))
    h = net.relu(net.conv2d(h, 64, 3, "conv2", padding=1))
    h = net.average_pool(h, 12)
    net.output("y", net.linear(net.reshape(h, (1, 64)), 40, "head"))
    return net.build()


_BLOCK = tuple(f"layers.{n}.{name}" for n in range(2) for name in ("out", "gate", "up", "down"))
_VIT = tuple(f"blocks.{n}.{name}" for n in range(2) for name in ("proj", "fc1", "fc2"))
NETWORKS = {
    "transformer, large channels": Network(
        transformer, _with_large(1500, 1, 64, 128), (*_BLOCK, "head")
    ),
    "MLP, large channels": Network(mlp, _with_large(4000, 60, 96), ("fc1", "fc2")),
    "ViT": Network(vit, _normal(1, 64, 96), (*_VIT, "head")),
    "CNN": Network(cnn, _normal(1, 3, 24, 24), ("head",)),
}
CHOICES: dict[str, dict[str, Any]] = {
    "ranges max": {},
    "ranges percentile:99.99": {"ranges": "percentile"},
    "ranges percentile:99": {"ranges": "percentile:99"},
    "ranges mse": {"ranges": "mse"},
    "smooth 0.5": {"smooth": 0.5},
    "smooth 0.5, ranges mse": {"smooth": 0.5, "ranges": "mse"},
}


@dataclass(frozen=True)
class Row:
    cosine: float
    relative: float
    cycles: int
    exact: bool


def measured(program: Any, model: Imported, samples: Sequence[np.ndarray]) -> Row:
    """A program against float32 on inputs it was not calibrated with."""
    cosine, relative, exact = 1.0, 0.0, True
    for x in samples:
        (wanted,) = Executor(model.module, model.weights).run([x])
        verified = program.verify({"x": x})
        exact = exact and all(output.difference is None for output in verified.outputs)
        a, b = (np.asarray(array, np.float64).reshape(-1) for array in (program(x), wanted))
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        cosine = min(cosine, float(a @ b) / lengths if lengths > 0 else 0.0)
        relative = max(relative, float(np.linalg.norm(a - b) / np.linalg.norm(b)))
    return Row(cosine, relative, program.cycles, exact)


def rows_of(network: Network, target: str) -> dict[str, Row]:
    """All choices for a network."""
    model, random = network.make(), np.random.default_rng(7)
    samples = [network.sample(random) for _ in range(6)]
    given = [{"x": x} for x in samples[:4]]
    found: dict[str, Row] = {}

    def note(choice: str, options: Mapping[str, Any]) -> Row:
        program = tw.compile(model, target=target, calibrate=given, **options)
        found[choice] = measured(program, model, samples[4:])
        print(f"  {choice}: {found[choice]}", file=sys.stderr, flush=True)
        return found[choice]

    for choice, options in CHOICES.items():
        note(choice, options)
    if target.startswith("atlas"):
        plain, best = found["ranges max"], note("keep all (bf16)", {"keep": network.keep})
        goal = round((plain.cosine + best.cosine) / 2, 5)
        if plain.cosine < goal:
            try:
                note(f"--accuracy {goal}", {"accuracy": goal})
            except tw.TilewrightError as error:  # a sample is further away than those measured here
                print(f"  --accuracy {goal}: {error.message}", file=sys.stderr)
    return found


def table(lines: Sequence[Sequence[str]]) -> str:
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(HEADS)} |", f"|{'|'.join(['---'] * len(HEADS))}|", *body])


def _known(page: Path, measured: set[tuple[str, ...]]) -> list[list[str]]:
    """Rows of the page whose network was not measured on the machine now."""
    if not page.exists():
        return []
    rows = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [row for row in rows[1:] if tuple(row[:2]) not in measured]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="networks whose names contain this")
    parser.add_argument("--target", action="append", help="machines (default atlas-v1 and vpu40)")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/accuracy.md")
    arguments = parser.parse_args()
    lines = []
    for name, network in NETWORKS.items():
        if arguments.only.lower() not in name.lower():
            continue
        for target in arguments.target or ("atlas-v1", "vpu40"):
            print(f"{name} on {target}", file=sys.stderr, flush=True)
            found = rows_of(network, target)
            plain = found["ranges max"].cycles
            for choice, row in found.items():
                lines.append((
                    name, target, choice, f"{row.cosine:.6f}", f"{row.relative:.4f}",
                    f"{row.cycles:,}", f"{row.cycles / plain:.3f}", "yes" if row.exact else "NO",
                ))  # fmt: skip
    print(table(lines))
    if arguments.write:
        page = ROOT / "benchmarks/results/accuracy.md"
        text = table([*_known(page, {line[:2] for line in lines}), *lines])
        page.write_text(PAGE.format(day=date.today().isoformat(), table=text), encoding="utf-8")
    return 0 if all(line[-1] == "yes" for line in lines) else 1


PAGE = """# Choices of quantisation

Distance to float32 and cycles of the choices in [compiling.md](../../docs/compiling.md#quantisation), on networks with drawn
weights, calibrated on four samples and measured on two others. `x max`: cycles over those with the usual options.
Atlas multiplies fp8, vpu40 int8 with floats in f16 around. A cosine of 0 is an output of zeros.

Where a few channels are large, scales moved into weights are the cheapest remedy: int8 loses everything without, and fp8 gets
most of what keeping layers gives for a fraction of its cycles. The least squared error is next on fp8, and no help to int8,
where large channels are most of what is squared. Without such channels nothing but keeping layers matters much; a
percentile of 99 then cuts off too much for int8.

`python benchmarks/accuracy.py --write`, {day}

{table}
"""

if __name__ == "__main__":
    sys.exit(main())
