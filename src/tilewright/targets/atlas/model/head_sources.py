"""Where the heads of attention come from: which columns of which matrix.

Between a product and attention libraries write reshapes, transposes, slices, a rotation and a norm
in many orders: packed queries, keys and values in one matrix, heads in front or behind, part of a
head rotated. All of them only say which column of a flat matrix [B, M, C] becomes which column of
which head. So columns are numbered, the numbers are sent through the operations, and what arrives
says it:

    before: [B, M, 3 * H * D] -> reshape -> transpose -> slice -> rope -> [B, H, M, D]
    after:  flat [B, M, C], columns [H, D], the rotation with the place of each column in it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, dtype_of, shape_of

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

FLOATS = ("f32", "bf16", "f16", "f64")
_FORM = ("permutation", "offsets", "sizes", "strides", "axis", "operand_maps")  # what moves columns
STEPS = 24  # operations between heads and where they come from, at most

Shape = tuple[int, ...]
Heads = tuple[int, int, int, int]  # batch, heads, rows, columns of each


@dataclass(frozen=True)
class Columns:
    """Heads [B, H, M, D] cut out of a flat value [B, M, C].

    numbers: [H, D], which column of the flat value; places: of each column of a head its place in
    the rotation, -1 where it is not rotated; gains: the same for a norm over a head.
    """

    flat: SSAValue
    wide: int  # C
    numbers: np.ndarray
    rope: Node | None = None
    places: tuple[int, ...] = ()
    rows_at: int = 2  # which dimension of what is rotated counts rows
    norm: Node | None = None
    gains: tuple[int, ...] = ()
    alone: bool = True  # only attention reads what the flat value becomes

    @property
    def side_by_side(self) -> bool:
        """Whether the flat value is the heads and nothing else, one after the other."""
        whole = self.wide == self.numbers.size
        return whole and np.array_equal(self.numbers.reshape(-1), np.arange(self.wide))


def find_columns(
    at: Lowering, value: SSAValue, heads: Heads, turned: bool = False, beside: bool = False
) -> Columns | None:
    """The flat value that heads [B, H, M, D] are columns of, as far back as possible; turned: rows
    and columns of the value are swapped; beside: one that is the heads and nothing else."""
    batch, _, rows, width = heads
    graph = at.graph
    for base in reversed(list(_path(graph, value))):
        if dtype_of(base) not in FLOATS:
            continue
        shape = at.canonical(shape_of(base))
        wide = shape[2]
        if shape != (batch, rows, wide) or wide < width:
            flat = _as_flat(shape_of(base), batch, rows)
            if flat is None or flat < width:
                continue
            wide = flat
        found = _traced(at, value, base, heads, wide, turned)
        if found is not None and (not beside or found.side_by_side):
            return found
    return None


def heads_beside(graph: Graph, value: SSAValue, form_of: Callable[[Node], Heads]) -> Node | None:
    """The attention whose heads, [B, H, M, D] by its form, are side by side in the rows of a value."""
    wide = shape_of(value)[-1] if shape_of(value) else 1
    for base in _path(graph, value):
        node = graph.node_of(base, "gemma_attention")
        if node is None:
            continue
        batch, count, rows, width = form_of(node)
        if count * width != wide:
            return None
        trace = _Trace(graph, base)
        numbers = trace.of(value)
        heads = np.arange(batch * count * rows * width).reshape(batch, count, rows, width)
        side_by_side = heads.transpose(0, 2, 1, 3).reshape(-1)
        return node if trace.plain and np.array_equal(numbers.reshape(-1), side_by_side) else None
    return None


def four(shape: Shape) -> Heads:
    """[B, H, M, D] of what attention reads and makes."""
    whole = (1,) * (4 - len(shape)) + tuple(shape)
    return whole[0], whole[1], whole[2], whole[3]


def _as_flat(shape: Shape, batch: int, rows: int) -> int | None:
    """Columns of a value [B, M, H, D] that is the same numbers in the same order as [B, M, C]."""
    whole = [size for size in shape if size != 1]
    wanted = [size for size in (batch, rows) if size != 1]
    if whole[: len(wanted)] != wanted:
        return None
    return int(np.prod(whole[len(wanted) :], dtype=np.int64))


def _path(graph: Graph, value: SSAValue) -> Iterator[SSAValue]:
    """Values whose columns a value is made of, from itself back."""
    yield value
    for _ in range(STEPS):
        node = graph.definition.get(value)
        if node is None:
            return
        if node.family == "concat":
            paths = [list(_path(graph, operand)) for operand in node.operands]
            yield from (v for v in paths[0] if all(v in path for path in paths[1:]))
            return
        if not _passes(graph, node):
            return
        value = node.operands[0]
        yield value


def _passes(graph: Graph, node: Node) -> bool:
    """Whether a node's result is its first operand's columns elsewhere, rotated or normed."""
    if node.family in ("reshape", "transpose"):
        return True
    if node.family == "cast":
        return node.reads_plainly() and dtype_of(node.operands[0]) in FLOATS
    if node.family == "slice":
        return node.call.integers("offsets") is not None
    if node.family == "gather":
        return _known(graph, node.operands[1]) is not None
    if node.family == "rope":
        rank = len(shape_of(node.result))
        return "operand_maps" not in node.call.attributes and node.call.axis(rank) == rank - 1
    if node.family in ("rms_norm", "layer_norm"):
        rank = len(shape_of(node.result))
        known = all(
            node.inputs[r] in graph.constants for r in ("weight", "bias") if r in node.inputs
        )
        return known and node.call.axis(rank) == rank - 1
    return False


def _known(graph: Graph, value: SSAValue) -> np.ndarray | None:
    """Indices that are known beforehand."""
    array = graph.constants.get(value)
    filled = graph.node_of(value, "fill")
    if filled is not None and (number := filled.call.value("value")) is not None:
        array = np.full(shape_of(value), number)
    return None if array is None else np.asarray(array, np.int64)


@dataclass
class _Trace:
    """Numbers of a base's elements sent through the operations behind it.

    rope, norm: the operation on the way, if any; places, gains: of every element the place in what
    it works on, -1 before it; segments: of a norm, the row that is normed together.
    """

    graph: Graph
    base: SSAValue
    rope: Node | None = None
    norm: Node | None = None
    good: bool = True
    rotating: np.ndarray | None = None  # numbers of what is rotated
    known: dict[SSAValue, dict[str, np.ndarray]] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        return self.good and self.rope is None and self.norm is None

    def of(self, value: SSAValue, kind: str = "numbers") -> np.ndarray:
        return self._all(value)[kind]

    def _all(self, value: SSAValue) -> dict[str, np.ndarray]:
        if value not in self.known:
            self.known[value] = self._make(value)
        return self.known[value]

    def _make(self, value: SSAValue) -> dict[str, np.ndarray]:
        shape = shape_of(value)
        if value is self.base:
            nothing = np.broadcast_to(np.int32(-1), shape)
            size = int(np.prod(shape, dtype=np.int64))
            numbers = np.arange(size, dtype=np.int32).reshape(shape)
            return {"numbers": numbers, "places": nothing, "gains": nothing, "segments": nothing}
        node = self.graph.definition[value]
        if node.family == "concat":
            parts = [self._all(operand) for operand in node.operands]
            axis = node.call.axis(len(shape))
            return {k: np.concatenate([part[k] for part in parts], axis) for k in parts[0]}
        inner = self._all(node.operands[0])
        along = np.broadcast_to(np.arange(shape[-1] if shape else 1, dtype=np.int32), shape)
        if node.family == "rope":
            self.good &= self.rope is None
            self.rope, self.rotating = node, inner["numbers"]
            return inner | {"places": along}
        if node.family in ("rms_norm", "layer_norm"):
            # The norm comes first: what is rotated already cannot be normed by the same kernel.
            self.good &= self.norm is None and bool((inner["places"] < 0).all())
            self.norm = node
            rows = int(np.prod(shape[:-1], dtype=np.int64))
            segments = np.broadcast_to(
                np.arange(rows, dtype=np.int32).reshape((*shape[:-1], 1)), shape
            )
            return inner | {"gains": along, "segments": segments}
        return {kind: self._moved(node, array, shape) for kind, array in inner.items()}

    def _moved(self, node: Node, array: np.ndarray, shape: Shape) -> np.ndarray:
        if node.family == "transpose":
            return array.transpose(node.call.integers("permutation") or ())
        if node.family == "slice":
            offsets, sizes = node.call.integers("offsets"), node.call.integers("sizes")
            steps = node.call.integers("strides") or (1,) * array.ndim
            assert offsets is not None and sizes is not None
            cut = zip(offsets, sizes, steps, strict=True)
            return array[tuple(slice(o, o + n * s, s) for o, n, s in cut)].reshape(shape)
        if node.family == "gather":
            indices = _known(self.graph, node.operands[1])
            assert indices is not None
            return np.take(array, indices, node.call.axis(array.ndim)).reshape(shape)
        return array.reshape(shape)


@dataclass(frozen=True)
class _Layout:
    """What a trace finds, apart from the values of one layer."""

    numbers: np.ndarray
    places: tuple[int, ...] = ()
    rows_at: int = 2
    gains: tuple[int, ...] = ()


def _traced(
    at: Lowering, value: SSAValue, base: SSAValue, heads: Heads, wide: int, turned: bool
) -> Columns | None:
    """The columns of one base; layers that are written alike are traced once."""
    met: list[Node] = []
    key = (_signature(at.graph, value, base, met), heads, wide, turned)
    known = at.heads.traced
    if key not in known:
        known[key] = _trace(at.graph, value, base, heads, wide, turned)
    found: _Layout | None = known[key]
    if found is None:
        return None
    rope = next((node for node in met if node.family == "rope"), None)
    norm = next((node for node in met if node.family.endswith("_norm")), None)
    alone = _only_attends(at.graph, base)
    return Columns(
        base, wide, found.numbers, rope, found.places, found.rows_at, norm, found.gains, alone
    )


def _signature(graph: Graph, value: SSAValue, base: SSAValue, met: list[Node]) -> tuple:
    """How a value is made of a base, without names; met: rotations and norms on the way."""
    if value is base:
        return ("base", shape_of(value))
    node = graph.definition[value]
    if node.family in ("rope", "rms_norm", "layer_norm") and node not in met:
        met.append(node)
    inner = node.operands if node.family == "concat" else node.operands[:1]
    indices = _known(graph, node.operands[1]) if node.family == "gather" else None
    attributes = tuple(sorted((k, str(v)) for k, v in node.call.attributes.items() if k in _FORM))
    return (
        node.family,
        shape_of(value),
        attributes,
        None if indices is None else (indices.shape, tuple(indices.reshape(-1).tolist())),
        # Two rotations are not one, though they look alike.
        met.index(node) if node in met else -1,
        tuple(_signature(graph, operand, base, met) for operand in inner),
    )


def _trace(
    graph: Graph, value: SSAValue, base: SSAValue, heads: Heads, wide: int, turned: bool
) -> _Layout | None:
    batch, _, rows, _ = heads
    trace = _Trace(graph, base)

    def arrived(kind: str) -> np.ndarray:
        array = trace.of(value, kind)
        return (array.swapaxes(-1, -2) if turned else array).reshape(heads)

    numbers = arrived("numbers")
    if not trace.good:
        return None
    columns = numbers[0, :, 0, :]
    starts = np.arange(batch * rows, dtype=np.int64).reshape(batch, 1, rows, 1) * wide
    if columns.max(initial=0) >= wide or not np.array_equal(
        numbers - starts, _spread(columns, heads)
    ):
        return None
    more: dict[str, Any] = {}
    if trace.rope is not None:
        places = arrived("places")
        mine = places[0, 0, 0]
        count = shape_of(trace.rope.result)[-1]
        if not (places == mine).all() or sorted(p for p in mine if p >= 0) != list(range(count)):
            return None
        turning = trace.rotating
        if turning is not None and turning.ndim == 3 and turning.shape[0] % batch == 0:
            turning = turning.reshape(batch, -1, *turning.shape[1:])
        rows_at = _rows_at(turning, wide)
        if rows_at is None:
            return None
        more |= {"places": tuple(map(int, mine)), "rows_at": rows_at}
    if trace.norm is not None:
        gains, segments = arrived("gains"), arrived("segments")
        mine = gains[0, 0, 0]
        whole = sorted(mine) == list(range(shape_of(trace.norm.result)[-1]))
        if not whole or not (gains == mine).all() or not (segments == segments[..., :1]).all():
            return None
        more |= {"gains": tuple(map(int, mine))}
    return _Layout(columns.astype(np.int64), **more)


def _spread(columns: np.ndarray, heads: Heads) -> np.ndarray:
    return np.broadcast_to(columns[None, :, None, :], heads)


def _rows_at(numbers: np.ndarray | None, wide: int) -> int | None:
    """Which dimension of what is rotated counts rows: along it numbers go from row to row."""
    if numbers is None or numbers.ndim != 4:
        return None
    rows = numbers[0, :, :, 0] // wide
    along = [bool((np.diff(rows, axis=axis) != 0).any()) for axis in (0, 1)]
    if all(along):
        return None
    return 1 if along[0] else 2


def _only_attends(graph: Graph, value: SSAValue, depth: int = 0) -> bool:
    """Whether everything made of a value ends in attention."""
    if any(value is result for _, result in graph.outputs) or depth > STEPS:
        return False
    return all(
        user.family == "gemma_attention"
        or (
            (user.family == "concat" or _passes(graph, user))
            and _only_attends(graph, user.result, depth + 1)
        )
        for user in graph.users.get(value, ())
    )
