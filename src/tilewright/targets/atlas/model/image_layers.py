"""Layers over images: one kernel each. Those that only move pixels, as found in a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, shape_of
from tilewright.targets.atlas.kernels.image_sources import Source
from tilewright.targets.atlas.kernels.images import Image, Window

Phases = tuple[int, int]
Places = tuple[int, ...]
MOST = 1 << 26  # elements of images whose pixels are followed


@dataclass(eq=False)
class Layer:
    """One kernel over images."""

    kind: str  # conv, max, average, combine, resample, mean, gate, join, norm, chain
    inputs: tuple[SSAValue, ...]
    result: SSAValue
    nodes: tuple[Node, ...]  # the operation itself first
    first: bool  # whether channels come before rows and columns, in the result
    window: Window | None = None
    activation: str = "none"
    unfolded: bool | str = False  # by the host: the window, or its columns
    times: float = 1.0  # what the result of the activation is multiplied by
    places: tuple[tuple[int, ...] | None, ...] = (None, None)  # rows and columns of a resample
    starts: tuple[int, ...] = ()  # first channels of what is joined
    weight: np.ndarray | None = None  # of a convolution: [KH, KW, C / groups, N]
    bias: np.ndarray | None = None
    gains: np.ndarray | None = None  # what a convolution of one channel each multiplies by
    parts: tuple[Layer, ...] = ()  # convolutions of a chain
    bands: bool = False  # of a chain: none of them is depthwise
    added: SSAValue | None = None  # what a convolution's sums are added to: behind what it sees
    gate: SSAValue | None = None  # what multiplies a convolution's filters: behind all other inputs
    enlarged: tuple[Phases, ...] = ()  # of images read as one: how often their pixels are repeated
    pool: Layer | None = None  # what makes the result of what convolutions make
    kept: bool = False  # what convolutions make is a second result

    @property
    def given_first(self) -> bool:
        """Whether channels come first in what a convolution or pooling is given."""
        return not (self.node.call.string("layout") or "").startswith("nhwc")

    @property
    def steps(self) -> Phases:
        """How many pixels apart the windows of two results are."""
        return (1, 1) if self.window is None else self.window.steps

    @property
    def image(self) -> SSAValue:
        """What convolutions make, which may be pooled then."""
        return self.result if self.pool is None else self.pool.inputs[0]

    @property
    def groups(self) -> int:
        """Parts of the channels that do not see each other."""
        if self.gains is not None:
            return len(self.gains)
        return (self.node.call.integer("groups") or 1) if self.node.family == "conv2d" else 1

    @property
    def alike(self) -> tuple[SSAValue, ...]:
        """Inputs that are stored as the result is, but for strides and borders; of a chain that begins
        with what the host has unfolded, the result of its first convolution, which is there band by
        band."""
        more = () if self.added is None else (self.added,)
        if self.kind == "chain" and self.unfolded:
            return (self.parts[0].result, *more)
        if self.unfolded or self.kind in ("resample", "mean"):
            return more
        if self.gate is not None:
            return self.inputs[:-1]
        return self.inputs[:1] if self.kind == "gate" else self.inputs

    @property
    def apart(self) -> tuple[SSAValue, ...]:
        """Inputs that are images stored in a way of their own."""
        return () if self.unfolded else self.inputs[len(self.alike) :]

    def window_over(self, x: SSAValue) -> Window | None:
        """The window that moves over an input."""
        beside = x is self.added or x is self.gate
        return None if beside and x is not self.inputs[0] else self.window

    def _steps_over(self, x: SSAValue) -> Phases:
        window = self.window_over(x)
        return (1, 1) if window is None else window.steps

    def wanted(self, x: SSAValue, phases: Phases) -> Phases:
        """The phases in which an input that is stored alike has to be for those of the result."""
        (down, across), (a, b) = self._steps_over(x), self._repeated(x)
        rows, columns = math.lcm(phases[0] * down, a), math.lcm(phases[1] * across, b)
        return rows // a, columns // b

    def made(self, x: SSAValue, phases: Phases) -> Phases:
        """The phases of the result for those of an input that is stored alike."""
        (down, across), (a, b) = self._steps_over(x), self._repeated(x)
        return phases[0] * a // down, phases[1] * b // across

    def seen(self, x: SSAValue, image: Image) -> Image:
        """An input as the layer sees it."""
        return Source(image, self._repeated(x)).seen

    def _repeated(self, x: SSAValue) -> Phases:
        return self.enlarged[self.inputs.index(x)] if self.enlarged else (1, 1)

    @property
    def node(self) -> Node:
        return self.nodes[0]


def sizes_of(shape: Sequence[int], first: bool) -> tuple[int, int, int]:
    """Height, width, channels of [B, C, H, W] or [B, H, W, C]."""
    return (shape[2], shape[3], shape[1]) if first else (shape[1], shape[2], shape[3])


def plain_image(value: SSAValue, first: bool, phases: Phases = (1, 1)) -> Image:
    """A value as an image, stored in the simplest way."""
    shape = shape_of(value)
    return Image(*sizes_of(shape, first), phases=phases, batch=shape[0], first=first)


def looked_up_pixels(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """Rows and columns of an image at known places, as resizing to the nearest pixel takes them."""
    x = node.inputs["x"]
    if x not in found:
        return None
    places: list[Places | None] = [None, None]
    nodes: list[Node] = []
    while node.family == "gather" and (not nodes or node.inputs["x"] is nodes[-1].result):
        number = node.call.axis(4) - (2 if found[x].first else 1)
        known = graph.known(node.inputs["indices"])
        if number not in (0, 1) or places[number] is not None or known is None or known.ndim != 1:
            break
        places[number] = tuple(int(k) for k in known)
        nodes.append(node)
        users = graph.users.get(node.result, [])
        if not graph.used_once(node.result) or len(users) != 1:
            break
        node = users[0]
    return _resampled(x, nodes, found[x].first, (places[0], places[1])) if nodes else None


def repeated_pixels(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """Reshapes and repetitions that make an image of another: each pixel several times.

    before: reshape 8x8 to 8x1x8 -> repeat to 8x2x8 -> reshape to 16x8 -> the same for columns
    after:  resample with rows 0 0 1 1 2 2 …
    """
    x = node.operands[0]
    if x not in found or not 1 <= np.prod(shape_of(x)) <= MOST:
        return None
    places = np.arange(np.prod(shape_of(x))).reshape(shape_of(x))
    nodes: list[Node] = []
    best: tuple[int, tuple[Places, Places]] | None = None
    while True:
        moved = _moved(node, places)
        if moved is None or moved.size > MOST:
            break
        places = moved
        nodes.append(node)
        found_here = _rows_and_columns(places, shape_of(x), found[x].first)
        if found_here is not None:
            best = len(nodes), found_here
        users = graph.users.get(node.result, [])
        if not graph.used_once(node.result) or len(users) != 1:
            break
        node = users[0]
    if best is None:
        return None
    return _resampled(x, nodes[: best[0]], found[x].first, best[1])


def _moved(node: Node, places: np.ndarray) -> np.ndarray | None:
    """Where the elements of a node's result are, if it only moves or repeats them."""
    shape = shape_of(node.result)
    if node.family == "reshape":
        return places.reshape(shape)
    reads = node.reads() if node.family == "cast" and len(node.operands) == 1 else None
    if reads is None:
        return None
    sizes = [1] * len(shape)
    for d, size in zip(reads, (n for n in places.shape if n != 1), strict=True):
        sizes[d] = size
    return np.broadcast_to(places.reshape(sizes), shape)


def _rows_and_columns(
    places: np.ndarray, shape: tuple[int, ...], first: bool
) -> tuple[Places, Places] | None:
    """Rows and columns of an image of `shape` that places are, if that is what they are."""
    if places.ndim != 4:
        return None
    down, across = (2, 3) if first else (1, 2)
    at = np.unravel_index(places, shape)
    kept = [d for d in range(4) if d not in (down, across)]
    if any(places.shape[d] != shape[d] for d in kept) or places.shape == shape:
        return None
    rows = at[down][tuple(slice(None) if d == down else 0 for d in range(4))]
    columns = at[across][tuple(slice(None) if d == across else 0 for d in range(4))]
    wanted = [np.arange(shape[d]) for d in range(4)]
    wanted[down], wanted[across] = rows, columns
    for d in range(4):
        sizes = [places.shape[d] if k == d else 1 for k in range(4)]
        if not np.array_equal(at[d], np.broadcast_to(wanted[d].reshape(sizes), places.shape)):
            return None
    return tuple(int(k) for k in rows), tuple(int(k) for k in columns)


def _resampled(
    x: SSAValue, nodes: list[Node], first: bool, places: tuple[Places | None, Places | None]
) -> Layer:
    return Layer("resample", (x,), nodes[-1].result, tuple(nodes), first, places=places)


def repetitions(layer: Layer) -> Phases | None:
    """How often a resample repeats every pixel, down and across, if it does nothing else."""
    found = []
    for places in layer.places:
        count = 1 if places is None else places.count(0)
        if places is not None and list(places) != [k // max(count, 1) for k in range(len(places))]:
            return None
        if places is not None and (not count or len(places) != count * (places[-1] + 1)):
            return None
        found.append(count)
    return found[0], found[1]
