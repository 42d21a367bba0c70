"""A design executed in time: DMA channels, cores, locks, the DRAM server and the controller.

Each FIFO is one process that moves pieces between its ends. A piece starts when its source holds
data and every consumer has a free slot, and keeps both ends busy for bytes over the stream width;
a piece that crosses DRAM also waits for its turn at the one memory server, which serves the
channels round robin, a quarter of an object at a time (an eighth on the way out).
"""

from __future__ import annotations

from collections import deque

from tilewright.targets.xdna.bandwidth import call_cycles, transfer_rates
from tilewright.targets.xdna.design import (
    Acquire,
    Await,
    Barrier,
    Call,
    CoreProgram,
    Design,
    Fifo,
    Link,
    Release,
    Replay,
    Start,
    Tile,
    Transfer,
)
from tilewright.targets.xdna.device import SHIM_ROW, ArrayDevice
from tilewright.targets.xdna.event_engine import (
    Deadlock,
    Dram,
    Engine,
    Interval,
    Lock,
    Process,
    TimeResult,
)
from tilewright.targets.xdna.programs import flat, parameters_of

READ_PIECES, WRITE_PIECES = 4, 8  # requests to DRAM per object


def simulate_time(
    design: Design,
    device: ArrayDevice | None = None,
    kernel_rate: float | None = None,
    controller_blocks: bool = False,
    record: int = 0,
) -> TimeResult:
    """Run a design in time; `record` keeps that many intervals for a timeline."""
    return _Machine(design, device or design.device, kernel_rate, controller_blocks, record).run()


class _Machine(Engine):
    def __init__(
        self,
        design: Design,
        device: ArrayDevice,
        kernel_rate: float | None,
        controller_blocks: bool,
        record: int,
    ) -> None:
        super().__init__()
        self.design, self.device = design, device
        self.controller_blocks = controller_blocks
        self.record = record
        self.busy: dict[str, float] = {}
        self.moved: dict[str, int] = {}
        self.intervals: list[Interval] = []
        self.cycles_of = call_cycles(design, device, kernel_rate)
        self.free: dict[tuple[str, Tile, int], Lock] = {}
        self.full: dict[tuple[str, Tile, int], Lock] = {}
        self.queued = {f.name: Lock(f"a task of @{f.name}") for f in design.fifos}
        self.tasks: dict[str, deque[Transfer | Replay]] = {f.name: deque() for f in design.fifos}
        self.tokens = {f.name: Lock(f"a token of @{f.name}") for f in design.fifos}
        self.room = {f.name: Lock(f"room in the queue of @{f.name}") for f in design.fifos}
        self.outstanding = {f.name: 0 for f in design.fifos}
        self.barriers = {c.tile: Lock(f"the barrier of core {c.tile}") for c in design.cores}
        rates = transfer_rates(design, device)
        self.service = {m: device.clock_hz / rate for m, rate in rates.items()}  # cycles per byte
        self.dram = Dram(self)
        self.names: dict[int, str] = {}

    def start(self, name: str, process: Process) -> None:
        self.names[id(process)] = name
        self.ready.append(process)

    def run(self) -> TimeResult:
        finite = self._processes()
        ended = self.run_all()
        self._check_finished({id(process) for process in finite} - ended)
        dram: dict[str, int] = {}
        for move in (s for s in self.design.runtime if isinstance(s, Transfer)):
            size = move.pattern.count * self.design.fifo(move.fifo).object.element_bytes
            dram[move.buffer] = dram.get(move.buffer, 0) + size
        self.busy["dram"] = self.dram.busy
        return TimeResult(
            self.now, self.now / self.device.clock_hz, self.busy, self.moved, dram, self.intervals
        )

    def _processes(self) -> list[Process]:
        """All processes; those that serve queues for ever are not waited for."""
        finite: list[Process] = []
        for fifo in self.design.fifos:
            self._make_locks(fifo)
        for fifo in self.design.fifos:
            self.moved[fifo.name] = 0
            self.busy[f"@{fifo.name}"] = 0.0
            self.start(f"@{fifo.name}", self._fifo(fifo))
        for core in self.design.cores:
            process = self._core(core)
            finite.append(process)
            self.start(f"core {core.tile}", process)
        controller = self._controller()
        finite.append(controller)
        self.start("controller", controller)
        return finite

    def _check_finished(self, unfinished: set[int]) -> None:
        stuck = []
        locks = [
            *self.free.values(), *self.full.values(), *self.tokens.values(), *self.room.values(),
            *self.barriers.values(), *self.queued.values(),
        ]  # fmt: skip
        moving = any(self.outstanding.values())
        for lock in locks:
            for process in lock.waiting:
                if id(process) in unfinished:
                    stuck.append(f"{self.names[id(process)]} waits for {lock.name}")
        if unfinished or moving:
            if not stuck:
                stuck = [
                    f"a task of @{n} is not finished" for n, o in self.outstanding.items() if o
                ]
            shown = "; ".join(sorted(stuck)[:4])
            more = f" and {len(stuck) - 4} more" if len(stuck) > 4 else ""
            raise Deadlock("TW8044", f"the design hangs: {shown}{more}")

    # -- locks of the ends --------------------------------------------------------------------

    def _make_locks(self, fifo: Fifo) -> None:
        """Slots at each end; linked ends share those of their memory tile."""
        design = self.design
        for tile in (fifo.producer, *fifo.consumers):
            if tile.row == SHIM_ROW:
                continue
            name = self._pool(fifo, tile)
            link = self._link(fifo, tile)
            many = len(design.segments(link)) if link is not None else 1
            depth = design.memory_fifo(link).depth if link is not None else fifo.depth
            for segment in range(many):
                key = (name, tile, segment)
                if key not in self.free:
                    self.free[key] = Lock(f"a free slot of @{name} at {tile}", depth)
                    self.full[key] = Lock(f"data of @{name} at {tile}")

    def _link(self, fifo: Fifo, tile: Tile) -> Link | None:
        if tile == fifo.producer:
            return self.design.link_out_of.get(fifo.name)
        return self.design.link_into.get(fifo.name)

    def _pool(self, fifo: Fifo, tile: Tile) -> str:
        link = self._link(fifo, tile)
        return fifo.name if link is None else self.design.memory_fifo(link).name

    # -- processes ----------------------------------------------------------------------------

    def _fifo(self, fifo: Fifo) -> Process:
        """Move pieces as long as both ends have any."""
        size = fifo.object.element_bytes
        source = self._source(fifo)
        sinks = self._sinks(fifo)
        from_shim = fifo.producer.row == SHIM_ROW
        to_shim = any(c.row == SHIM_ROW for c in fifo.consumers)
        shim = from_shim or to_shim
        piece = max(1, fifo.object.count // (READ_PIECES if from_shim else WRITE_PIECES))
        width = self.device.shim_stream_bytes if shim else self.device.stream_bytes
        resource = f"@{fifo.name}"
        left_in = left_out = 0
        move: Transfer | None = None
        ends: list[Lock] = []
        give_back: Lock | None = None
        elements = 0
        while True:
            if left_in == 0:
                wait, give_back, left_in, task = next(source)
                while wait is not None:
                    if wait.value:
                        wait.value -= 1
                    else:
                        yield wait
                    wait = None
                    if left_in < 0:  # a task came: now its length is known
                        wait, give_back, left_in, task = next(source)
                move = task if task is not None else move
            if left_out == 0:
                waits, ends, left_out, task = next(sinks)
                for wait in waits:
                    if wait.value:
                        wait.value -= 1
                    else:
                        yield wait
                if left_out < 0:
                    _, ends, left_out, task = next(sinks)
                move = task if task is not None else move
            chunk = left_in if left_in < left_out else left_out
            if shim:
                chunk = min(chunk, piece)
                begin = self.now
                assert move is not None
                yield from self.dram.serve(resource, chunk * size * self.service[move])
                least = begin + chunk * size / width
                if self.now < least:
                    yield least - self.now
            else:
                begin = self.now
                yield chunk * size / width
            self.busy[resource] += self.now - begin
            if self.record > 0:
                self.record -= 1
                self.intervals.append(Interval(resource, begin, self.now, "transfer"))
            elements += chunk
            self.moved[fifo.name] = elements * size
            left_in -= chunk
            left_out -= chunk
            if left_in == 0 and give_back is not None:
                self.give(give_back)
            if left_out == 0:
                for lock in ends:
                    self.give(lock)
            if from_shim and left_in == 0:
                self._task_done(fifo, move)
            if to_shim and left_out == 0:
                self._task_done(fifo, move)

    def _task_done(self, fifo: Fifo, move: Transfer | Replay | None) -> None:
        self.outstanding[fifo.name] -= 1
        self.give(self.room[fifo.name])
        if isinstance(move, Transfer) and move.token:
            self.give(self.tokens[fifo.name])

    def _source(self, fifo: Fifo):
        """(lock to wait for, lock to give at the end, elements, task) of each piece that leaves.

        -1 elements: wait first, then ask again.
        """
        if fifo.producer.row == SHIM_ROW:
            while True:
                yield self.queued[fifo.name], None, -1, None
                task = self.tasks[fifo.name].popleft()
                assert isinstance(task, Transfer)
                yield None, None, task.pattern.count, task
        pool, tile = self._pool(fifo, fifo.producer), fifo.producer
        link = self.design.link_out_of.get(fifo.name)
        if link is None:
            while True:
                yield self.full[pool, tile, 0], self.free[pool, tile, 0], fifo.object.count, None
        segments = self.design.segments(link)
        if link.residency is not None:
            yield from self._resident_source(fifo, link)
        order = range(len(segments)) if link.join else [link.outputs.index(fifo.name)]
        while True:
            for i in order:
                yield self.full[pool, tile, i], self.free[pool, tile, i], segments[i], None

    def _resident_source(self, fifo: Fifo, link: Link):
        """A panel: each slot when it is full, then again and again, freed on the last sweep."""
        pool, tile = self._pool(fifo, fifo.producer), fifo.producer
        full, free = self.full[pool, tile, 0], self.free[pool, tile, 0]
        count = self.design.memory_fifo(link).object.count
        assert link.residency is not None
        while True:
            yield self.queued[fifo.name], None, -1, None
            task = self.tasks[fifo.name].popleft()
            assert isinstance(task, Replay)
            for sweep in range(task.sweeps):
                last = sweep == task.sweeps - 1
                for objects in link.residency.slots:
                    yield (
                        full if sweep == 0 else None,
                        free if last else None,
                        objects * count,
                        None,
                    )
                if sweep in (0, task.sweeps - 2, task.sweeps - 1):  # first, middle and last task
                    self._task_done(fifo, task)

    def _sinks(self, fifo: Fifo):
        """(locks to wait for, locks to give, elements, task) of each piece that arrives."""
        if fifo.consumers[0].row == SHIM_ROW:
            while True:
                yield [self.queued[fifo.name]], [], -1, None
                task = self.tasks[fifo.name].popleft()
                assert isinstance(task, Transfer)
                yield [], [], task.pattern.count, task
        link = self.design.link_into.get(fifo.name)
        keys = [(self._pool(fifo, tile), tile) for tile in fifo.consumers]
        if link is None or not any(t.row == 1 for t in fifo.consumers):
            waits = [self.free[pool, tile, 0] for pool, tile in keys]
            gives = [self.full[pool, tile, 0] for pool, tile in keys]
            while True:
                yield waits, gives, fifo.object.count, None
        segments = self.design.segments(link)
        if link.residency is not None:
            pool, tile = keys[0]
            count = fifo.object.count
            while True:
                for objects in link.residency.slots:
                    yield (
                        [self.free[pool, tile, 0]],
                        [self.full[pool, tile, 0]],
                        objects * count,
                        None,
                    )
        order = [link.inputs.index(fifo.name)] if link.join else range(len(segments))
        while True:
            for i in order:
                yield (
                    [self.free[pool, tile, i] for pool, tile in keys],
                    [self.full[pool, tile, i] for pool, tile in keys],
                    segments[i],
                    None,
                )

    def _core(self, core: CoreProgram) -> Process:
        resource = f"core {core.tile}"
        busy = 0.0
        take: dict[str, Lock] = {}
        put: dict[str, Lock] = {}
        for fifo in self.design.fifos:
            key = (fifo.name, core.tile, 0)
            if fifo.producer == core.tile:
                take[fifo.name], put[fifo.name] = self.free[key], self.full[key]
            elif core.tile in fifo.consumers:
                take[fifo.name], put[fifo.name] = self.full[key], self.free[key]
        self.busy[resource] = 0.0
        for statement, _ in flat(core.body, parameters_of(self.design, core.tile)):
            if isinstance(statement, Acquire):
                lock = take[statement.fifo]
                for _ in range(statement.count):
                    if lock.value:
                        lock.value -= 1
                    else:
                        yield lock
            elif isinstance(statement, Release):
                self.give(put[statement.fifo], statement.count)
            elif isinstance(statement, Call):
                cycles = self.cycles_of[statement.kernel]
                if self.record > 0:
                    self.record -= 1
                    end = self.now + cycles
                    self.intervals.append(Interval(resource, self.now, end, statement.kernel))
                yield cycles
                busy += cycles
                self.busy[resource] = busy
            elif isinstance(statement, Barrier):
                lock = self.barriers[core.tile]
                if lock.value:
                    lock.value -= 1
                else:
                    yield lock

    def _controller(self) -> Process:
        """The runtime sequence, one step after the other."""
        clock = self.device.clock_hz
        push = self.device.controller.push_seconds * clock
        token = self.device.controller.token_seconds * clock
        self.busy["controller"] = 0.0
        for step in self.design.runtime:
            if isinstance(step, Transfer | Replay):
                tasks = 1 if isinstance(step, Transfer) else min(3, step.sweeps)
                self.busy["controller"] += push * tasks
                yield push * tasks
                while self.outstanding[step.fifo] + tasks > self.device.outstanding:
                    if not self.controller_blocks:
                        raise Deadlock(
                            "TW8045",
                            f"the controller pushes a task of @{step.fifo} onto a queue that holds"
                            f" {self.device.outstanding} already",
                            hint="await an earlier task of the channel first",
                        )
                    room = self.room[step.fifo]
                    room.value = 0
                    yield room
                self.outstanding[step.fifo] += tasks
                self.tasks[step.fifo].append(step)
                self.give(self.queued[step.fifo])
            elif isinstance(step, Await):
                lock = self.tokens[step.fifo]
                if lock.value:
                    lock.value -= 1
                else:
                    yield lock
                self.busy["controller"] += token
                yield token
            elif isinstance(step, Start):
                self.give(self.barriers[step.tile])
