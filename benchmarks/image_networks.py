"""Convolutional networks of the usual libraries at full size: cycles against the bound, distance to
float32, what compiling takes.

    python benchmarks/image_networks.py                        all of them, on images of 224 x 224
    python benchmarks/image_networks.py --only resnet --only unet --size 96
    python benchmarks/image_networks.py --json > rows.jsonl    a line for every network
    python benchmarks/image_networks.py --table rows.jsonl     results/image_networks.md of many runs

Weights are drawn from a seed; norms have factors, terms and statistics of their own, as trained ones
have. Every network runs in a process of its own and is verified against its references. Needs torch
and timm. The exit code is 1 if a value was wrong or a network was not compiled.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measured import FIGURES, cells, figures, in_a_process, measure
from zoo_models import library, seeded

NETWORKS = {
    "resnet18": "resnet18",
    "mobilenet_v2": "mobilenetv2_100",
    "mobilenet_v3": "mobilenetv3_large_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
    "efficientnet_b0": "efficientnet_b0",
    "convnext_tiny": "convnext_tiny",
    "unet": "",
}
RESULTS = Path(__file__).parent / "results" / "image_networks.md"
HEADS = ("network", "size", *FIGURES, "cycles by kernel")


def unet(depth: int = 4, width: int = 32, classes: int = 8) -> Any:
    """A network that halves an image some times, doubles it as often, and joins both ways."""
    torch = library("torch")
    nn = torch.nn

    def block(before: int, after: int) -> Any:
        steps = []
        for channels in (before, after):
            steps += [nn.Conv2d(channels, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        return nn.Sequential(*steps)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [width << k for k in range(depth + 1)]
            self.first = block(3, width)
            self.down = nn.ModuleList([block(a, 2 * a) for a in sizes[:-1]])
            self.up = nn.ModuleList([block(3 * a, a) for a in reversed(sizes[:-1])])
            self.last = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            kept = []
            for layer in self.down:
                kept.append(x)
                x = layer(nn.functional.max_pool2d(x, 2))
            for layer in self.up:
                x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
                x = layer(torch.cat([kept.pop(), x], 1))
            return self.last(x)

    return UNet()


def built(name: str) -> Any:
    """A network with norms as after training."""
    torch = library("torch")

    def make() -> Any:
        if not NETWORKS[name]:
            network = unet()
        else:
            from zoo_models.image_models import compiled_operators

            compiled_operators()
            network = library("timm").create_model(NETWORKS[name], pretrained=False)
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                for tensor in (module.weight, module.running_var):
                    torch.nn.init.uniform_(tensor, 0.7, 1.3)
                for tensor in (module.bias, module.running_mean):
                    torch.nn.init.normal_(tensor, 0.0, 0.1)
        return network

    return seeded(make)


def measured(name: str, size: int, target: str) -> dict[str, Any]:
    """Compile, run and verify one network."""
    torch = library("torch")
    x = torch.randn((1, 3, size, size), generator=torch.Generator().manual_seed(2))
    return {"network": name, "size": size, **measure(built(name), (x,), target)}


def row(found: dict[str, Any]) -> tuple[str, ...]:
    if "error" in found:
        return (found["network"], str(found["size"]), *[""] * len(FIGURES), found["error"])
    kernels = ", ".join(f"{name} {cycles:,}" for name, cycles in found["kernels"].items())
    return (found["network"], str(found["size"]), *figures(found), kernels)


def table(rows: list[dict[str, Any]]) -> str:
    """The page of results; of a network with several rows of one size the last counts."""
    last = {(found["network"], found["size"]): found for found in rows}
    order = {name: k for k, name in enumerate(NETWORKS)}
    chosen = sorted(last.values(), key=lambda f: (-f["size"], order.get(f["network"], 99)))
    dates = sorted({found.get("date", "") for found in chosen})
    lines = cells([HEADS, *map(row, chosen)])
    return (
        "# Convolutional networks\n\n"
        f"`python benchmarks/image_networks.py`, Python {platform.python_version()}, "
        f"{', '.join(filter(None, dates))}. Seconds are of processor time, of import and compilation; "
        "`exact` is against\nthe quantised reference, `cosine` that of the outputs with float32, "
        f"`host` the host's share of the arithmetic.\n\n{lines}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="names that contain this")
    parser.add_argument("--size", type=int, default=224, help="rows and columns of images")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every network")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULTS.name}")
    parser.add_argument("--table", nargs="+", metavar="ROWS", help="write the table of these rows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.size, options.target)))
        return 0
    if options.table:
        lines = [line for path in options.table for line in Path(path).read_text().splitlines()]
        RESULTS.write_text(table([json.loads(line) for line in lines if line.startswith("{")]))
        return 0
    names = [n for n in NETWORKS if not options.only or any(text in n for text in options.only)]
    if not names:
        parser.error(f"no network has {options.only} in its name: {', '.join(NETWORKS)}")
    rows = []
    for name in names:
        arguments = ("--one", name, "--size", str(options.size), "--target", options.target)
        found = in_a_process(__file__, arguments)
        rows.append({"network": name, "size": options.size, **found})
        print(json.dumps(rows[-1]) if options.json else " | ".join(row(rows[-1])), flush=True)
    if options.write:
        RESULTS.write_text(table(rows))
    return int(any("error" in found or not found["exact"] for found in rows))


if __name__ == "__main__":
    sys.exit(main())
