"""Rewrites of a program before code is made of it: less movement, fewer passes over memory.

before: transpose, add, transpose around convolutions; scale and shift after them; casts before sums
after:  NHWC throughout; scale and shift in the weights; sums that read the narrow type

`optimise` runs all of them until nothing changes.
"""

from __future__ import annotations

import numpy as np

from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.program import Node, Program, Shape, Value, identity

MOST_ROUNDS = 200


def optimise(program: Program, fold_scales: bool = True) -> Program:
    """The same function with less work; the given program is not kept."""
    for _ in range(MOST_ROUNDS):
        changed = _Rewriter(program, fold_scales).run()
        remove_dead(program)
        if not changed:
            break
    return program


def fold_constants(program: Program) -> Program:
    """What depends on no input is computed now, by the reference."""
    known: dict[Value, Value] = {}
    kept: list[Node] = []
    for node in program.nodes:
        node.inputs = [known.get(v, v) for v in node.inputs]
        if not node.inputs or any(v.data is None for v in node.inputs):
            kept.append(node)
            continue
        (data,) = evaluate(Program([], [node.output], [node], [], []), [])
        output = node.output
        known[output] = Value(
            output.name, output.shape, output.dtype, data, output.scale, output.zero
        )
    program.nodes[:] = kept
    program.outputs[:] = [known.get(v, v) for v in program.outputs]
    return program


def read_transposed(program: Program) -> Program:
    """Scalar convolutions read their image in the order it lies in: no copy in between."""
    definitions = program.definitions()
    for node in program.nodes:
        mover = definitions.get(node.inputs[0]) if node.kind == "conv" else None
        if mover is not None and mover.kind == "transpose" and "order" not in node.attributes:
            node.attributes = {**node.attributes, "order": mover.attributes["permutation"]}
            node.inputs = [mover.inputs[0], *node.inputs[1:]]
    remove_dead(program)
    return program


def remove_dead(program: Program) -> None:
    """Nodes nobody reads."""
    needed = set(map(id, program.outputs))
    kept: list[Node] = []
    for node in reversed(program.nodes):
        if id(node.output) in needed:
            kept.append(node)
            needed |= set(map(id, node.inputs))
    program.nodes[:] = reversed(kept)


def squeezed(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


class _Rewriter:
    """One sweep over the nodes."""

    def __init__(self, program: Program, fold_scales: bool) -> None:
        self.program = program
        self.fold_scales = fold_scales
        self.made: list[Node] = []
        self.replaced: dict[Value, Value] = {}
        self.definitions: dict[Value, Node] = {}
        self.uses = {v: len(users) for v, users in program.users().items()}
        for value in program.outputs:
            self.uses[value] = self.uses.get(value, 0) + 1
        self.changed = False
        self.count = 0

    def run(self) -> bool:
        for node in self.program.nodes:
            node.inputs = [self.replaced.get(v, v) for v in node.inputs]
            self.visit(node)
        self.program.nodes[:] = self.made
        self.program.outputs[:] = [self.replaced.get(v, v) for v in self.program.outputs]
        return self.changed

    def keep(self, node: Node) -> None:
        self.made.append(node)
        self.definitions[node.output] = node

    def new(
        self, node: Node, kind: str, inputs: list[Value], shape: Shape, **attributes: object
    ) -> Value:
        self.count += 1
        name = f"{node.output.name}_{kind}{self.count}"
        output = Value(name, shape, inputs[0].dtype)
        self.keep(Node(kind, inputs, output, dict(attributes), [], node.location))
        self.uses[output] = 1
        return output

    def replace(self, old: Value, new: Value) -> None:
        self.replaced[old] = new
        self.uses[new] = self.uses.get(new, 0) + self.uses.get(old, 0)
        self.changed = True

    def visit(self, node: Node) -> None:
        rules = (
            self.trivial,
            self.compose,
            self.sink,
            self.reduce_through,
            self.rows_through,
            self.pool_along_time,
            self.whole_pool,
            self.fold,
            self.narrow_sum,
        )
        if not any(rule(node) for rule in rules):
            self.keep(node)

    # Rules: True when the node was dealt with

    def trivial(self, node: Node) -> bool:
        """Reshapes and transposes that do nothing; a transpose of unit dimensions is a reshape."""
        x = node.inputs[0] if node.inputs else None
        if node.kind == "reshape" and x is not None and x.shape == node.output.shape:
            self.replace(node.output, x)
            return True
        if node.kind == "transpose" and x is not None:
            order = node.attributes["permutation"]
            if tuple(order) == identity(len(order)):
                self.replace(node.output, x)
                return True
            moved = [p for p in order if x.shape[p] != 1]
            if moved == sorted(moved):
                node.kind, node.attributes = "reshape", {}
                self.changed = True
        return False

    def compose(self, node: Node) -> bool:
        """Two reshapes or two transposes are one."""
        if node.kind not in ("reshape", "transpose"):
            return False
        inner = self.definitions.get(node.inputs[0])
        if inner is not None and inner.kind == "reshape" and node.kind == "transpose":
            return self.there_and_back(node, inner)
        if inner is None or inner.kind != node.kind:
            return False
        if node.kind == "transpose":
            first, second = inner.attributes["permutation"], node.attributes["permutation"]
            node.attributes = {"permutation": tuple(first[p] for p in second)}
        node.inputs = [inner.inputs[0]]
        self.changed = True
        self.visit(node)
        return True

    def there_and_back(self, node: Node, inner: Node) -> bool:
        """transpose(reshape(transpose(x))) that only moves dimensions of 1 is a reshape of x."""
        before = self.definitions.get(inner.inputs[0])
        if before is None or before.kind != "transpose":
            return False
        x, between, shape = before.inputs[0], inner.inputs[0], inner.output.shape
        if squeezed(between.shape) != squeezed(shape):
            return False
        moved = [p for p in before.attributes["permutation"] if x.shape[p] != 1]
        places = [k for k, n in enumerate(shape) if n != 1]
        order = [p for p in node.attributes["permutation"] if shape[p] != 1]
        found = [moved[places.index(p)] for p in order]
        if found != sorted(found):
            return False
        self.keep(Node("reshape", [x], node.output, {}, [], node.location))
        self.changed = True
        return True

    def sink(self, node: Node) -> bool:
        """elementwise(transpose(x)) -> transpose(elementwise(x)); the same for unit reshapes.

        Any reshape sinks where all other operands are reshaped alike or have one element.
        """
        if not node.elementwise or len(node.output.shape) < 2:
            return False
        shape = node.output.shape
        full = identity(len(shape))
        movers = [
            self.definitions.get(v)
            for v, access in zip(node.inputs, node.accesses, strict=True)
            if access == full and v.data is None
        ]
        known = [m for m in movers if m is not None and m.kind in ("transpose", "reshape")]
        if not known:
            return False
        # Of several shapes the one with the most dimensions, which is that of images.
        first = max(known, key=lambda m: len(m.inputs[0].shape))
        if first.inputs[0].data is not None:
            return False
        source = first.inputs[0]
        if first.kind == "reshape":
            if not squeezed(shape):
                return False
            # Others are reshaped to dimensions that are more than before, so that this ends.
            alike = self.reshaped_alike(node, source.shape)
            if squeezed(source.shape) == squeezed(shape) and (
                alike or len(source.shape) > len(shape)
            ):
                where = _matching(shape, source.shape)
            elif alike:
                where = dict.fromkeys(range(len(shape)))
            else:
                return False
        else:
            order = first.attributes["permutation"]
            if not all(
                m is not None and m.kind == "transpose" and m.attributes["permutation"] == order
                for m in movers
            ):
                return False
            where = {d: order[d] for d in range(len(shape))}
        inputs, accesses = [], []
        for value, access in zip(node.inputs, node.accesses, strict=True):
            mover = self.definitions.get(value)
            if (
                access == full
                and value.data is None
                and mover is not None
                and mover.kind == first.kind
                and mover.inputs[0].shape == source.shape
            ):
                inputs.append(mover.inputs[0])
                accesses.append(identity(len(source.shape)))
            elif access == full and value.data is None:
                inputs.append(self.new(node, "reshape", [value], source.shape))
                accesses.append(identity(len(source.shape)))
            else:
                inputs.append(value)
                accesses.append(tuple(None if d is None else where.get(d) for d in access))
        moved = Value(f"{node.output.name}_m", source.shape, node.output.dtype)
        moved.scale, moved.zero = node.output.scale, node.output.zero
        inner = Node(node.kind, inputs, moved, node.attributes, accesses, node.location)
        self.keep(inner)
        self.uses[moved] = 1
        self.keep(Node(first.kind, [moved], node.output, dict(first.attributes), [], node.location))
        self.changed = True
        return True

    def reshaped_alike(self, node: Node, shape: Shape) -> bool:
        """Whether every operand of more than one element is a reshape of that shape."""
        full = identity(len(node.output.shape))
        for value, access in zip(node.inputs, node.accesses, strict=True):
            mover = self.definitions.get(value)
            if value.elements == 1:
                continue
            if mover is None or mover.kind != "reshape" or access != full:
                return False
            if mover.inputs[0].shape != shape:
                return False
        return True

    def reduce_through(self, node: Node) -> bool:
        """reduce(transpose(x)) reads x, when what is left keeps its order; so do unit reshapes."""
        if node.kind not in ("reduce", "q_mean"):
            return False
        mover = self.definitions.get(node.inputs[0])
        if mover is not None and mover.kind == "reshape":
            return self.reduce_units(node, mover.inputs[0])
        if mover is None or mover.kind != "transpose":
            return False
        order, axes = mover.attributes["permutation"], node.attributes["axes"]
        kept = [order[k] for k in range(len(order)) if k not in axes]
        gone = [order[k] for k in axes]
        if kept != sorted(kept) or gone != sorted(gone):
            return False
        node.inputs = [mover.inputs[0], *node.inputs[1:]]
        node.attributes = {**node.attributes, "axes": tuple(gone)}
        self.changed = True
        return False

    def reduce_units(self, node: Node, source: Value) -> bool:
        """reduce(reshape(x)) of an image that only lost or gained dimensions of 1 reads x."""
        x = node.inputs[0]
        if (
            len(source.shape) != 4
            or len(x.shape) == 4
            or squeezed(source.shape) != squeezed(x.shape)
        ):
            return False
        where = _matching(x.shape, source.shape)
        gone = {where[k] for k in node.attributes["axes"]} - {None}
        axes = {k for k, n in enumerate(source.shape) if k in gone or (n == 1 and k in (1, 2))}
        kept = tuple(n for k, n in enumerate(source.shape) if k not in axes)
        if not gone or squeezed(kept) != squeezed(node.output.shape):
            return False
        made = Value(f"{node.output.name}_r", kept, node.output.dtype)
        made.scale, made.zero = node.output.scale, node.output.zero
        attributes = {**node.attributes, "axes": tuple(sorted(axes))}
        self.keep(Node(node.kind, [source, *node.inputs[1:]], made, attributes, [], node.location))
        self.uses[made] = 1
        self.keep(Node("reshape", [made], node.output, {}, [], node.location))
        self.changed = True
        return True

    def rows_through(self, node: Node) -> bool:
        """A function of the last dimension reads what a reshape of the others was made of."""
        if node.kind not in ("softmax", "layer_norm", "rms_norm"):
            return False
        mover = self.definitions.get(node.inputs[0])
        if mover is None or mover.kind != "reshape" or node.inputs[0] in node.inputs[1:]:
            return False
        source = mover.inputs[0]
        if source.data is not None or source.shape[-1:] != node.output.shape[-1:]:
            return False
        made = Value(f"{node.output.name}_r", source.shape, node.output.dtype)
        inputs = [source, *node.inputs[1:]]
        self.keep(Node(node.kind, inputs, made, node.attributes, [], node.location))
        self.uses[made] = 1
        self.keep(Node("reshape", [made], node.output, {}, [], node.location))
        self.changed = True
        return True

    def pool_along_time(self, node: Node) -> bool:
        """A pool down [n, time, channels, 1] reads the image [n, 1, time, channels] that it was."""
        mover = self.definitions.get(node.inputs[0]) if node.kind == "pool" else None
        if mover is None or mover.kind != "reshape":
            return False
        source, at, out = mover.inputs[0], node.attributes, node.output
        n, time, channels, one = node.inputs[0].shape
        if source.shape != (n, 1, time, channels) or one != 1 or channels == 1:
            return False
        top, left, bottom, right = at["padding"]
        if at["kernel"][1] != 1 or at["strides"][1] != 1 or left or right:
            return False
        made = Value(f"{out.name}_r", (n, 1, out.shape[1], channels), out.dtype)
        made.scale, made.zero = out.scale, out.zero
        attributes = {**at, "padding": (0, top, 0, bottom)}
        for name in ("kernel", "strides", "dilations"):
            attributes[name] = (1, at[name][0])
        self.keep(Node("pool", [source], made, attributes, [], node.location))
        self.uses[made] = 1
        self.keep(Node("reshape", [made], out, {}, [], node.location))
        self.changed = True
        return True

    def whole_pool(self, node: Node) -> bool:
        """A pool whose only window is the image is a reduction, which needs no whole image."""
        if node.kind != "pool" or any(node.attributes["padding"]):
            return False
        x, how = node.inputs[0], node.attributes["reduce"]
        if tuple(node.attributes["kernel"]) != x.shape[1:3] or node.output.shape[1:3] != (1, 1):
            return False
        if x.dtype != node.output.dtype or any(n != 1 for n in node.attributes["dilations"]):
            return False
        made = Value(f"{node.output.name}_r", (x.shape[0], x.shape[3]), node.output.dtype)
        made.scale, made.zero = node.output.scale, node.output.zero
        attributes = {"reduce": "mean" if how == "avg" else how, "axes": (1, 2)}
        self.keep(Node("reduce", [x], made, attributes, [], node.location))
        self.uses[made] = 1
        self.keep(Node("reshape", [made], node.output, {}, [], node.location))
        self.changed = True
        return True

    def fold(self, node: Node) -> bool:
        """A constant scale or shift per channel after a convolution goes into its weights."""
        if not self.fold_scales or node.kind not in ("add", "sub", "mul", "div"):
            return False
        left, right = node.inputs
        swap = left.data is not None
        if swap and node.kind in ("sub", "div"):
            return False
        x, constant = (right, left) if swap else (left, right)
        access = node.accesses[0 if swap else 1]
        x_access = node.accesses[1 if swap else 0]
        conv = self.definitions.get(x)
        rank = len(node.output.shape)
        if conv is None or conv.kind != "conv" or constant.data is None or x.dtype != "f32":
            return False
        if self.uses.get(x, 0) != 1 or x_access != identity(rank) or conv.inputs[1].data is None:
            return False
        if any(d is not None and d != rank - 1 for d in access) and constant.elements > 1:
            return False
        channels = node.output.shape[-1]
        factor = np.broadcast_to(constant.data.astype(np.float64).reshape(-1), (channels,))
        weights = conv.inputs[1].data.astype(np.float64)
        bias = np.zeros(channels)
        if len(conv.inputs) > 2:
            if conv.inputs[2].data is None:
                return False
            bias = conv.inputs[2].data.astype(np.float64)
        if node.kind in ("mul", "div"):
            scale = factor if node.kind == "mul" else 1 / factor
            weights, bias = weights * scale, bias * scale
        else:
            bias = bias + (factor if node.kind == "add" else -factor)
        with np.errstate(over="ignore"):
            w, b = weights.astype(np.float32), bias.astype(np.float32)
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            return False
        if node.kind in ("mul", "div") or conv.inputs[1].data is not w:
            made_w = Value(f"{conv.inputs[1].name}_f", conv.inputs[1].shape, "f32", w)
            made_b = Value(f"{conv.output.name}_bias", (channels,), "f32", b)
            conv.inputs = [conv.inputs[0], made_w, made_b]
        self.replace(node.output, x)
        self.uses[x] = self.uses.get(node.output, 1)
        return True

    def narrow_sum(self, node: Node) -> bool:
        """sum(cast(x) to i32) reads the narrow type."""
        if node.kind not in ("pool", "reduce") or node.attributes["reduce"] != "sum":
            return False
        inner = self.definitions.get(node.inputs[0])
        if inner is None or inner.kind != "cast" or node.output.dtype != "i32":
            return False
        x = inner.inputs[0]
        if x.dtype not in ("i8", "ui8", "i16") or inner.accesses != [identity(len(x.shape))]:
            return False
        node.inputs = [x]
        self.changed = True
        return False


def _matching(shape: Shape, source: Shape) -> dict[int, int | None]:
    """Where each dimension of `shape` is in `source`, a shape equal but for dimensions of 1."""
    where: dict[int, int | None] = {}
    places = [k for k, n in enumerate(source) if n != 1]
    for k, n in enumerate(shape):
        where[k] = None if n == 1 else places.pop(0)
    return where
