"""Writes in place, as saved programs have them, as calls that make new values.

    before: %y = aten.zeros([2, 6]);  %v = aten.slice(%y, 1, 0, 3);  aten.copy_(%v, %x);  return %y
    after:  %v' = aten.copy(%v, %x);  %y' = aten.slice_scatter(%y, %v', 1, 0, 3);  return %y'

Values that share memory are a base and views of it. A write through any of them makes a new value of
the base; a view that is read after that is taken anew from the base as it is then. Where it depends on
strides whether two values share memory (`reshape` of a transpose), and it matters, the write is refused.
Of live programs only writes that nobody else sees come here (`torch_plain`); others torch makes functional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.frontend.aten_builder import wrapped
from tilewright.frontend.aten_graph import ExportedGraph, Node, Ref

# What they give is what they get, in eval mode.
SAME = frozenset(["alias", "detach", "detach_", "dropout", "feature_dropout", "alpha_dropout"])
SHAPED = frozenset(["view", "unsqueeze", "squeeze", "unflatten", "view_as", "_reshape_alias"])
TURNED = frozenset(["transpose", "t", "mT", "numpy_T", "swapaxes"])  # undone by doing them again
CUT = frozenset(["split", "split_with_sizes", "chunk", "tensor_split", "unbind"])
VIEWS = SAME | SHAPED | TURNED | CUT | {"permute", "slice", "select", "narrow"}
# Views that nobody should write through: only reading is followed.
READ_ONLY = frozenset(["expand", "expand_as", "broadcast_to", "diagonal", "unfold", "movedim"])
# Copies or views, as the strides of what they get say.
EITHER = frozenset(
    ["reshape", "reshape_as", "flatten", "contiguous", "to", "type_as", "view_dtype"]
)
RESHAPES = frozenset(["squeeze", "unsqueeze", "transpose", "t", "swapaxes", "resize", "swapdims"])
ARITHMETIC = frozenset(
    ["add", "sub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp", "true_divide"]
)
BITS = "aten.view.dtype"  # the bits of a tensor as another type


def name_of(target: str) -> str:
    if target == BITS:
        return "view_dtype"
    return target.split(".")[1] if "." in target else target


def writes(node: Node) -> bool:
    """Whether a call changes its first tensor: by torch's convention its name ends so."""
    name = name_of(node.target)
    return name.endswith("_") and not name.startswith("_") and name not in SAME


def refused(node: Node, why: str = "") -> TilewrightError:
    return node.error(
        "TW6106",
        f"{node.target} writes in place{why}",
        "save the functional form: torch.export.export(…).run_decompositions({})",
    )


def without_writes(graph: ExportedGraph) -> list[Node]:
    """The nodes of a graph without writes in place; its outputs and states are renamed to fit."""
    if not any(writes(node) for node in graph.nodes):
        return graph.nodes
    return _Functional(graph).run()


@dataclass
class _Base:
    """Memory of its own: the value that it began as, what it holds now, how often it was written."""

    first: str
    now: str
    version: int = 0
    either: list[_Base] = field(default_factory=list)  # memory that may be the same


@dataclass(frozen=True)
class _Step:
    """One view on the way from a base: the call, and which of its results."""

    node: Node
    part: int = 0


@dataclass
class _View:
    """A value of the graph: a base and the views that lead from it; name and version as last made."""

    base: _Base
    steps: tuple[_Step, ...]
    now: str
    version: int


class _Functional:
    def __init__(self, graph: ExportedGraph) -> None:
        self.graph = graph
        self.made: list[Node] = []
        self.views: dict[str, _View] = {}
        self.count = 0
        self.last_read: dict[str, int] = {}
        for place, node in enumerate(graph.nodes):
            self.last_read.update(dict.fromkeys(node.references(), place))
        for _, value in graph.outputs:
            if isinstance(value, Ref):
                self.last_read[value.name] = len(graph.nodes)

    def run(self) -> list[Node]:
        for place, node in enumerate(self.graph.nodes):
            self._one(place, node)
        self.graph.outputs = [
            (name, Ref(self._now(value.name)) if isinstance(value, Ref) else value)
            for name, value in self.graph.outputs
        ]
        held = {**self.graph.weights, **self.graph.literals}
        for name, fqn in held.items():
            if name in self.views and self.views[name].base.version:
                self.graph.mutated[fqn] = self._now(name)
        return self.made

    def _one(self, place: int, node: Node) -> None:
        name = name_of(node.target)
        given = node.arguments.get("self", node.arguments.get("input"))
        source = given if isinstance(given, Ref) else None
        if writes(node):
            if source is None:
                raise refused(node)
            self._write(place, node, source.name)
            return
        if source is not None and name in VIEWS | READ_ONLY and not node.get("train"):
            self._view(node, source.name)
            return
        self.made.append(self._reading(node))
        for result in node.results:
            self.views[result] = _View(_Base(result, result), (), result, 0)
        if source is not None and name in EITHER:
            mine, other = self.views[node.results[0]].base, self._of(source.name).base
            mine.either.append(other)
            other.either.append(mine)

    # --- reading ------------------------------------------------------------------------------

    def _of(self, name: str) -> _View:
        return self.views.setdefault(name, _View(_Base(name, name), (), name, 0))

    def _now(self, name: str) -> str:
        """The name under which a value is found now."""
        view = self._of(name)
        if not view.steps:
            return view.base.now
        if view.version != view.base.version:
            view.now, view.version = self._along(view)[-1], view.base.version
        return view.now

    def _along(self, view: _View) -> list[str]:
        """The values from a base to one of its views as they are now, the base first."""
        names = [view.base.now]
        for step in view.steps:
            results = [self._new(result) for result in step.node.results]
            self.made.append(self._with_self(step.node, names[-1], results))
            names.append(results[step.part])
        return names

    def _reading(self, node: Node) -> Node:
        def now(value: Any) -> Any:
            if isinstance(value, Ref):
                return Ref(self._now(value.name))
            return [now(item) for item in value] if isinstance(value, list) else value

        return replace(node, arguments={name: now(v) for name, v in node.arguments.items()})

    def _with_self(self, node: Node, value: str, results: Sequence[str]) -> Node:
        key = "self" if "self" in node.arguments else "input"
        arguments = self._reading(node).arguments | {key: Ref(value)}
        return replace(node, arguments=arguments, results=tuple(results))

    def _new(self, like: str) -> str:
        """A name for another value of the same shape and type."""
        self.count += 1
        name = f"{like}.after.{self.count}"
        self.graph.values[name] = self.graph.values[like]
        if like in self.graph.unknown:
            self.graph.unknown[name] = self.graph.unknown[like]
        return name

    def _view(self, node: Node, source: str) -> None:
        before = self._of(source)
        self.made.append(self._reading(node))
        for part, result in enumerate(node.results):
            steps = (*before.steps, _Step(node, part))
            self.views[result] = _View(before.base, steps, result, before.base.version)

    # --- writing ------------------------------------------------------------------------------

    def _write(self, place: int, node: Node, source: str) -> None:
        view, name = self._of(source), name_of(node.target)[:-1]
        self._check(place, node, view, name)
        functional = self._functional(node, name)
        written = here = self._new(source)
        names = self._along(view)
        self.made.append(self._with_self(functional, names[-1], [written]))
        for step, before in zip(reversed(view.steps), reversed(names[:-1]), strict=True):
            written = self._back(node, step, before, written)
        view.base.now, view.base.version = written, view.base.version + 1
        for result in node.results:
            self.views[result] = _View(view.base, view.steps, here, view.base.version)
        view.now, view.version = here, view.base.version

    def _functional(self, node: Node, name: str) -> Node:
        overload = node.target.split(".")[2]
        if name == "zero":
            arguments = {**node.arguments, "value": 0}
            return replace(node, target="aten.fill.Scalar", arguments=arguments)
        return replace(node, target=f"aten.{name}.{overload}")

    def _check(self, place: int, node: Node, view: _View, name: str) -> None:
        """Refuse what cannot be said without the write."""
        graph, base = self.graph, view.base
        if base.first in graph.inputs:
            raise node.error(
                "TW6106",
                f"{node.target} writes to {base.first}, an input of the model",
                "write to a copy: x = x.clone() first, or inplace=False",
            )
        if base.first in graph.parameters or name in RESHAPES or node.target.count(".") != 2:
            raise refused(node)
        mine = graph.values[node.get("self", node.get("input")).name].dtype
        for reference in node.references() if name in ARITHMETIC else ():
            info = graph.values[reference]
            if info.shape and info.dtype != mine and info.dtype.category >= mine.category:
                raise refused(node, " numbers of another type")
        held = {*graph.inputs, *graph.weights, *graph.literals}
        for other in self._either(base):
            if other.first in held or self._is_read(other, place):
                raise refused(node, " where strides decide who else sees it")

    def _either(self, base: _Base) -> Iterable[_Base]:
        found: list[_Base] = []
        waiting = list(base.either)
        while waiting:
            other = waiting.pop()
            if other is not base and other not in found:
                found.append(other)
                waiting += other.either
        return found

    def _is_read(self, base: _Base, place: int) -> bool:
        return any(
            view.base is base and self.last_read.get(name, -1) > place
            for name, view in self.views.items()
        )

    def _back(self, node: Node, step: _Step, before: str, written: str) -> str:
        """The value that a view was taken of, with the view as it was written."""
        undo = _UNDO.get(name_of(step.node.target))
        if undo is None:
            raise refused(node, f" through {step.node.target}")
        target, arguments = undo(self.graph, step, before, written)
        result = self._new(before)
        made = Node(target, result, arguments, (result,), step.node.layer, node.location)
        self.made.append(made)
        return result


# --- what undoes a view: (graph, step, value before, written view) -> a call ---------------------

Undo = Callable[[ExportedGraph, _Step, str, str], tuple[str, dict[str, Any]]]


def _same(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    return "aten.alias.default", {"self": Ref(written)}


def _shaped(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    return "aten.view.default", {"self": Ref(written), "size": list(graph.values[before].shape)}


def _turned(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    return step.node.target, {**step.node.arguments, "self": Ref(written)}


def _permuted(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    rank = len(graph.values[before].shape)
    order = [wrapped(d, rank) for d in step.node.get("dims")]
    return "aten.permute.default", {
        "self": Ref(written), "dims": [order.index(d) for d in range(rank)],
    }  # fmt: skip


def _sliced(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    arguments = {**step.node.arguments, "self": Ref(before), "src": Ref(written)}
    return "aten.slice_scatter.default", arguments


def _selected(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    arguments = {**step.node.arguments, "self": Ref(before), "src": Ref(written)}
    return "aten.select_scatter.default", arguments


def _narrowed(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    dim = step.node.get("dim")
    size = graph.values[before].shape[dim]
    start = step.node.get("start") % size if size else 0
    return _stretch(before, written, dim, start, step.node.get("length"))


def _part(
    graph: ExportedGraph, step: _Step, before: str, written: str
) -> tuple[str, dict[str, Any]]:
    """One of several parts, which lie one behind the other."""
    dim = step.node.get("dim", 0)
    if name_of(step.node.target) == "unbind":
        arguments = {"self": Ref(before), "src": Ref(written), "dim": dim, "index": step.part}
        return "aten.select_scatter.default", arguments
    sizes = [graph.values[result].shape[dim] for result in step.node.results]
    return _stretch(before, written, dim, sum(sizes[: step.part]), sizes[step.part])


def _stretch(
    before: str, written: str, dim: int, start: int, size: int
) -> tuple[str, dict[str, Any]]:
    arguments = {
        "self": Ref(before),
        "src": Ref(written),
        "dim": dim,
        "start": start,
        "end": start + size,
    }
    return "aten.slice_scatter.default", arguments


_UNDO: dict[str, Undo] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(SHAPED, _shaped),
    **dict.fromkeys(TURNED, _turned),
    **dict.fromkeys(CUT, _part),
    "permute": _permuted,
    "slice": _sliced,
    "select": _selected,
    "narrow": _narrowed,
}
