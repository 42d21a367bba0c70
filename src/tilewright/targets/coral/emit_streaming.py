"""The C of streamed regions: a loop over steps around the groups, and what moves their rows."""

from __future__ import annotations

from tilewright.targets.coral.emit import Emitter, Writer
from tilewright.targets.coral.emit_groups import finisher, footer, header
from tilewright.targets.coral.expressions import literal
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import C_TYPES, Value
from tilewright.targets.coral.slicing import Slices
from tilewright.targets.coral.streaming import Region, Rows

ROWS = """/* Rows of a sliding window move up, or get the padding's byte. */
static __attribute__((noinline)) void k_move(uint8_t *to, const uint8_t *from, int count) {
  for (; count >= 4; count -= 4, to += 4, from += 4) *(uint32_t *)to = *(const uint32_t *)from;
  while (count-- > 0) *to++ = *from++;
}
static __attribute__((noinline)) void k_fill(uint8_t *to, int value, int count) {
  while (count-- > 0) *to++ = (uint8_t)value;
}
/* Rows first .. first + count of an image of `height` rows: those outside are padding. */
static __attribute__((noinline)) void k_blank(uint8_t *rows, int first, int count, int height, int bytes, int value) {
  for (int r = 0; r < count; r++)
    if (first + r < 0 || first + r >= height) k_fill(rows + r * bytes, value, bytes);
}"""


def buffer_name(region: Region, value: Value) -> str:
    return f"rows_{region.first}_{list(region.rows).index(value)}"


def view_name(region: Region, part: Value) -> str:
    """The C expression of a part of an image's kept rows."""
    value, start = region.views[part]
    rows = region.rows[value]
    place = f"{buffer_name(region, value)}"
    offset = start * rows.row * item(value)
    return f"(({C_TYPES[value.dtype]} *)({place}{f' + {offset}' if offset else ''}))"


def turn_name(region: Region | Slices) -> str:
    """The variable that counts images or parts."""
    return f"turn_{region.first}"


def _of_turn(region: Region, value: Value) -> str:
    """How far the present image lies behind the first one, to be added to a place."""
    if region.turns == 1:
        return ""
    return f" + {turn_name(region)} * {value.elements // region.turns}"


def item(value: Value) -> int:
    return value.bytes // value.elements


def _row_bytes(rows: Rows) -> int:
    return rows.row * item(rows.value)


def region_functions(e: Emitter, region: Region) -> list[str]:
    """Start and step of a region's rows."""
    writer = Writer()
    number = region.first
    if region.turns > 1:
        writer.line(f"static int {turn_name(region)};  /* the image */")
    with writer.block(f"static __attribute__((noinline)) void k_start_{number}(void)"):
        for value, rows in region.rows.items():
            name = buffer_name(region, value)
            writer.line(f"k_fill((uint8_t *){name}, {rows.padding}, {rows.bytes});")
        if region.sink is not None:
            _start_sink(writer, region)
    with writer.block(f"static __attribute__((noinline)) void k_rows_{number}(int step)"):
        for value, rows in region.rows.items():
            _move_up(writer, region, value, rows)
        for value in region.fetched:
            _fetch(e, writer, region, value)
    return writer.lines


def _move_up(writer: Writer, region: Region, value: Value, rows: Rows) -> None:
    kept = rows.capacity - rows.rate
    if kept > 0:
        name, size = f"(uint8_t *){buffer_name(region, value)}", _row_bytes(rows)
        writer.line(f"k_move({name}, {name} + {rows.rate * size}, {kept * size});")


def _fetch(e: Emitter, writer: Writer, region: Region, value: Value) -> None:
    """The next rows of an image that lies elsewhere, or padding below its last row."""
    rows = region.rows[value]
    height, across, channels = rows.image
    kind, name = C_TYPES[value.dtype], buffer_name(region, value)
    first = f"step * {rows.rate}"
    start = (rows.capacity - rows.rate) * _row_bytes(rows)
    with writer.block(f"for (int r = 0; r < {rows.rate}; r++)"):
        writer.line(f"const int y = {first} + r;")
        writer.line(f"{kind} *to = ({kind} *)({name} + {start}) + r * {rows.row};")
        writer.line(
            f"if (y >= {height}) {{ k_fill((uint8_t *)to, {rows.padding}, {_row_bytes(rows)}); continue; }}"
        )
        strides = [1, 1, 1, 1]
        for k in reversed(range(3)):
            strides[k] = strides[k + 1] * value.shape[k + 1]
        ordered = [strides[p] for p in rows.order]
        sy, sx, sc = ordered[rows.axis], ordered[3 - rows.axis], ordered[3]
        if (sc == 1 or channels == 1) and (sx == channels or across == 1):
            writer.line(
                f"k_move((uint8_t *)to, (const uint8_t *)({e.name(value)}{_of_turn(region, value)} + y * {sy}), {_row_bytes(rows)});"
            )
        else:
            with (
                writer.block(f"for (int x = 0; x < {across}; x++)"),
                writer.block(f"for (int c = 0; c < {channels}; c++)"),
            ):
                place = f"y * {sy} + x * {sx} + c * {sc}{_of_turn(region, value)}"
                writer.line(f"*to++ = {e.name(value)}[{place}];")


def region_loop(e: Emitter, region: Region, names: list[str]) -> list[str]:
    """The lines of main that carry out a region; `names` are of its groups' functions."""
    writer = Writer(depth=1)
    if region.turns == 1:
        _turn(e, writer, region, names)
    else:
        turn = turn_name(region)
        with writer.block(f"for ({turn} = 0; {turn} < {region.turns}; {turn}++)"):
            _turn(e, writer, region, names)
    return writer.lines


def _turn(e: Emitter, writer: Writer, region: Region, names: list[str]) -> None:
    """One image through a region."""
    number = region.first
    writer.line(f"k_start_{number}();")
    with writer.block(f"for (int step = 0; step < {region.steps}; step++)"):
        writer.line(f"k_rows_{number}(step);")
        stored = [[region.views[v][0] for v in group.stored] for group in region.groups]
        for name, images in zip(names, stored, strict=False):
            rows = region.rows[images[0]]
            height = rows.image[0]
            first = f"step * {rows.rate}" + (f" - {rows.delay}" if rows.delay else "")
            writer.line(f"if ({first} + {rows.rate} > 0 && {first} < {height}) {name}();")
            for value in images:
                _finish(e, writer, region, value, first)
        if region.sink_read is not None:
            value, delay = region.sink_read
            rows = region.rows[value]
            writer.line(
                f"for (int r = 0; r < {rows.rate}; r++)"
                f" {{ const int y = step * {rows.rate} - {delay} + r;"
                f" if (y >= 0 && y < {rows.image[0]}) {names[-1]}_row(r); }}"
            )
    if region.sink is not None:
        writer.line(f"{names[-1]}();")


def _finish(e: Emitter, writer: Writer, region: Region, value: Value, first: str) -> None:
    """After a group: rows outside of the image become padding, whole images get theirs."""
    rows = region.rows[value]
    size, height = _row_bytes(rows), rows.image[0]
    new = f"(uint8_t *){buffer_name(region, value)} + {(rows.capacity - rows.rate) * size}"
    writer.line(f"k_blank({new}, {first}, {rows.rate}, {height}, {size}, {rows.padding});")
    if value in region.kept:
        with writer.block(f"for (int r = 0; r < {rows.rate}; r++)"):
            writer.line(f"const int y = {first} + r;")
            writer.line(
                f"if (y >= 0 && y < {height}) "
                f"k_move((uint8_t *)({e.name(value)}{_of_turn(region, value)} + y * {rows.row}), {new} + r * {size}, {size});"
            )


def _channels(region: Region) -> int:
    assert region.sink is not None
    return region.sink.root.inputs[0].shape[3]


def _start_sink(writer: Writer, region: Region) -> None:
    """Sums start at zero, extremes at what every number replaces."""
    assert region.sink is not None
    how, dtype = region.sink.root.attributes.get("reduce"), region.sink.root.output.dtype
    place, channels = f"sum_{region.first}", _channels(region)
    if how not in ("max", "min"):
        writer.line(f"k_fill((uint8_t *){place}, 0, {4 * channels});")
        return
    sign = "-" if how == "max" else ""
    start = f"{sign}__builtin_inff()"
    if dtype != "f32":
        start = "INT32_MIN" if how == "max" else "INT32_MAX"
    to = f"(({_total_type(dtype)} *){place})[c]"
    writer.line(f"for (int c = 0; c < {channels}; c++) {to} = {start};")


def _total_type(dtype: str) -> str:
    return "float" if dtype == "f32" else "int32_t"


def _collect(region: Region) -> str:
    """The statement that takes one more element `v` into `sum[c]`."""
    assert region.sink is not None
    how, dtype = region.sink.root.attributes.get("reduce"), region.sink.root.output.dtype
    if how not in ("max", "min"):
        return "sum[c] += v;"
    if dtype == "f32":
        return f"sum[c] = tw_{how}(sum[c], v);"
    return f"if (v {'>' if how == 'max' else '<'} sum[c]) sum[c] = v;"


def emit_sink(e: Emitter, region: Region, group: Group, name: str) -> list[str]:
    """A sum, mean or extreme over an image whose rows come one by one."""
    root = group.root
    assert region.sink_read is not None
    image, delay = region.sink_read
    rows = region.rows[image]
    height, width, channels = rows.image
    writer = Writer()
    e.need_math("max")
    finish = finisher(e, writer, group, name) if root.kind == "reduce" else None
    total = _total_type(root.output.dtype)
    start = rows.capacity - (rows.rate - rows.delay + delay)
    place = f"({C_TYPES[image.dtype]} *)({buffer_name(region, image)} + {start * _row_bytes(rows)})"
    with writer.block(f"static __attribute__((noinline)) void {name}_row(int row)"):
        writer.line(f"const {C_TYPES[image.dtype]} *p = {place} + row * {rows.row};")
        writer.line(f"{total} *sum = ({total} *)sum_{region.first};")
        with (
            writer.block(f"for (int x = 0; x < {width}; x++)"),
            writer.block(f"for (int c = 0; c < {channels}; c++)"),
        ):
            zero = root.attributes["zero_x"] if root.kind == "q_mean" else 0
            writer.line(f"const {total} v = *p++{f' - ({zero})' if zero else ''};")
            writer.line(_collect(region))
    header(writer, group, name)
    writer.line(f"const {total} *sum = (const {total} *)sum_{region.first};")
    with writer.block(f"for (int c = 0; c < {channels}; c++)"):
        if finish is not None:
            mean = f"sum[c] / {literal(float(height * width), 'f32')}"
            turn = turn_name(region) if region.turns > 1 else "0"
            places = (turn, "0", "0", "c" if channels > 1 else "0")
            index = [p for k, p in enumerate(places) if k not in root.attributes["axes"]]
            writer.line(finish(mean if root.attributes["reduce"] == "mean" else "sum[c]", index))
        else:
            e.need_math("requantise")
            _, multiplier, shift = root.inputs
            at = root.attributes
            left = f" << {at['left']}" if at["left"] else ""
            writer.line(
                f"{e.name(root.output)}[c{_of_turn(region, root.output)}] = (int8_t)tw_requantise(sum[c]{left}, "
                f"{e.name(multiplier)}[0], {e.name(shift)}[0], {at['zero_y']}, {at['lower']}, {at['upper']});"
            )
    footer(writer)
    return writer.lines
