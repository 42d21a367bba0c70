"""Copies between index spaces in plain C: transpose, slices, pad, concat, gather, scatter."""

from __future__ import annotations

from math import prod

from tilewright.targets.coral.emit import Emitter, Writer, nest
from tilewright.targets.coral.emit_groups import footer, header
from tilewright.targets.coral.expressions import index_text, literal
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import C_TYPES, Value, identity


def emit_movement(e: Emitter, group: Group, name: str) -> list[str]:
    """transpose, slice, pad, insert, concat, gather: copies between index spaces."""
    node = group.root
    writer = Writer()
    header(writer, group, name)
    y = node.output
    rank = len(y.shape)

    def copy(shape: tuple[int, ...], to: list[str], source: Value, at: list[str]) -> None:
        with nest(writer, [(f"i{k}", n) for k, n in enumerate(shape)]):
            left = index_text(y, identity(rank), [f"({t})" if " " in t else t for t in to])
            right = index_text(
                source, identity(len(source.shape)), [f"({t})" if " " in t else t for t in at]
            )
            writer.line(f"{e.name(y)}[{left}] = {e.name(source)}[{right}];")

    def variables(shape: tuple[int, ...]) -> list[str]:
        return [f"i{k}" if n > 1 else "0" for k, n in enumerate(shape)]

    def moved(names: list[str], offsets: tuple[int, ...], strides: tuple[int, ...]) -> list[str]:
        return [
            str(o) if n == "0" else f"{n} * {s} + {o}"
            for n, o, s in zip(names, offsets, strides, strict=True)
        ]

    x = node.inputs[0]
    if node.kind == "transpose":
        order = node.attributes["permutation"]
        names = variables(y.shape)
        copy(y.shape, names, x, [names[order.index(k)] for k in range(rank)])
    elif node.kind == "slice":
        names = variables(y.shape)
        copy(
            y.shape, names, x, moved(names, node.attributes["offsets"], node.attributes["strides"])
        )
    elif node.kind == "pad":
        writer.line(
            f"for (int i = 0; i < {y.elements}; i++) {e.name(y)}[i] = {literal(node.attributes['value'], y.dtype)};"
        )
        names = variables(x.shape)
        copy(x.shape, moved(names, node.attributes["low"], (1,) * rank), x, names)
    elif node.kind == "insert":
        part = node.inputs[1]
        writer.line(f"for (int i = 0; i < {y.elements}; i++) {e.name(y)}[i] = {e.name(x)}[i];")
        names = variables(part.shape)
        copy(
            part.shape,
            moved(names, node.attributes["offsets"], node.attributes["strides"]),
            part,
            names,
        )
    elif node.kind == "concat":
        start, axis = 0, node.attributes["axis"]
        for part in node.inputs:
            names = variables(part.shape)
            offsets = tuple(start if k == axis else 0 for k in range(rank))
            copy(part.shape, moved(names, offsets, (1,) * rank), part, names)
            start += part.shape[axis]
    else:  # gather: an index outside is clamped, as XLA does
        indices, axis = node.inputs[1], node.attributes["axis"]
        outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        size = x.shape[axis]
        with nest(writer, [("i", outer), ("j", indices.elements), ("k", inner)]) as (i, j, k):
            writer.line(f"{C_TYPES[indices.dtype]} at = {e.name(indices)}[{j}];")
            writer.line(f"at = at < 0 ? 0 : at >= {size} ? {size - 1} : at;")
            writer.line(
                f"{e.name(y)}[({i} * {indices.elements} + {j}) * {inner} + {k}] = {e.name(x)}[({i} * {size} + (int)at) * {inner} + {k}];"
            )
    footer(writer)
    return writer.lines


def emit_scatter(e: Emitter, group: Group, name: str) -> list[str]:
    """Rows replaced or combined in order; an index outside is left out, as XLA does."""
    node = group.root
    e.need_math("max")
    writer = Writer()
    header(writer, group, name)
    (x, indices, updates), y, how = node.inputs, node.output, node.attributes["reduce"]
    size, inner = x.shape[0], prod(x.shape[1:])
    kind = C_TYPES[y.dtype]
    writer.line(f"for (int i = 0; i < {y.elements}; i++) {e.name(y)}[i] = {e.name(x)}[i];")
    with nest(writer, [("j", indices.elements)]) as (j,):
        writer.line(f"const {C_TYPES[indices.dtype]} at = {e.name(indices)}[{j}];")
        with (
            writer.block(f"if (at >= 0 && at < {size})"),
            writer.block(f"for (int k = 0; k < {inner}; k++)"),
        ):
            writer.line(f"const {kind} v = {e.name(updates)}[{j} * {inner} + k];")
            writer.line(f"{kind} *const r = {e.name(y)} + (int)at * {inner} + k;")
            if how in ("max", "min"):
                sign = ">" if how == "max" else "<"
                plain = f"v {sign} *r ? v : *r"
                writer.line(f"*r = {f'tw_{how}(*r, v)' if y.dtype == 'f32' else plain};")
            elif how == "replace":
                writer.line("*r = v;")
            else:
                writer.line(f"*r = ({kind})(*r {'+' if how == 'sum' else '*'} v);")
    footer(writer)
    return writer.lines
