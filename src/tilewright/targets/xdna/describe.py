"""What an XDNA array is, for people: `tilewright targets`."""

from __future__ import annotations

from pathlib import Path

from tilewright.targets.target import Described, Description, Memory
from tilewright.targets.xdna.device import load_device

DEVICES = {"xdna1": "npu1", "xdna2": "npu2"}


def find(name: str | Path) -> Described:
    """An array by the name of the target."""
    device = load_device(DEVICES.get(str(name), str(name)))
    description = Description(
        name=str(name),
        family="xdna",
        summary=f"{device.columns} columns of {device.core_rows} cores at "
        f"{device.clock_hz / 1e9:g} GHz",
        memories=(
            Memory("l2", device.tile["memory"].memory_bytes, 4, "per memory tile"),
            Memory("l1", device.tile["core"].memory_bytes, 4, "per core"),
        ),
        formats=("int8 and bf16 products", "ternary weights with int8 activations"),
        modelled=(
            "descriptors, locks, channels, routes and memories of a design",
            "values of every transfer and product; time by events",
        ),
        not_modelled=("other operations than products", "compiling whole models, so far"),
    )
    return Described(description, "plan single products with: tilewright xdna gemm --help")
