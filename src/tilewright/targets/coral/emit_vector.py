"""Int8 loop nests: vector kernels where the cost model prefers them, scalar C elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.targets.coral.emit import Emitter, Writer, nest
from tilewright.targets.coral.emit_groups import finisher, footer, header, image_shape
from tilewright.targets.coral.expressions import index_text, initialiser
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import Node, identity

Emit = Callable[[Emitter, Group, str], list[str]]
TILE_ROWS, TILE_COLUMNS = 4, 16


# What kernels cost, in cycles of the model: an inner step and what surrounds it.


def vector_cost(rows: int, k: int, n: int) -> float:
    """Tiles of four rows and sixteen columns; each step of k costs 2 cycles per row and a load."""
    tiles = -(-rows // TILE_ROWS) * -(-n // TILE_COLUMNS)
    return tiles * (k * 10.5 + 240)


def scalar_cost(rows: int, k: int, n: int) -> float:
    """Loads, multiply and add of one product at a time, four columns together where possible."""
    per_product = 6.0 if n % 4 == 0 else 11.0
    return rows * n * (k * per_product + 25)


def is_depthwise(node: Node) -> bool:
    return node.attributes["groups"] == node.output.shape[-1] and node.inputs[1].shape[2] == 1


def is_rows(node: Node) -> bool:
    """A product of rows: every output pixel reads the pixel at its own place."""
    kh, kw = node.inputs[1].shape[:2]
    return (
        (kh, kw) == (1, 1)
        and tuple(node.attributes["strides"]) == (1, 1)
        and not any(node.attributes["padding"])
    )


def choose_emitter(e: Emitter, group: Group, index: int, vector: bool) -> Emit | None:
    """The emitter of a group that is not plain C; asks for scratch memory."""
    node = group.root
    vector = vector and e.machine.vector
    if node.kind == "q_table":
        return emit_table
    if node.kind == "q_mean":
        return emit_mean
    if node.kind == "q_add":
        return emit_add_vector if vector and node.output.elements >= 8 else emit_add
    if node.kind == "q_conv":
        if not vector:
            return emit_q_conv
        if is_depthwise(node):
            if node.output.shape[-1] < 4:
                return emit_q_conv
            _pad_row(e, node, index)
            e.need_scratch("taps", 4 * node.inputs[1].shape[0] * node.inputs[1].shape[1], index)
            return lambda e, g, n: emit_depthwise(e, g, n, index)
        if node.attributes["groups"] == 1 and _prefers_vector(node):
            _patches(e, node, index)
            return lambda e, g, n: emit_gemm(e, g, n, index)
        return emit_q_conv
    if (
        (
            node.kind == "conv"
            and [v.dtype for v in (*node.inputs[:2], node.output)] == ["i8", "i8", "i32"]
            and vector
            and node.attributes["groups"] == 1
        )
        and _prefers_vector(node)
        and "order" not in node.attributes
    ):
        _patches(e, node, index)
        if not _plain_sum(group):
            e.need_scratch("tile", 4 * TILE_ROWS * TILE_COLUMNS, index)
        return lambda e, g, n: emit_gemm_sum(e, g, n, index)
    floats = (
        node.kind == "conv" and node.output.dtype == "f32" and vector and e.machine.vector_float
    )
    if floats and node.attributes["groups"] == 1 and node.output.shape[-1] >= 4:
        if "order" not in node.attributes:
            e.need_scratch("row", 4 * node.output.shape[-1], index)
            return lambda e, g, n: emit_conv_f32(e, g, n, index)
        return None
    return None


def _prefers_vector(node: Node) -> bool:
    kh, kw, depth, n = node.inputs[1].shape
    rows = node.output.elements // n
    return vector_cost(rows, kh * kw * depth, n) < scalar_cost(rows, kh * kw * depth, n)


def _pixel(p: int, pixels: int) -> str:
    """The p-th pixel of a tile; past the last one the last is computed again."""
    if p == 0:
        return "i"
    return (
        f"(i + {p})"
        if pixels % TILE_ROWS == 0
        else f"(i + {p} < {pixels} ? i + {p} : {pixels - 1})"
    )


def _row_bytes(node: Node) -> int:
    kh, kw, depth, _ = node.inputs[1].shape
    return -(-kh * kw * depth // 4) * 4


def _patches(e: Emitter, node: Node, index: int) -> None:
    if not is_rows(node):
        e.need_scratch("patch", TILE_ROWS * _row_bytes(node), index)


def _pad_row(e: Emitter, node: Node, index: int) -> None:
    """A pixel of padding, for taps outside of the image."""
    channels = node.output.shape[-1]
    zero = node.attributes["zero_x"]
    e.extra.append(
        f"static const int8_t pad_{index}[{channels}] __attribute__((aligned(16))) = "
        f"{initialiser(np.full(channels, zero, dtype=np.int8), 'i8')};"
    )


def scale_text(e: Emitter, node: Node, index: int | str) -> str:
    """The requantisation of a node as a constant structure; its name."""
    _, _, bias, multiplier, shift = node.inputs
    at = node.attributes
    name = f"scale_{index}"
    text = (
        f"static const struct tw_scale {name} = {{{e.name(bias)}, {e.name(multiplier)}, {e.name(shift)}, "
        f"{at['left']}, {at['zero_y']}, {at['lower']}, {at['upper']}}};"
    )
    if text not in e.extra:
        e.extra.append(text)
    return name


def packed_weights(e: Emitter, node: Node, index: int) -> str:
    """Weights [k, n] in blocks of sixteen columns, each block's rows together."""
    data = node.inputs[1].data
    assert data is not None
    matrix = data.reshape(-1, data.shape[-1])
    blocks = [
        matrix[:, f : f + TILE_COLUMNS].reshape(-1) for f in range(0, matrix.shape[1], TILE_COLUMNS)
    ]
    if node.inputs[1] in e.far:
        e.packed[node.inputs[1]] = np.concatenate(blocks)
        return e.name(node.inputs[1])
    name = f"weights_{index}"
    e.extra.append(
        f"static const int8_t {name}[{matrix.size}] __attribute__((aligned(16))) = "
        f"{initialiser(np.concatenate(blocks), 'i8')};  /* {matrix.shape[0]}x{matrix.shape[1]} in blocks */"
    )
    return name


def _window(e: Emitter, node: Node, index: int, zero: int) -> str:
    kh, kw, _depth, _ = node.inputs[1].shape
    _, height, width, channels = image_shape(node)
    dilations = node.attributes["dilations"]
    name = f"window_{index}"
    e.kernels.add("patch")
    e.extra.append(
        f"static const struct tw_window {name} = {{{height}, {width}, {channels}, {kh}, {kw}, "
        f"{dilations[0]}, {dilations[1]}, {zero}}};"
    )
    return name


def _rows(e: Emitter, writer: Writer, node: Node, index: int, zero: int) -> tuple[int, str, str]:
    """Four rows a0..a3 of the left operand for output pixels i..i+3: count, and a guard of the last.

    Past the last pixel the last one is computed again, so that there is one kernel.
    """
    kh, kw, depth, _ = node.inputs[1].shape
    images, oh, ow, _n = node.output.shape
    pixels = images * oh * ow
    k = kh * kw * depth
    x = e.name(node.inputs[0])
    if is_rows(node):
        for p in range(TILE_ROWS):
            writer.line(f"const int8_t *a{p} = {x} + {_pixel(p, pixels)} * {k};")
        return k, "1" if k % 4 == 0 else "0", ""
    window = _window(e, node, index, zero)
    (top, left, _, _), (sy, sx) = node.attributes["padding"], node.attributes["strides"]
    _, height, width, channels = image_shape(node)
    size = _row_bytes(node)
    with writer.block(f"for (int p = 0; p < {TILE_ROWS}; p++)"):
        writer.line(f"const int at = i + p < {pixels} ? i + p : {pixels - 1};")
        image = f"{x} + at / {oh * ow} * {height * width * channels}" if images > 1 else x
        inside = f"at % {oh * ow}" if images > 1 else "at"
        writer.line(
            f"k_patch_i8(patch_{index} + p * {size}, {image}, "
            f"{inside} / {ow} * {sy} - {top}, {inside} % {ow} * {sx} - {left}, &{window});"
        )
    for p in range(TILE_ROWS):
        writer.line(f"const int8_t *a{p} = patch_{index} + {p * size};")
    return k, "1", ""


def emit_gemm(e: Emitter, group: Group, name: str, index: int) -> list[str]:
    """A quantised convolution or product with the vector kernel."""
    node = group.root
    e.kernels |= {"gemm", "gemm_i8"}
    writer = Writer()
    header(writer, group, name)
    images, oh, ow, n = node.output.shape
    pixels = images * oh * ow
    scale = scale_text(e, node, index)
    y = e.name(node.output)
    with nest_step(writer, pixels):
        k, aligned, _ = _rows(e, writer, node, index, node.attributes["zero_x"])
        for p in range(TILE_ROWS):
            writer.line(f"int8_t *y{p} = {y} + {_pixel(p, pixels)} * {n};")
        e.extra.append(
            f"static const int size_{index}[3] = {{{k}, {n}, {aligned}}};  /* k, columns, aligned rows */"
        )
        writer.line("int8_t *const y[4] = {y0, y1, y2, y3};")
        writer.line(
            f"k_gemm_i8(a0, a1, a2, a3, {packed_weights(e, node, index)}, y, size_{index}, &{scale});"
        )
    footer(writer)
    return writer.lines


def nest_step(writer: Writer, pixels: int):
    return writer.block(f"for (int i = 0; i < {pixels}; i += {TILE_ROWS})")


def _plain_sum(group: Group) -> bool:
    return len(group.nodes) == 1 and len(group.root.inputs) == 2


def emit_gemm_sum(e: Emitter, group: Group, name: str, index: int) -> list[str]:
    """Int8 operands, 32-bit sums: straight to the result, or through a tile to what follows."""
    node = group.root
    e.kernels |= {"gemm", "gemm_i32"}
    writer = Writer()
    plain = _plain_sum(group)
    finish = None if plain else finisher(e, writer, group, name)
    header(writer, group, name)
    images, oh, ow, n = node.output.shape
    pixels = images * oh * ow
    with nest_step(writer, pixels):
        k, aligned, _ = _rows(e, writer, node, index, 0)
        with writer.block(f"for (int f = 0; f < {n}; f += {TILE_COLUMNS})"):
            writer.line(f"const int columns = {n} - f < {TILE_COLUMNS} ? {n} - f : {TILE_COLUMNS};")
            stride = str(n) if node.inputs[1].data is None else "columns"
            writer.line(f"const int size[4] = {{{k}, {stride}, {aligned}, columns}};")
            if plain:
                y = e.name(node.output)
                rows = [f"{y} + {_pixel(p, pixels)} * {n} + f" for p in range(4)]
            else:
                rows = [f"(int32_t *)tile_{index} + {p * TILE_COLUMNS}" for p in range(4)]
            writer.line(f"int32_t *const y[4] = {{{', '.join(rows)}}};")
            constant = node.inputs[1].data is not None
            b = (
                f"{packed_weights(e, node, index)} + f * {k}"
                if constant
                else f"{e.name(node.inputs[1])} + f"
            )
            writer.line(f"k_gemm_i32(a0, a1, a2, a3, {b}, y, size);")
            if finish is not None:
                writer.line(f"const int count = {pixels} - i < 4 ? {pixels} - i : 4;")
                with (
                    writer.block("for (int p = 0; p < count; p++)"),
                    writer.block("for (int j = 0; j < columns; j++)"),
                ):
                    value = f"((const int32_t *)tile_{index})[p * {TILE_COLUMNS} + j]"
                    if len(node.inputs) > 2:
                        value += f" + {e.name(node.inputs[2])}[f + j]"
                    where = [
                        f"(i + p) / {oh * ow}",
                        f"(i + p) / {ow} % {oh}",
                        f"(i + p) % {ow}",
                        "f + j",
                    ]
                    writer.line(finish(value, where))
    footer(writer)
    return writer.lines


def emit_depthwise(e: Emitter, group: Group, name: str, index: int) -> list[str]:
    """One pixel at a time, sixteen channels side by side; pointers to the pixels under the taps."""
    node = group.root
    e.kernels |= {"gemm_i8", "gemm", "depthwise_i8"}
    writer = Writer()
    header(writer, group, name)
    x, w = node.inputs[0], node.inputs[1]
    images, oh, ow, channels = node.output.shape
    _, height, width, _ = x.shape
    kh, kw = w.shape[:2]
    (top, left, _, _), (sy, sx) = node.attributes["padding"], node.attributes["strides"]
    dy, dx = node.attributes["dilations"]
    scale = scale_text(e, node, index)
    writer.line(f"const int8_t **taps = (const int8_t **)taps_{index};")
    writer.line(f"int8_t *to = {e.name(node.output)};")
    with nest(writer, [("n", images), ("oy", oh), ("ox", ow)]) as (n, oy, ox):
        writer.line("int t = 0;")
        with nest(writer, [("ky", kh), ("kx", kw)]) as (ky, kx):
            writer.line(
                f"const int y = {oy} * {sy} + {ky} * {dy} - {top}, x = {ox} * {sx} + {kx} * {dx} - {left};"
            )
            writer.line(f"const int inside = y >= 0 && y < {height} && x >= 0 && x < {width};")
            writer.line(
                f"taps[t++] = inside ? {e.name(x)} + (({n} * {height} + y) * {width} + x) * {channels} : pad_{index};"
            )
        writer.line(f"k_depthwise_i8(taps, {e.name(w)}, to, {kh * kw}, {channels}, &{scale});")
        writer.line(f"to += {channels};")
    footer(writer)
    return writer.lines


def emit_q_conv(e: Emitter, group: Group, name: str) -> list[str]:
    """A quantised convolution in scalar C."""
    node = group.root
    e.need_math("requantise")
    writer = Writer()
    header(writer, group, name)
    x, w, bias, multiplier, shift = node.inputs
    images, oh, ow, filters = node.output.shape
    _, height, width, channels = x.shape
    kh, kw, depth, _ = w.shape
    at = node.attributes
    (top, left, _, _), (sy, sx), (dy, dx) = at["padding"], at["strides"], at["dilations"]
    per_group = filters // at["groups"]
    with nest(writer, [("n", images), ("oy", oh), ("ox", ow), ("f", filters)]) as (n, oy, ox, f):
        writer.line(f"int32_t acc = {e.name(bias)}[{f}];")
        with nest(writer, [("ky", kh), ("kx", kw), ("c", depth)]) as (ky, kx, c):
            writer.line(
                f"const int y = {oy} * {sy} + {ky} * {dy} - {top}, x = {ox} * {sx} + {kx} * {dx} - {left};"
            )
            writer.line(f"const int inside = y >= 0 && y < {height} && x >= 0 && x < {width};")
            where = f"(({n} * {height} + y) * {width} + x) * {channels} + {f} / {per_group} * {depth} + {c}"
            writer.line(f"const int32_t v = inside ? {e.name(x)}[{where}] : {at['zero_x']};")
            writer.line(
                f"acc += v * {e.name(w)}[(({ky} * {kw} + {kx}) * {depth} + {c}) * {filters} + {f}];"
            )
        left_shift = f" << {at['left']}" if at["left"] else ""
        writer.line(
            f"{e.name(node.output)}[{index_text(node.output, identity(4), [n, oy, ox, f])}] = (int8_t)tw_requantise("
            f"acc{left_shift}, {e.name(multiplier)}[{f}], {e.name(shift)}[{f}], {at['zero_y']}, {at['lower']}, {at['upper']});"
        )
    footer(writer)
    return writer.lines


def emit_mean(e: Emitter, group: Group, name: str) -> list[str]:
    """A sum of q - z over some dimensions, requantised."""
    node = group.root
    e.need_math("requantise")
    writer = Writer()
    header(writer, group, name)
    x, multiplier, shift = node.inputs
    at, axes = node.attributes, node.attributes["axes"]
    kept = [k for k in range(len(x.shape)) if k not in axes]
    loops = [f"i{k}" if n > 1 else "0" for k, n in enumerate(x.shape)]
    with nest(writer, [(f"i{k}", x.shape[k]) for k in kept]):
        writer.line("int32_t acc = 0;")
        with nest(writer, [(f"i{k}", x.shape[k]) for k in axes]):
            writer.line(
                f"acc += {e.name(x)}[{index_text(x, identity(len(x.shape)), loops)}] - {at['zero_x']};"
            )
        left_shift = f" << {at['left']}" if at["left"] else ""
        target = index_text(node.output, identity(len(kept)), [loops[k] for k in kept])
        writer.line(
            f"{e.name(node.output)}[{target}] = (int8_t)tw_requantise(acc{left_shift}, {e.name(multiplier)}[0], "
            f"{e.name(shift)}[0], {at['zero_y']}, {at['lower']}, {at['upper']});"
        )
    footer(writer)
    return writer.lines


def emit_add(e: Emitter, group: Group, name: str) -> list[str]:
    node = group.root
    e.need_math("requantise")
    writer = Writer()
    header(writer, group, name)
    a, b = (e.name(v) for v in node.inputs)
    at = node.attributes
    with writer.block(f"for (int i = 0; i < {node.output.elements}; i++)"):
        writer.line(
            f"const int32_t acc = ({a}[i] - {at['zero_a']}) * {at['multiplier_a']} + "
            f"({b}[i] - {at['zero_b']}) * {at['multiplier_b']};"
        )
        writer.line(f"const int32_t q = tw_shift_even(acc, 20) + {at['zero_y']};")
        writer.line(
            f"{e.name(node.output)}[i] = (int8_t)tw_clip(tw_clip(q, {at['lower']}, 32767), -128, {at['upper']});"
        )
    footer(writer)
    return writer.lines


def emit_add_vector(e: Emitter, group: Group, name: str) -> list[str]:
    node = group.root
    e.kernels.add("add_i8")
    writer = Writer()
    header(writer, group, name)
    at = node.attributes
    offset = -(at["zero_a"] * at["multiplier_a"] + at["zero_b"] * at["multiplier_b"])
    writer.line(
        f"static const struct tw_sum sum = {{{at['multiplier_a']}, {at['multiplier_b']}, {offset}, "
        f"{at['zero_y']}, {at['lower']}, {at['upper']}}};"
    )
    a, b = (e.name(v) for v in node.inputs)
    writer.line(f"k_add_i8({e.name(node.output)}, {a}, {b}, {node.output.elements}, &sum);")
    footer(writer)
    return writer.lines


def emit_table(e: Emitter, group: Group, name: str) -> list[str]:
    """One of 256 results per element."""
    node = group.root
    writer = Writer()
    header(writer, group, name)
    table = node.attributes["table"]
    writer.line(f"static const int8_t table[256] = {initialiser(table, 'i8')};")
    with writer.block(f"for (int i = 0; i < {node.output.elements}; i++)"):
        writer.line(f"{e.name(node.output)}[i] = table[{e.name(node.inputs[0])}[i] + 128];")
    footer(writer)
    return writer.lines


def emit_conv_f32(e: Emitter, group: Group, name: str, index: int) -> list[str]:
    """Float vectors over filters; every filter's sum keeps the order of scalar code."""
    node = group.root
    e.kernels.add("row_f32")
    writer = Writer()
    finish = finisher(e, writer, group, name)
    header(writer, group, name)
    x, w = node.inputs[0], node.inputs[1]
    images, oh, ow, filters = node.output.shape
    _, height, width, channels = x.shape
    kh, kw, depth, _ = w.shape
    (top, left, _, _), (sy, sx) = node.attributes["padding"], node.attributes["strides"]
    dy, dx = node.attributes["dilations"]
    writer.line(f"float *r = (float *)row_{index};")
    with nest(writer, [("n", images), ("oy", oh), ("ox", ow)]) as (n, oy, ox):
        writer.line("int first = 1;")
        with nest(writer, [("ky", kh), ("kx", kw)]) as (ky, kx):
            writer.line(
                f"const int y = {oy} * {sy} + {ky} * {dy} - {top}, x = {ox} * {sx} + {kx} * {dx} - {left};"
            )
            with writer.block(f"if (y >= 0 && y < {height} && x >= 0 && x < {width})"):
                writer.line(
                    f"k_row_f32(r, {e.name(x)} + (({n} * {height} + y) * {width} + x) * {channels}, "
                    f"{e.name(w)} + ({ky} * {kw} + {kx}) * {depth * filters}, {depth}, {filters}, {filters}, first);"
                )
                writer.line("first = 0;")
        writer.line(f"if (first) for (int f = 0; f < {filters}; f++) r[f] = 0.0f;")
        with writer.block(f"for (int f = 0; f < {filters}; f++)"):
            value = "r[f]" if len(node.inputs) < 3 else f"r[f] + {e.name(node.inputs[2])}[f]"
            writer.line(finish(value, [n, oy, ox, "f"]))
    footer(writer)
    return writer.lines
