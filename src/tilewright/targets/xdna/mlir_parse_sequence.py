"""Runtime sequences in `aie` and `aiex` MLIR text, in both spellings."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import (
    Await,
    Design,
    HostBuffer,
    ObjectType,
    Replay,
    SetParameter,
    Start,
    Step,
    Tile,
    Transfer,
)
from tilewright.targets.xdna.mlir_emit import replay_pushes
from tilewright.targets.xdna.mlir_tokens import Tokens
from tilewright.targets.xdna.structure import structure_problems


class Declarations(Protocol):
    """What a sequence refers to: the parser of the text around it."""

    tokens: Tokens
    barriers: dict[str, Tile]
    parameters: dict[str, tuple[Tile, int]]

    def memref(self) -> ObjectType: ...


class Sequence:
    """Host buffers and steps of one runtime sequence."""

    def __init__(self, parser: Declarations) -> None:
        self.parser, self.tokens = parser, parser.tokens
        self.barriers, self.parameters = parser.barriers, parser.parameters
        self.buffers: list[HostBuffer] = []
        self.steps: list[Step] = []
        self.pushes: list[tuple[str, int, list[object]]] = []

    def parse(self) -> None:
        tokens = self.tokens
        if tokens.text.startswith("@"):
            tokens.take()
        tokens.expect("(")
        while not tokens.accept(")"):
            name = tokens.value()[1:]
            tokens.expect(":")
            kind = self.parser.memref()
            self.buffers.append(HostBuffer(name, kind.count, kind.element))
            tokens.accept(",")
        tokens.expect("{")
        tasks: dict[str, Transfer] = {}
        started: dict[str, list[str]] = defaultdict(list)
        while not tokens.accept("}"):
            self._step(tasks, started)

    def _step(self, tasks: dict[str, Transfer], started: dict[str, list[str]]) -> None:
        tokens = self.tokens
        result, name = tokens.result_and_name()
        if name == "aiex.npu.rtp_write":
            tokens.expect("(")
            symbol = tokens.symbol()
            if symbol not in self.parameters:
                raise tokens.wrong(f"there is no parameter buffer @{symbol}")
            tokens.expect(",")
            index = tokens.integer()
            tokens.expect(",")
            self.steps.append(SetParameter(self.parameters[symbol][0], index, tokens.integer()))
            tokens.expect(")")
        elif name == "aiex.set_lock":
            tokens.expect("(")
            lock = tokens.value()
            if lock not in self.barriers:
                raise tokens.wrong(f"there is no lock {lock}")
            tokens.expect(",", "1", ")")
            self.steps.append(Start(self.barriers[lock]))
        elif name == "aiex.npu.dma_memcpy_nd":
            self.steps.append(self._memcpy())
        elif name == "aiex.npu.dma_wait":
            symbol = tokens.attributes().get("symbol")
            if not isinstance(symbol, str):
                raise tokens.wrong("a wait names no FIFO")
            self.steps.append(Await(symbol))
        elif name == "aiex.dma_configure_task_for":
            tasks[result] = self._task()
        elif name in ("aiex.dma_start_task", "aiex.dma_await_task", "aiex.dma_free_task"):
            tokens.expect("(")
            task = tokens.value()
            tokens.expect(")")
            if task not in tasks:
                raise tokens.wrong(f"there is no task {task}")
            move = tasks[task]
            if name == "aiex.dma_start_task":
                self.steps.append(move)
                if move.token:
                    started[move.fifo].append(task)
            elif name == "aiex.dma_await_task":
                if not started[move.fifo] or started[move.fifo][0] != task:
                    raise tokens.wrong(
                        f"{task} is awaited out of order: tokens of a channel come in the order of"
                        " its tasks",
                        hint=f"the next token is of {started[move.fifo][0]}"
                        if started[move.fifo]
                        else "the task gives no token: set issue_token",
                    )
                started[move.fifo].pop(0)
                self.steps.append(Await(move.fifo))
        elif name == "aiex.npu.push_queue":
            self._push()
        else:
            raise tokens.wrong(f"the operation {name!r} is not known in a runtime sequence")

    def _four(self, numbers: tuple[int, ...]) -> tuple[int, int, int, int]:
        if len(numbers) > 4:
            raise self.tokens.wrong(f"a transfer has four loops, not {len(numbers)}")
        first, second, third, fourth = (0,) * (4 - len(numbers)) + numbers
        return first, second, third, fourth

    def _walk(
        self, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
        if len(sizes) != len(strides):
            raise self.tokens.wrong(f"{len(sizes)} sizes and {len(strides)} strides")
        first, second, third, fourth = self._four(sizes)
        padded = (first or 1, second or 1, third or 1, fourth or 1)
        if any(size == 0 for size in sizes) or min(padded) < 1:
            raise self.tokens.wrong(f"an empty transfer: {list(sizes)}")
        return padded, self._four(strides)

    def _buffer_type(self, name: str) -> None:
        buffer = next((b for b in self.buffers if b.name == name), None)
        kind = self.parser.memref()
        if buffer is not None and (kind.count, kind.element) != (buffer.count, buffer.element):
            raise self.tokens.wrong(
                f"buffer %{name} has {buffer.count} elements of {buffer.element}"
            )

    def _memcpy(self) -> Transfer:
        tokens = self.tokens
        tokens.expect("(")
        buffer = tokens.value()[1:]
        offsets, sizes, strides = tokens.integers(), tokens.integers(), tokens.integers()
        tokens.expect(")")
        found = tokens.attributes()
        tokens.expect(":")
        self._buffer_type(buffer)
        walk_sizes, walk_strides = self._walk(sizes, strides)
        offset = sum(o * s for o, s in zip(self._four(offsets), walk_strides, strict=True))
        return self._transfer(found.get("metadata"), buffer, offset, walk_sizes, walk_strides,
                              found.get("id"), found.get("issue_token", False))  # fmt: skip

    def _transfer(
        self,
        fifo: object,
        buffer: str,
        offset: int,
        sizes: tuple[int, int, int, int],
        strides: tuple[int, int, int, int],
        descriptor: object,
        token: object,
    ) -> Transfer:
        if not isinstance(fifo, str):
            raise self.tokens.wrong("a transfer names no FIFO")
        if not isinstance(descriptor, int):
            raise self.tokens.wrong(f"the transfer of @{fifo} names no descriptor")
        if buffer not in {b.name for b in self.buffers}:
            raise self.tokens.wrong(f"there is no buffer %{buffer}")
        return Transfer(fifo, buffer, offset, sizes, strides, descriptor, bool(token))

    def _field(self, name: str) -> None:
        """`name =`, after a comma or not: both are written."""
        self.tokens.accept(",")
        self.tokens.expect(name, "=")

    def _task(self) -> Transfer:
        tokens = self.tokens
        fifo = tokens.symbol()
        tokens.expect("{", "aie.dma_bd", "(")
        buffer = tokens.value()[1:]
        tokens.expect(":")
        self._buffer_type(buffer)
        self._field("offset")
        offset = tokens.integer()
        self._field("len")
        length = tokens.integer()
        self._field("sizes")
        sizes = tokens.integers()
        self._field("strides")
        walk_sizes, walk_strides = self._walk(sizes, tokens.integers())
        tokens.expect(")")
        descriptor = tokens.attributes().get("bd_id")
        tokens.expect("aie.end", "}")
        found = tokens.attributes()
        inner = walk_sizes[1] * walk_sizes[2] * walk_sizes[3]
        if length != inner:
            raise tokens.wrong(f"len = {length} is not the {inner} elements of the inner loops")
        if found.get("repeat_count", 0) != walk_sizes[0] - 1:
            raise tokens.wrong(
                f"the iteration of {walk_sizes[0]} happens only with repeat_count ="
                f" {walk_sizes[0] - 1}"
            )
        return self._transfer(
            fifo, buffer, offset, walk_sizes, walk_strides, descriptor,
            found.get("issue_token", False),
        )  # fmt: skip

    def _push(self) -> None:
        """One of the pushes of a resident panel; the first one says how often it is sent."""
        tokens = self.tokens
        tokens.expect("(")
        column = tokens.integer()
        tokens.expect(",")
        row = tokens.integer()
        tokens.expect(",", "MM2S", ":")
        channel = tokens.integer()
        tokens.expect(")")
        found = tokens.attributes()
        fifo, sweeps = found.get("tilewright.replay"), found.get("tilewright.sweeps")
        if not isinstance(fifo, str):
            raise tokens.wrong("a push of a memory-tile task names no resident panel")
        if isinstance(sweeps, int):
            self.steps.append(Replay(fifo, sweeps))
            self.pushes.append((fifo, sweeps, []))
        if not self.pushes or self.pushes[-1][0] != fifo:
            raise tokens.wrong(f"a push of @{fifo} stands apart from the first one of its panel")
        self.pushes[-1][2].append(
            (Tile(column, row), channel, found.get("bd_id"), found.get("repeat_count"))
        )

    def check_pushes(self, design: Design) -> None:
        """The pushes are those of the descriptors that the design lowers to."""
        if not self.pushes or structure_problems(design):
            return  # the checker says what is wrong with the design
        try:
            expected = replay_pushes(design)
        except TilewrightError:
            return  # and what is wrong with its lowering
        for fifo, sweeps, pushes in self.pushes:
            if fifo not in expected:
                raise self.tokens.wrong(f"@{fifo} sends no resident panel")
            tile, channel, tasks = expected[fifo]
            wanted = [(tile, channel, identity, repeat) for identity, repeat in tasks(sweeps)]
            if pushes != wanted:
                raise self.tokens.wrong(
                    f"the pushes that send the panel of @{fifo} {sweeps} times are not its tasks",
                    hint=f"bd_id, repeat_count: {tasks(sweeps)} on {tile} MM2S:{channel}",
                )
