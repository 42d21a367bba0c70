"""In-place reuse: an operation writes its result over the operand it reads last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from tilewright.planning.buffers import Buffer


def merge_reuses(
    buffers: Sequence[Buffer], equal_sizes_only: bool
) -> tuple[list[Buffer], dict[str, str]]:
    """Join each buffer with the first one it may reuse that no other took.

    before: x live [0, 4), y live [3, 9) and may reuse x
    after:  x live [0, 9), and y lies where x lies

    Returns the joined buffers and, for every name, the name of the buffer it lies in.
    """
    by_name = {b.name: b for b in buffers}
    holder = {b.name: b.name for b in buffers}
    joined = dict(by_name)
    taken: set[str] = set()
    for buffer in sorted(buffers, key=lambda b: (b.lower, -b.size)):
        for name in buffer.reuses:
            reused = by_name.get(name)
            if reused is None or name in taken or (equal_sizes_only and reused.size != buffer.size):
                continue
            root = joined[holder[name]]
            if None not in (root.offset, buffer.offset) and root.offset != buffer.offset:
                continue
            offset = root.offset if buffer.offset is None else buffer.offset
            alignment = lcm(root.alignment, buffer.alignment)
            if offset is not None and offset % alignment:
                continue
            taken.add(name)
            holder[buffer.name] = root.name
            joined[root.name] = replace(
                root,
                upper=max(root.upper, buffer.upper),
                alignment=alignment,
                offset=offset,
                reuses=(),
            )
            del joined[buffer.name]
            break
    return [replace(joined[b.name], reuses=()) for b in buffers if b.name in joined], holder
