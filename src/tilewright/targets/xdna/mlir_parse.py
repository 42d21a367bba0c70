"""MLIR text of the `aie` and `aiex` dialects back to a design.

Reads what the emitter writes, in both spellings, and designs written by hand in the same
operations. What it does not know it names; nothing is skipped.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any, TypeVar

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import (
    ELEMENT_BYTES,
    CoreProgram,
    Design,
    Dimensions,
    Fifo,
    Kernel,
    Link,
    ObjectType,
    Residency,
    Tile,
)
from tilewright.targets.xdna.device import ArrayDevice, built_in
from tilewright.targets.xdna.mlir_emit import memref
from tilewright.targets.xdna.mlir_parse_core import CoreBody
from tilewright.targets.xdna.mlir_parse_sequence import Sequence
from tilewright.targets.xdna.mlir_tokens import Tokens
from tilewright.targets.xdna.problem import (
    LARGEST,
    OUTPUTS,
    ROUNDINGS,
    SLOTS,
    WEIGHT_BITS,
    Gemm,
    granules,
)
from tilewright.targets.xdna.request import gemm_of

MAX_TEXT = 1 << 26
DEFAULT_STACK = 1024
MAX_SIDE = 1 << 16


def parse_design(text: str, file: str = "design.mlir", device: ArrayDevice | None = None) -> Design:
    """The design of a text; `device` replaces the one the text names."""
    if len(text) > MAX_TEXT:
        raise TilewrightError("TW8071", f"the text is longer than {MAX_TEXT >> 20} MiB")
    return _Parser(Tokens(text, file), device).module()


_Record = TypeVar("_Record")


def _record(kind: type[_Record], text: str, tokens: Tokens) -> _Record:
    """A dataclass from the text `record_text` writes."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    try:
        for part in text.split(";"):
            name, _, value = part.partition("=")
            hint = hints[name]
            if hint is bool:
                values[name] = {"True": True, "False": False}[value]
            elif hint is int:
                values[name] = int(value)
            elif hint is str:
                values[name] = value
            else:
                values[name] = tuple(int(v) for v in value.split("x"))
        made = kind(**values)
    except (KeyError, ValueError, TypeError):
        raise tokens.wrong(f"this is no description of a {kind.__name__}: {text!r}") from None
    if isinstance(made, Kernel) and not _sensible(made):
        raise tokens.wrong(f"this kernel cannot be: {text!r}")
    return made


def _sensible(kernel: Kernel) -> bool:
    """Whether the numbers of a kernel go together."""
    r, s, t = kernel.block if len(kernel.block) == 3 else (0, 0, 0)
    if (
        min(r, s, t, kernel.m, kernel.k, kernel.n) < 1
        or max(kernel.m, kernel.k, kernel.n) > MAX_SIDE
    ):
        return False
    granule = granules(kernel.block, kernel.weights) if kernel.weights in WEIGHT_BITS else (0, 0, 0)
    sizes = (kernel.m, kernel.k, kernel.n)
    return (
        kernel.weights in WEIGHT_BITS
        and all(size % step == 0 for size, step in zip(sizes, granule, strict=True))
        and kernel.inputs in OUTPUTS
        and kernel.output in OUTPUTS[kernel.inputs]
        and (kernel.weights == "bf16") == (kernel.inputs == "bf16")
        and (kernel.weights not in ("ternary", "int4") or (s, t) == (8, 8))
        and kernel.b_layout in ("row", "col")
        and kernel.c_layout in ("row", "col")
        and 0 <= kernel.shift < 32
        and kernel.rounding in ROUNDINGS
        and kernel.zero_point in ("sub", "rowsum")
        and kernel.numbers in ("exact", "bfp16")
    )


def _checked(gemm: Gemm, device: ArrayDevice, tokens: Tokens) -> Gemm:
    """A problem that the device can have; anything else in its place is refused."""
    if min(gemm.m, gemm.k, gemm.n, gemm.k_mt) < 1 or len(gemm.block) != 3:
        raise tokens.wrong("the design says it computes a GEMM that cannot be")
    dtype = gemm.weights if gemm.weights in ("ternary", "int4") else gemm.inputs
    try:
        again = gemm_of(
            gemm.M, gemm.K, gemm.N, (gemm.m, gemm.k, gemm.n), gemm.policy, device,
            columns=gemm.columns, dtype=dtype, out=gemm.output, b_layout=gemm.b_layout,
            c_layout=gemm.c_layout, c_depth=gemm.c_depth, k_mt=gemm.k_mt,
            synchronisation=gemm.synchronisation, shift=gemm.shift, rounding=gemm.rounding,
            saturate=gemm.saturate, zero_point=gemm.zero_point, numbers=gemm.numbers,
            wide_sum=gemm.wide_sum, pretiled=gemm.pretiled, stagger=gemm.stagger,
            stream_depth=gemm.stream_depth,
        )  # fmt: skip
    except TilewrightError as error:
        raise tokens.wrong(
            f"the GEMM of this design cannot be: {error.message}", error.hint
        ) from None
    if not (
        1 <= gemm.panel_slots <= SLOTS and 0 <= gemm.panel_room <= (LARGEST if gemm.resident else 0)
    ):
        raise tokens.wrong("the design says it keeps a panel that cannot be")
    again = dataclasses.replace(
        again, batch=gemm.batch, device_name=gemm.device_name, panel_room=gemm.panel_room,
        panel_slots=gemm.panel_slots,
    )  # fmt: skip
    if again != gemm:
        raise tokens.wrong(
            "the design says it computes a GEMM that this device would map otherwise"
        )
    if not 1 <= gemm.batch <= max(again.row_tiles, again.column_tiles):
        raise tokens.wrong(f"a batch of {gemm.batch} tiles is more than there are")
    return gemm


class _Parser:
    def __init__(self, tokens: Tokens, device: ArrayDevice | None) -> None:
        self.tokens = tokens
        self.device = device
        self.gemm: Gemm | None = None
        self.tiles: dict[str, Tile] = {}
        self.kernels: list[Kernel] = []
        self.fifos: list[Fifo] = []
        self.links: list[Link] = []
        self.cores: list[CoreProgram] = []
        self.sequences: list[Sequence] = []
        self.parameters: dict[str, tuple[Tile, int]] = {}  # buffer -> tile and length
        self.barriers: dict[str, Tile] = {}

    def module(self) -> Design:
        tokens = self.tokens
        tokens.expect("module")
        found = {}
        if tokens.accept("attributes"):
            found = tokens.attributes()
            if "tilewright.gemm" in found:
                self.gemm = _record(Gemm, str(found["tilewright.gemm"]), tokens)
        tokens.expect("{")
        tokens.expect("aie.device", "(")
        place = tokens.place()
        array = tokens.take()
        name = str(found.get("tilewright.device", array))
        if self.device is None:
            self.device = built_in(name, place)
            if array not in (name, self.device.dialect_name):
                raise tokens.wrong(f"{name} is no board with the array {array}")
        if self.gemm is not None:
            _checked(self.gemm, self.device, tokens)
        tokens.expect(")", "{")
        while not tokens.accept("}"):
            self._operation()
        tokens.expect("}")
        if tokens.text:
            raise tokens.wrong(f"unexpected {tokens.text!r} after the module")
        design = Design(
            device_name=name,
            device=self.device,
            fifos=tuple(self.fifos),
            links=tuple(self.links),
            kernels=tuple(self.kernels),
            cores=tuple(self.cores),
            buffers=tuple(b for sequence in self.sequences for b in sequence.buffers),
            runtime=tuple(step for sequence in self.sequences for step in sequence.steps),
            gemm=self.gemm,
        )
        for sequence in self.sequences:
            sequence.check_pushes(design)
        return design

    def _operation(self) -> None:
        tokens = self.tokens
        result, name = tokens.result_and_name()
        known = {
            "func.func": self._function,
            "aie.tile": lambda: self._tile(result),
            "aie.buffer": lambda: self._buffer(result),
            "aie.lock": lambda: self._lock(result),
            "aie.objectfifo": self._fifo,
            "aie.objectfifo.link": self._link,
            "aie.core": self._core,
            "aie.runtime_sequence": self._sequence,
            "aiex.runtime_sequence": self._sequence,
        }
        if name not in known:
            tokens.at -= 1
            raise tokens.wrong(
                f"the operation {name!r} is not known here",
                hint=f"known: {', '.join(sorted(known))}",
            )
        known[name]()

    # -- declarations -------------------------------------------------------------------------

    def memref(self) -> ObjectType:
        tokens = self.tokens
        tokens.expect("memref", "<")
        parts = tokens.take().split("x")
        tokens.expect(">")
        *sizes, element = parts
        if element not in ELEMENT_BYTES or not all(re.fullmatch(r"\d{1,12}", n) for n in sizes):
            raise tokens.wrong(
                f"memref<{'x'.join(parts)}> is no array of {', '.join(ELEMENT_BYTES)}"
            )
        if not sizes or min(int(n) for n in sizes) < 1:
            raise tokens.wrong(f"memref<{'x'.join(parts)}> is empty")
        return ObjectType(tuple(int(n) for n in sizes), element)

    def same_type(self, found: ObjectType, expected: ObjectType | None, what: str) -> None:
        """Types are written again at every use; they have to agree."""
        if expected is not None and found != expected:
            raise self.tokens.wrong(f"{what} has another type: {memref(expected)}")

    def fifo_type(self, name: str) -> ObjectType:
        self.tokens.expect(name, "<")
        kind = self.memref()
        self.tokens.expect(">")
        return kind

    def _function(self) -> None:
        tokens = self.tokens
        tokens.accept("private")
        name = tokens.symbol()
        tokens.expect("(")
        while not tokens.accept(")"):
            if tokens.text == "memref":
                self.memref()
            else:
                tokens.take()
            tokens.accept(",")
        found = tokens.attributes() if tokens.accept("attributes") else {}
        if "tilewright.kernel" in found:
            kernel = _record(Kernel, str(found["tilewright.kernel"]), tokens)
            if kernel.name != name or kernel.kind not in ("zero", "multiply"):
                raise tokens.wrong(f"the description of @{name} is of another kernel")
            self.kernels.append(kernel)
        else:
            self.kernels.append(Kernel(name, "opaque", 1, 1, 1, (1, 1, 1), "i8", "i8", "i32"))

    def _tile(self, result: str) -> None:
        tokens = self.tokens
        tokens.expect("(")
        column = tokens.integer()
        tokens.expect(",")
        self.tiles[result] = Tile(column, tokens.integer())
        tokens.expect(")")

    def _tile_value(self) -> Tile:
        tokens = self.tokens
        name = tokens.text
        if name.startswith("%") and name not in self.tiles:
            raise tokens.wrong(f"there is no tile {name}")
        return self.tiles[tokens.value()]

    def _buffer(self, result: str) -> None:
        tokens = self.tokens
        tokens.expect("(")
        tile = self._tile_value()
        tokens.expect(")")
        found = tokens.attributes()
        tokens.expect(":")
        kind = self.memref()
        if kind.element != "i32" or len(kind.shape) != 1:
            raise tokens.wrong("parameters of a core are i32 numbers")
        self.parameters[str(found.get("sym_name", result[1:]))] = (tile, kind.count)

    def _lock(self, result: str) -> None:
        tokens = self.tokens
        tokens.expect("(")
        tile = self._tile_value()
        if tokens.accept(","):
            tokens.integer()
        tokens.expect(")")
        tokens.attributes()
        self.barriers[result] = tile

    def _dimensions(self) -> Dimensions:
        tokens = self.tokens
        tokens.expect("[")
        found = []
        while not tokens.accept("]"):
            tokens.expect("<", "size", "=")
            size = tokens.integer()
            tokens.expect(",", "stride", "=")
            found.append((size, tokens.integer()))
            tokens.expect(">")
            tokens.accept(",")
            if found[-1][0] < 1:
                raise tokens.wrong("a dimension has no elements")
        return tuple(found)

    def _fifo(self) -> None:
        tokens = self.tokens
        name = tokens.symbol()
        tokens.expect("(")
        producer = self._tile_value()
        to_stream: Dimensions = ()
        if tokens.accept("dimensionsToStream"):
            to_stream = self._dimensions()
        tokens.expect(",", "{")
        consumers, arriving = [], []
        while not tokens.accept("}"):
            consumers.append(self._tile_value())
            arriving.append(self._dimensions() if tokens.accept("dimensionsFromStream") else ())
            tokens.accept(",")
        tokens.expect(",")
        depth = tokens.integer()
        tokens.expect(":", "i32", ")")
        if "repeat_count" in tokens.attributes():
            raise tokens.wrong(
                "objects that are sent several times are written as a panel of the link here",
                hint="tilewright.slots and tilewright.sweeps on aie.objectfifo.link",
            )
        tokens.expect(":")
        kind = self.fifo_type("!aie.objectfifo")
        self.fifos.append(
            Fifo(
                name,
                producer,
                tuple(consumers),
                depth,
                kind,
                to_stream,
                tuple(arriving) if any(arriving) else (),
            )
        )

    def _symbols(self) -> tuple[str, ...]:
        tokens = self.tokens
        tokens.expect("[")
        names = []
        while not tokens.accept("]"):
            names.append(tokens.symbol())
            tokens.accept(",")
        if not names:
            raise tokens.wrong("a link without FIFOs")
        return tuple(names)

    def _link(self) -> None:
        tokens = self.tokens
        inputs = self._symbols()
        tokens.expect("->")
        outputs = self._symbols()
        tokens.expect("(")
        into, out = tokens.integers(), tokens.integers()
        tokens.expect(")")
        found = tokens.attributes()
        residency = None
        if "tilewright.slots" in found:
            slots, sweeps = found["tilewright.slots"], found.get("tilewright.sweeps")
            room = found.get("tilewright.room", 0)
            if not isinstance(slots, tuple) or not isinstance(sweeps, int) or not slots:
                raise tokens.wrong("a resident panel has slots and sweeps")
            if not isinstance(room, int):
                raise tokens.wrong("the room of a resident panel is a number of objects")
            residency = Residency(slots, sweeps, room)
        many = max(len(inputs), len(outputs)) > 1
        offsets = (into if len(inputs) > 1 else out) if many else ()
        self.links.append(Link(inputs, outputs, offsets, residency))

    # -- cores --------------------------------------------------------------------------------

    def _core(self) -> None:
        tokens = self.tokens
        tokens.expect("(")
        tile = self._tile_value()
        tokens.expect(")", "{")
        body = CoreBody(self, tile)
        made = body.block("aie.end")
        tokens.expect("}")
        found = tokens.attributes()
        stack = found.get("stack_size", DEFAULT_STACK)
        lengths = [length for at, length in self.parameters.values() if at == tile]
        self.cores.append(
            CoreProgram(
                tile,
                made,
                stack if isinstance(stack, int) else DEFAULT_STACK,
                lengths[0] if lengths else 0,
            )
        )

    def _sequence(self) -> None:
        if self.sequences:
            raise self.tokens.wrong("a design has one runtime sequence")
        self.sequences.append(Sequence(self))
        self.sequences[0].parse()
