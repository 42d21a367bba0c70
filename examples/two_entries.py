"""Two models of one layer for docs/entry_points.md: one writes a memory, the other goes on with it.

tilewright compile read=examples.two_entries:read step=examples.two_entries:step -o pair.twb \
    --state memory=read.memory,step.memory,step.next
"""

from __future__ import annotations

from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported


def read() -> Imported:
    """The memory of an input."""
    net = ModelBuilder("read", seed=1)
    net.output("memory", net.relu(net.linear(net.input("x", (6, 48)), 48, "shared")))
    return net.build()


def step() -> Imported:
    """A result, and the next memory."""
    net = ModelBuilder("step", seed=1)
    memory, x = net.input("memory", (6, 48)), net.input("x", (6, 48))
    h = net.relu(net.linear(memory + x, 48, "shared"))
    net.output("next", h)
    net.output("y", h * 0.5)
    return net.build()
