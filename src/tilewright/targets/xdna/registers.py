"""The register words of a design's descriptors, as a listing."""

from __future__ import annotations

from tilewright.targets.xdna.descriptors import encode, legalise_one
from tilewright.targets.xdna.design import Design, Transfer
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.lowering import lower


def _words(words: tuple[int, ...]) -> str:
    return " ".join(f"{word:08x}" for word in words)


def descriptor_listing(design: Design) -> str:
    """Locks, buffers and static descriptors per tile, then the shim descriptors in issue order."""
    lowering = lower(design)
    lines = ["# tile channel fifo descriptor: words"]
    for end in sorted(lowering.ends, key=lambda e: (e.tile, e.direction, e.channel)):
        kind = design.device.kind(end.tile.row)
        for use in end.descriptors:
            role = f" {use.role}" if use.role else ""
            lines.append(
                f"{end.tile} {end.direction}:{end.channel} @{end.fifo} bd {use.identity}{role}:"
                f" {_words(encode(use.descriptor, kind))}"
            )
    lines.append("# locks: tile, free id and value, full id and value")
    lines += [
        f"{p.tile} {p.name}: free {p.free} = {p.free_value}, full {p.full} = {p.full_value}"
        for p in lowering.locks
    ]
    lines.append("# runtime: shim descriptors; addresses count from the start of the host buffer")
    shim = design.device.tile["shim"]
    for step in design.runtime:
        if isinstance(step, Transfer):
            fifo = design.fifo(step.fifo)
            made = legalise_one(step.pattern, fifo.object.element_bytes, shim, iteration=True)
            tile = fifo.producer if fifo.producer.row == SHIM_ROW else fifo.consumers[0]
            lines.append(
                f"{tile} @{step.fifo} bd {step.descriptor} repeat {made.iterations}:"
                f" {_words(encode(made, shim))}"
            )
    return "\n".join(lines) + "\n"
