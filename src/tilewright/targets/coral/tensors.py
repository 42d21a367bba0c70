"""Steps and tensors of a compiled program, as every machine's artifact shows them."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilewright.targets.artifact import Step, Tensor
from tilewright.targets.coral.compile import CoralModel
from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.program import Value


def multiplications(group: Group) -> int:
    """Of the group's root, without padding."""
    root = group.root
    if root.kind in ("conv", "q_conv"):
        return root.output.elements * prod(root.inputs[1].shape[:3])
    return root.output.elements * root.inputs[0].shape[2] if root.kind == "batch_matmul" else 0


def _names(made: CoralModel, entry: str, stem: str, values: Iterable[Value]) -> dict[str, str]:
    """Operands by parameter; what lies in rows of a streamed region has no place of its own."""
    definitions, names = made.program.definitions(), made.storage.names
    places = [names.get(source_of(value, definitions)) for value in values]
    return {f"{stem}{k}": f"{entry}.{place}" for k, place in enumerate(places) if place}


def steps_of(made: CoralModel, entry: str) -> tuple[Step, ...]:
    """One step per function of the program, in order."""
    steps = []
    for group, name in zip(made.groups, made.names, strict=True):
        operands = _names(made, entry, "in", group.reads())
        operands |= _names(made, entry, "out", group.stored)
        sources = dict.fromkeys(
            f"{node.kind} {node.location}" if node.location else node.kind for node in group.nodes
        )
        steps.append(Step(name, group.kind, operands, {}, tuple(sources), multiplications(group)))
    return tuple(steps)


def tensors_of(made: CoralModel, entry: str) -> tuple[Tensor, ...]:
    """Inputs, outputs, and buffers with the steps during which they matter.

    Addresses count from the beginning of data memory.
    """
    base, symbols, last = made.machine.data.base, made.elf.symbols, max(0, len(made.groups) - 1)
    space = made.machine.data.name.lower()
    tensors = []
    for stem, values in (("input", made.program.inputs), ("output", made.program.outputs)):
        for index, value in enumerate(values):
            address, name = symbols[f"{stem}_{index}"].address, f"{entry}.{stem}_{index}"
            if address >= made.machine.far:
                outer = made.machine.external[0]
                where, address = outer.name.lower(), address - outer.base
            else:
                where, address = space, address - base
            tensors.append(_tensor(name, where, address, value, stem, 0, last))
    arena = next((s.address for s in made.elf.sections if s.name == ".arena"), base) - base
    values = {name: value for value, name in made.storage.names.items()}
    for buffer in made.storage.buffers():
        address = arena + made.storage.offset(buffer.name)
        value = values.get(buffer.name)
        name, first, end = f"{entry}.{buffer.name}", buffer.lower, buffer.upper - 1
        if value is None:
            tensors.append(
                Tensor(name, space, address, buffer.size, "scratch", "activation", first, end)
            )
        else:
            tensors.append(_tensor(name, space, address, value, "activation", first, end))
    return tuple(tensors)


def _tensor(
    name: str, space: str, address: int, value: Value, kind: str, first: int, last: int
) -> Tensor:
    encoding = f"{value.dtype}, dense"
    if value.scale is not None:
        encoding += f", (q - {value.zero}) * {value.scale!r}"
    return Tensor(
        name,
        space,
        address,
        value.bytes,
        encoding,
        kind,
        first,
        last,
        shape=value.shape,
        dtype=value.dtype,
    )
