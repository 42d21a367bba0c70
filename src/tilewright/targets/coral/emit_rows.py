"""Loop nests along rows in plain C: softmax, norms, running sums, searching, sorting."""

from __future__ import annotations

from tilewright.targets.coral.emit import Emitter, Writer, nest
from tilewright.targets.coral.emit_groups import footer, header
from tilewright.targets.coral.expressions import PARTS, index_text, literal
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import C_TYPES, identity


def emit_rows(e: Emitter, group: Group, name: str) -> list[str]:
    """softmax, layer_norm, rms_norm along the last dimension."""
    node = group.root
    e.need_math(*PARTS.get(node.kind, ()))
    writer = Writer()
    header(writer, group, name)
    x, y = e.name(node.inputs[0]), e.name(node.output)
    length = node.output.shape[-1]
    rows = node.output.elements // length
    with nest(writer, [("row", rows)]):
        row = f"row * {length}" if rows > 1 else "0"
        writer.line(f"const float *p = {x} + {row};")
        writer.line(f"float *q = {y} + {row};")
        each = f"for (int i = 0; i < {length}; i++)"
        if node.kind == "softmax":
            writer.line("float top = p[0], sum = 0.0f;")
            writer.line(f"{each} top = tw_max(top, p[i]);")
            if node.attributes.get("masked"):
                writer.line(
                    f"if (top == -__builtin_inff()) {{ {each} q[i] = 0.0f;"
                    f" {'continue' if rows > 1 else 'return'}; }}  /* nothing to see */"
                )
            writer.line(f"{each} {{ const float v = tw_exp(p[i] - top); q[i] = v; sum += v; }}")
            writer.line(f"{each} q[i] = q[i] / sum;")
        else:
            count = literal(float(length), "f32")
            writer.line("float sum = 0.0f, squares = 0.0f;")
            if node.kind == "layer_norm":
                writer.line(f"{each} sum += p[i];")
                writer.line(f"const float mean = sum / {count};")
                writer.line(
                    f"{each} {{ const float v = p[i] - mean; q[i] = v; squares += v * v; }}"
                )
            else:
                writer.line(f"{each} {{ const float v = p[i]; q[i] = v; squares += v * v; }}")
                writer.line("(void)sum;")
            epsilon = literal(node.attributes["epsilon"], "f32")
            writer.line(f"const float root = __builtin_sqrtf(squares / {count} + {epsilon});")
            value = "q[i] / root"
            for role, operand in zip(node.attributes["roles"], node.inputs[1:], strict=True):
                value = f"({value}) {'*' if role == 'weight' else '+'} {e.name(operand)}[i]"
            writer.line(f"{each} q[i] = {value};")
    footer(writer)
    return writer.lines


def less(a: str, b: str, dtype: str) -> str:
    """a comes before b in increasing order; NaN comes last."""
    return f"({a} < {b} || ({b} != {b} && {a} == {a}))" if dtype == "f32" else f"({a} < {b})"


def emit_position(e: Emitter, group: Group, name: str) -> list[str]:
    """argmax, argmin: the first of the extremes, NaN above all."""
    node = group.root
    writer = Writer()
    header(writer, group, name)
    x, y, axis = node.inputs[0], node.output, node.attributes["axis"]
    rank = len(x.shape)
    names = [f"i{k}" if n > 1 else "0" for k, n in enumerate(x.shape)]
    with nest(writer, [(f"i{k}", n) for k, n in enumerate(x.shape) if k != axis]):
        first = index_text(
            x, identity(rank), ["0" if k == axis else n for k, n in enumerate(names)]
        )
        writer.line(f"{C_TYPES[x.dtype]} best = {e.name(x)}[{first}];")
        writer.line("int at = 0;")
        with nest(writer, [(f"i{axis}", x.shape[axis])]):
            writer.line(
                f"const {C_TYPES[x.dtype]} v = {e.name(x)}[{index_text(x, identity(rank), names)}];"
            )
            better = "v > best" if node.kind == "argmax" else "v < best"
            if x.dtype == "f32":
                better = f"({better} && best == best) || (v != v && best == best)"
            writer.line(f"if ({better}) {{ best = v; at = {names[axis]}; }}")
        kept = [n for k, n in enumerate(names) if k != axis]
        place = index_text(y, identity(len(y.shape)), kept)
        writer.line(f"{e.name(y)}[{place}] = at;")
    footer(writer)
    return writer.lines


def emit_ordered(e: Emitter, group: Group, name: str) -> list[str]:
    """cumsum, sort, argsort along the last dimension; sorting is by insertion and stable."""
    node = group.root
    writer = Writer()
    header(writer, group, name)
    x, y = node.inputs[0], node.output
    length = y.shape[-1]
    kind, made = C_TYPES[x.dtype], C_TYPES[y.dtype]
    with nest(writer, [("row", y.elements // length)]):
        row = f"row * {length}" if y.elements > length else "0"
        writer.line(f"const {kind} *p = {e.name(x)} + {row};")
        writer.line(f"{made} *q = {e.name(y)} + {row};")
        each = f"for (int i = 0; i < {length}; i++)"
        if node.kind == "cumsum":
            writer.line(f"{made} sum = 0;")
            writer.line(f"{each} {{ sum = ({made})(sum + p[i]); q[i] = sum; }}")
        else:
            index, down = node.kind == "argsort", node.attributes["descending"]
            with writer.block(each):
                writer.line("int j = i;")
                before = "p[q[j - 1]]" if index else "q[j - 1]"
                order = (
                    less(before, "p[i]", x.dtype)
                    if index and down
                    else less("p[i]", before, x.dtype)
                )
                writer.line(f"while (j > 0 && {order}) {{ q[j] = q[j - 1]; j--; }}")
                writer.line(f"q[j] = {'i' if index else 'p[i]'};")
            if down and not index:
                with writer.block(f"for (int i = 0, j = {length - 1}; i < j; i++, j--)"):
                    writer.line(f"const {made} v = q[i];")
                    writer.line("q[i] = q[j];")
                    writer.line("q[j] = v;")
    footer(writer)
    return writer.lines
