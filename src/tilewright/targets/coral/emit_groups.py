"""Loop nests of groups in plain C: elementwise, convolutions, pools, reductions, rows, movement."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.errors import Location
from tilewright.targets.coral.emit import Emitter, Writer, nest
from tilewright.targets.coral.expressions import index_text, literal
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import C_TYPES, Access, Node, Value, identity

LOWEST = {
    "f32": "(-__builtin_inff())",
    "i8": "-128",
    "ui8": "0",
    "i16": "-32768",
    "i32": "(-2147483647 - 1)",
}


def place_text(location: Location | None) -> str:
    return f" ({location})" if location else ""


def header(writer: Writer, group: Group, name: str) -> None:
    kinds = ", ".join(n.kind for n in group.nodes)
    writer.line(f"/* {kinds} -> {group.nodes[-1].output!r}{place_text(group.root.location)} */")
    writer.line(f"static __attribute__((noinline)) void {name}(void) {{")
    writer.depth += 1


def footer(writer: Writer) -> None:
    writer.depth -= 1
    writer.line("}")


def merged_loops(shape: tuple[int, ...], accesses: list[tuple[Value, Access]]) -> list[list[int]]:
    """Dimensions that every operand walks through contiguously become one loop."""
    runs: list[list[int]] = []
    for dim in range(len(shape)):
        if runs and all(_continues(runs[-1][-1], dim, v, a) for v, a in accesses):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs


def _continues(before: int, dim: int, value: Value, access: Access) -> bool:
    if before not in access and dim not in access:
        return True
    if before in access and dim in access:
        return access.index(dim) == access.index(before) + 1
    return False


def emit_elementwise(e: Emitter, group: Group, name: str) -> list[str]:
    writer = Writer()
    header(writer, group, name)
    shape = group.root.output.shape
    inner = group.members
    accesses = [
        (v, a)
        for n in group.nodes
        for v, a in zip(n.inputs, n.accesses, strict=True)
        if v not in inner and v.elements > 1
    ]
    if not shape:
        e.statements(writer, group.nodes, {}, [], group.stored)
        footer(writer)
        return writer.lines
    runs = merged_loops(shape, accesses)
    # The last dimension of a run that has a size carries its index; strides fit by themselves.
    loops = ["0"] * len(shape)
    turns = []
    for run in runs:
        size = prod(shape[d] for d in run)
        if size > 1:
            last = [d for d in run if shape[d] > 1][-1]
            loops[last] = f"i{last}"
            turns.append((f"i{last}", size))
    with nest(writer, turns):
        e.statements(writer, group.nodes, {}, loops, group.stored)
    footer(writer)
    return writer.lines


def finisher(
    e: Emitter, writer: Writer, group: Group, name: str
) -> Callable[[str, list[str]], str]:
    """A function for what follows a group's root at one index; the call with a value and an index."""
    root = group.root
    rank = len(root.output.shape)
    used = [k for k in range(rank) if root.output.shape[k] > 1]
    parameters = "".join(f", int i{k}" for k in used)
    writer.line(f"static inline void {name}_finish({C_TYPES[root.output.dtype]} r{parameters}) {{")
    writer.depth += 1
    loops = [f"i{k}" if k in used else "0" for k in range(rank)]
    e.statements(writer, group.nodes[1:], {root.output: "r"}, loops, group.stored)
    writer.depth -= 1
    writer.line("}")

    def call(value: str, index: list[str]) -> str:
        return f"{name}_finish({value}{''.join(', ' + index[k] for k in used)});"

    return call


def image_strides(node: Node) -> list[int]:
    """Element strides of n, y, x, c of a convolution's image, which may lie in another order."""
    stored = node.inputs[0].shape
    strides = [prod(stored[k + 1 :]) for k in range(4)]
    order = node.attributes.get("order", (0, 1, 2, 3))
    return [strides[p] for p in order]


def image_shape(node: Node) -> list[int]:
    stored = node.inputs[0].shape
    return [stored[p] for p in node.attributes.get("order", (0, 1, 2, 3))]


def emit_conv(e: Emitter, group: Group, name: str) -> list[str]:
    """A convolution in scalar C; four filters at a time where there are as many."""
    node = group.root
    writer = Writer()
    finish = finisher(e, writer, group, name)
    header(writer, group, name)
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    images, oh, ow, filters = node.output.shape
    _, height, width, _ = image_shape(node)
    kh, kw, depth, _ = w.shape
    groups = node.attributes["groups"]
    per_group = filters // groups
    sn, sy, sx, sc = image_strides(node)
    (top, left, _, _), strides = node.attributes["padding"], node.attributes["strides"]
    dilations = node.attributes["dilations"]
    kind = C_TYPES[node.output.dtype]
    element = C_TYPES[x.dtype]
    wide = 4 if per_group % 4 == 0 and per_group >= 4 else 1
    xn, wn = e.name(x), e.name(w)
    accumulators = [f"a{j}" for j in range(wide)]
    with nest(writer, [("n", images), ("oy", oh), ("ox", ow)]) as (n, oy, ox):
        step = f"f += {wide}" if wide > 1 else "f++"
        writer.line(f"for (int f = 0; f < {filters}; {step}) {{")
        writer.depth += 1
        zero = "0.0f" if kind == "float" else "0"
        writer.line(f"{kind} " + ", ".join(f"{a} = {zero}" for a in accumulators) + ";")
        opened = 0
        for axis, (size, o, s, d, before, limit) in enumerate(
            (
                (kh, oy, strides[0], dilations[0], top, height),
                (kw, ox, strides[1], dilations[1], left, width),
            )
        ):
            letter = "yx"[axis]
            out_size = (oh, ow)[axis]
            low = -before
            high = (out_size - 1) * s + (size - 1) * d - before
            terms = [
                t
                for t in (
                    f"{o} * {s}" if o != "0" and s != 1 else o,
                    f"k{letter} * {d}" if d != 1 else f"k{letter}",
                )
                if t != "0"
            ]
            if size > 1:
                writer.line(f"for (int k{letter} = 0; k{letter} < {size}; k{letter}++) {{")
                writer.depth += 1
                opened += 1
            else:
                terms = [t for t in terms if not t.startswith("k")]
            position = " + ".join(terms) or "0"
            writer.line(f"const int {letter} = {position}{f' - {before}' if before else ''};")
            if low < 0 or high >= limit:
                skip = "continue" if size > 1 else None
                if skip:
                    writer.line(
                        f"if ({letter} < 0 || {letter} >= {limit}) continue;  /* padding */"
                    )
                else:
                    writer.line(f"if ({letter} >= 0 && {letter} < {limit}) {{")
                    writer.depth += 1
                    opened += 1
        group_offset = (
            ""
            if groups == 1
            else (
                f" + f * {sc}"
                if per_group == 1 and depth == 1
                else f" + (f / {per_group}) * {depth * sc}"
            )
        )
        base = " + ".join(
            t for t in (f"{n} * {sn}" if n != "0" else "", f"y * {sy}", f"x * {sx}") if t
        )
        writer.line(f"const {element} *p = {xn} + {base}{group_offset};")
        tap = " + ".join(
            t
            for t in (
                f"ky * {kw * depth * filters}" if kh > 1 else "",
                f"kx * {depth * filters}" if kw > 1 else "",
                "f",
            )
            if t
        )
        writer.line(f"const {C_TYPES[w.dtype]} *q = {wn} + {tap};")
        if depth > 1:
            writer.line(f"for (int c = 0; c < {depth}; c++, q += {filters}) {{")
            writer.depth += 1
            opened += 1
            read = "p[c]" if sc == 1 else f"p[c * {sc}]"
        else:
            read = "p[0]"
        writer.line(f"const {kind} v = {read};")
        for j, a in enumerate(accumulators):
            writer.line(f"{a} += v * q[{j}];")
        for _ in range(opened):
            writer.depth -= 1
            writer.line("}")
        for j, a in enumerate(accumulators):
            at = "f" if j == 0 else f"f + {j}"
            value = a if bias is None else f"{a} + {e.name(bias)}[{at}]"
            writer.line(finish(value, [n, oy, ox, at]))
        writer.depth -= 1
        writer.line("}")
    footer(writer)
    return writer.lines


def emit_pool(e: Emitter, group: Group, name: str) -> list[str]:
    node = group.root
    e.need_math("max")
    writer = Writer()
    finish = finisher(e, writer, group, name)
    header(writer, group, name)
    x = node.inputs[0]
    images, oh, ow, channels = node.output.shape
    _, height, width, _ = x.shape
    kh, kw = node.attributes["kernel"]
    (top, left, _, _), strides = node.attributes["padding"], node.attributes["strides"]
    dilations, how, dtype = (
        node.attributes["dilations"],
        node.attributes["reduce"],
        node.output.dtype,
    )
    kind = C_TYPES[dtype]
    with nest(writer, [("n", images), ("oy", oh), ("ox", ow), ("c", channels)]) as index:
        start = LOWEST[dtype] if how == "max" else ("0.0f" if dtype == "f32" else "0")
        writer.line(f"{kind} r = {start};")
        writer.line("int count = 0;") if how == "avg" else None
        with nest(writer, [("ky", kh), ("kx", kw)]) as (ky, kx):
            writer.line(f"const int y = {index[1]} * {strides[0]} + {ky} * {dilations[0]} - {top};")
            writer.line(
                f"const int x = {index[2]} * {strides[1]} + {kx} * {dilations[1]} - {left};"
            )
            writer.line(
                f"if (y >= 0 && y < {height} && x >= 0 && x < {width}) {{  /* inside of the image */"
            )
            writer.depth += 1
            writer.line(
                f"const {kind} v = {e.name(x)}[(({index[0]} * {height} + y) * {width} + x) * {channels} + {index[3]}];"
            )
            if how == "max":
                writer.line("r = tw_max(r, v);" if dtype == "f32" else "r = v > r ? v : r;")
            else:
                writer.line("r += v;")
            writer.line("count++;") if how == "avg" else None
            writer.depth -= 1
            writer.line("}")
        value = "r"
        if how == "avg":
            count = (
                literal(float(kh * kw), "f32")
                if node.attributes["count_include_pad"]
                else "(float)count"
            )
            writer.line("(void)count;")
            value = f"r / {count}"
        writer.line(finish(value, index))
    footer(writer)
    return writer.lines


def emit_reduce(e: Emitter, group: Group, name: str) -> list[str]:
    node = group.root
    e.need_math("max")
    writer = Writer()
    finish = finisher(e, writer, group, name)
    header(writer, group, name)
    x, axes, how = node.inputs[0], node.attributes["axes"], node.attributes["reduce"]
    kept = [k for k in range(len(x.shape)) if k not in axes]
    dtype = node.output.dtype
    names = {k: f"i{j}" for j, k in enumerate(kept)} | {k: f"j{k}" for k in axes}
    loops = [names[k] if x.shape[k] > 1 else "0" for k in range(len(x.shape))]
    with nest(writer, [(names[k], x.shape[k]) for k in kept]):
        start = {"sum": "0", "mean": "0", "prod": "1"}.get(how, "0")
        if dtype == "f32":
            start += ".0f"
        if how in ("max", "min"):
            first = [loops[k] if k in kept else "0" for k in range(len(x.shape))]
            start = f"{e.name(x)}[{index_text(x, identity(len(x.shape)), first)}]"
        writer.line(f"{C_TYPES[dtype]} r = {start};")
        with nest(writer, [(names[k], x.shape[k]) for k in axes]):
            writer.line(
                f"const {C_TYPES[dtype]} v = {e.name(x)}[{index_text(x, identity(len(x.shape)), loops)}];"
            )
            if how in ("max", "min"):
                sign = ">" if how == "max" else "<"
                writer.line(
                    f"r = tw_{how}(r, v);" if dtype == "f32" else f"r = v {sign} r ? v : r;"
                )
            else:
                operation = "*" if how == "prod" else "+"
                writer.line(
                    f"r = {'' if dtype == 'f32' else f'({C_TYPES[dtype]})'}(r {operation} v);"
                )
        count = prod(x.shape[k] for k in axes)
        writer.line(
            finish(
                f"r / {literal(float(count), 'f32')}" if how == "mean" else "r",
                [loops[k] for k in kept],
            )
        )
    footer(writer)
    return writer.lines


def emit_batch_matmul(e: Emitter, group: Group, name: str) -> list[str]:
    node = group.root
    writer = Writer()
    finish = finisher(e, writer, group, name)
    header(writer, group, name)
    a, b = node.inputs
    batch, m, n = node.output.shape
    k = a.shape[2]
    kind = C_TYPES[node.output.dtype]
    with nest(writer, [("i0", batch), ("i1", m), ("i2", n)]) as index:
        writer.line(f"{kind} r = {'0.0f' if kind == 'float' else '0'};")
        writer.line(f"for (int k = 0; k < {k}; k++)")
        left = f"{e.name(a)}[({index[0]} * {m} + {index[1]}) * {k} + k]"
        right = f"{e.name(b)}[({index[0]} * {k} + k) * {n} + {index[2]}]"
        writer.line(f"  r += ({kind}){left} * ({kind}){right};")
        writer.line(finish("r", index))
    footer(writer)
    return writer.lines
