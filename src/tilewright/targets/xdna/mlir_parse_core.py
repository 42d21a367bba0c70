"""Bodies of cores in `aie` MLIR text."""

from __future__ import annotations

from typing import Protocol

from tilewright.targets.xdna.design import (
    Acquire,
    Barrier,
    Call,
    Fifo,
    Loop,
    ObjectType,
    Parameter,
    Release,
    Statement,
    Tile,
)
from tilewright.targets.xdna.mlir_tokens import Tokens

MAX_NESTING = 16


class Declarations(Protocol):
    """What a body refers to: the parser of the text around it."""

    tokens: Tokens
    fifos: list[Fifo]
    barriers: dict[str, Tile]
    parameters: dict[str, tuple[Tile, int]]

    def memref(self) -> ObjectType: ...

    def fifo_type(self, name: str) -> ObjectType: ...

    def same_type(self, found: ObjectType, expected: ObjectType | None, what: str) -> None: ...


class CoreBody:
    """Statements of one core."""

    def __init__(self, parser: Declarations, tile: Tile) -> None:
        self.parser, self.tokens, self.tile = parser, parser.tokens, tile
        self.numbers: dict[str, int | Parameter] = {}
        self.views: dict[str, str] = {}  # subview -> FIFO
        self.objects: dict[str, tuple[str, int]] = {}
        self.flags: set[str] = set()
        self.depth = 0

    def block(self, end: str) -> tuple[Statement, ...]:
        body: list[Statement] = []
        while self.tokens.text != end:
            made = self._statement()
            if made is not None:
                body.append(made)
        if end != "}":
            self.tokens.take()
        return tuple(body)

    def _statement(self) -> Statement | None:
        tokens = self.tokens
        result, name = tokens.result_and_name()
        if name == "arith.constant":
            self.numbers[result] = tokens.integer()
            tokens.expect(":")
            tokens.take()
        elif name == "memref.load":
            self._load(result)
        elif name in ("arith.index_cast", "arith.extui"):
            source = tokens.value()
            tokens.expect(":")
            tokens.take()
            tokens.expect("to")
            tokens.take()
            if source in self.numbers:
                self.numbers[result] = self.numbers[source]
            if source in self.flags:
                self.flags.add(result)
        elif name in ("arith.subi", "arith.cmpi"):
            if name == "arith.cmpi":
                tokens.expect("eq", ",")
                self.flags.add(result)
            tokens.value()
            tokens.expect(",")
            tokens.value()
            tokens.expect(":")
            tokens.take()
        elif name == "scf.for":
            return self._loop()
        elif name == "aie.use_lock":
            tokens.expect("(")
            lock = tokens.value()
            if self.parser.barriers.get(lock) != self.tile:
                raise tokens.wrong(f"{lock} is no lock of core {self.tile}")
            tokens.expect(",", "AcquireGreaterEqual", ",", "1", ")")
            return Barrier()
        elif name == "aie.objectfifo.acquire":
            fifo, count = self._port()
            tokens.expect(":")
            self._subview(fifo)
            self.views[result] = fifo
            return Acquire(fifo, count)
        elif name == "aie.objectfifo.release":
            return Release(*self._port())
        elif name == "aie.objectfifo.subview.access":
            self._access(result)
        elif name == "func.call":
            return self._call()
        else:
            raise tokens.wrong(f"the operation {name!r} is not known in a core")
        return None

    def _port(self) -> tuple[str, int]:
        tokens = self.tokens
        fifo = tokens.symbol()
        tokens.expect("(")
        port = tokens.take()
        found = next((f for f in self.parser.fifos if f.name == fifo), None)
        if found is None:
            raise tokens.wrong(f"there is no FIFO @{fifo}")
        if (port == "Produce") != (found.producer == self.tile):
            raise tokens.wrong(f"core {self.tile} is not at the {port} end of @{fifo}")
        tokens.expect(",")
        count = tokens.integer()
        tokens.expect(")")
        if count < 1:
            raise tokens.wrong(f"{count} objects are no number to acquire or release")
        return fifo, count

    def _object(self, fifo: str) -> ObjectType | None:
        return next((f.object for f in self.parser.fifos if f.name == fifo), None)

    def _subview(self, fifo: str) -> ObjectType | None:
        kind = self._object(fifo)
        self.parser.same_type(self.parser.fifo_type("!aie.objectfifosubview"), kind, f"@{fifo}")
        return kind

    def _load(self, result: str) -> None:
        tokens = self.tokens
        buffer = tokens.value()[1:]
        tokens.expect("[")
        index = self.numbers.get(tokens.value())
        tokens.expect("]", ":")
        kind = self.parser.memref()
        tile, count = self.parser.parameters.get(buffer, (None, 0))
        if tile != self.tile or not isinstance(index, int) or not 0 <= index < count:
            raise tokens.wrong(f"%{buffer} is no parameter of core {self.tile}")
        self.parser.same_type(kind, ObjectType((count,), "i32"), f"%{buffer}")
        self.numbers[result] = Parameter(index)

    def _loop(self) -> Loop:
        tokens = self.tokens
        tokens.value()
        tokens.expect("=")
        low = self.numbers.get(tokens.value())
        tokens.expect("to")
        limit = self.numbers.get(tokens.value())
        tokens.expect("step")
        step = self.numbers.get(tokens.value())
        tokens.expect("{")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise tokens.wrong(f"loops of a core nest {MAX_NESTING} deep at most")
        if low != 0 or step != 1 or limit is None:
            raise tokens.wrong("loops of a core count from 0 in steps of 1 to a known number")
        body = self.block("}")
        tokens.expect("}")
        self.depth -= 1
        return Loop(limit, body)

    def _access(self, result: str) -> None:
        tokens = self.tokens
        view = tokens.value()
        if view not in self.views:
            raise tokens.wrong(f"{view} was never acquired")
        tokens.expect("[")
        position = tokens.integer()
        tokens.expect("]", ":")
        kind = self._subview(self.views[view])
        tokens.expect("->")
        self.parser.same_type(self.parser.memref(), kind, f"an object of @{self.views[view]}")
        self.objects[result] = (self.views[view], position)

    def _call(self) -> Call:
        tokens = self.tokens
        kernel = tokens.symbol()
        tokens.expect("(")
        operands: list[tuple[str, int]] = []
        last = False
        while not tokens.accept(")"):
            value = tokens.value()
            if value in self.flags:
                last = True
            elif value in self.objects:
                operands.append(self.objects[value])
            else:
                raise tokens.wrong(f"{value} is no object of a FIFO")
            tokens.accept(",")
        tokens.expect(":", "(")
        for fifo, _ in operands:
            self.parser.same_type(
                self.parser.memref(), self._object(fifo), f"an operand of @{kernel}"
            )
            tokens.accept(",")
        if last:
            tokens.expect("i32")
        tokens.expect(")", "->", "(", ")")
        return Call(kernel, tuple(operands), last)
