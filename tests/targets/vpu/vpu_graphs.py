"""Graphs that several tests and benchmarks use: the public examples, and random ones."""

from __future__ import annotations

import random
from dataclasses import replace

from tilewright.targets.vpu.machine import Machine, preset
from tilewright.targets.vpu.tile_graph import Buffer, Task, TileGraph, View

CAPACITY = 1982464


def machine(**changes: int) -> Machine:
    """The machine of the examples, with single values replaced."""
    base = replace(preset("tiny"), cmx_bytes=CAPACITY, barriers=64, slots=256)
    return replace(base, **changes)  # type: ignore[arg-type]


def load(name: str, cycles: int = 1, **more) -> Task:
    return Task(f"L {name}", "dma", (), (name,), cycles, source="ddr", **more)


def store(name: str, cycles: int = 1, **more) -> Task:
    return Task(f"S {name}", "dma", (name,), (), cycles, sink="ddr", **more)


def dpu(name: str, reads: str, writes: str, cycles: int = 1, **more) -> Task:
    return Task(name, "dpu", tuple(reads.split()), tuple(writes.split()), cycles, **more)


def shave(name: str, reads: str, writes: str, cycles: int = 1, **more) -> Task:
    return Task(name, "shave", tuple(reads.split()), tuple(writes.split()), cycles, **more)


def spilling(in_place: bool = False, **changes: int) -> TileGraph:
    """A1: three buffers fit, four are wanted."""
    pairs = (("b1", "b2"),) if in_place else ()
    return TileGraph(
        machine(**changes),
        [Buffer(name, 589824) for name in ("in", "c", "b1", "b2", "b3")],
        [load("in"), load("c"), dpu("MP", "in", "b1"), dpu("ADD1", "b1 c", "b2", in_place=pairs),
         dpu("ADD2", "in b2", "b3"), store("b3")],
    )  # fmt: skip


def address_edge(**changes: int) -> TileGraph:
    """A5: two buffers fit; the second result has to wait until the first is stored."""
    return TileGraph(
        machine(**changes),
        [Buffer(name, 802816) for name in ("b0", "b1", "b2")],
        [load("b0"), dpu("MP1", "b0", "b1"), store("b1"), dpu("MP2", "b0", "b2"), store("b2")],
    )


def prefetching(**changes: int) -> TileGraph:
    """A7: the second convolution's weights have to be fetched first."""
    sizes = {"in": 16384, "w1": 36864, "t1": 1024, "a": 8192, "w2": 147456, "t2": 2048, "o": 4096}
    return TileGraph(
        machine(**changes),
        [Buffer(name, size) for name, size in sizes.items()],
        [load("in", 683), load("w1", 2172), load("t1", 22), dpu("conv1", "in w1 t1", "a", 734),
         load("w2", 6144), load("t2", 61), dpu("conv2", "a w2 t2", "o", 686), store("o", 171)],
    )  # fmt: skip


def three_engines(**changes: int) -> TileGraph:
    """A8: two chains through all three engines."""
    buffers, tasks = [], []
    for n in (1, 2):
        buffers += [Buffer(f"{name}{n}", 147456) for name in ("x", "y", "z")]
        tasks += [load(f"x{n}", 10), dpu(f"D{n}", f"x{n}", f"y{n}", 40),
                  shave(f"H{n}", f"y{n}", f"z{n}", 30), store(f"z{n}", 10)]  # fmt: skip
    return TileGraph(machine(**changes), buffers, tasks)


def ping_pong(tiles: int, loads: int, computes: int, buffers: int, ports: int) -> TileGraph:
    """C1: tiles that stream through a few buffers."""
    size = 4096
    tasks = []
    for n in range(tiles):
        tasks += [load(f"x{n}", loads), dpu(f"C{n}", f"x{n}", "", computes)]
    return TileGraph(
        machine(cmx_bytes=size * buffers, dma_ports=ports),
        [Buffer(f"x{n}", size) for n in range(tiles)],
        tasks,
    )


def random_graph(
    seed: int,
    tasks: int,
    capacity: float | None = None,
    ports: int | None = None,
    barriers: int | None = None,
    views: bool = True,
) -> TileGraph:
    """A graph of about so many tasks; `capacity` is a factor on the least that is feasible."""
    rng = random.Random(seed)
    count = max(2, tasks)
    buffers: list[Buffer] = []
    all_views: list[View] = []
    items: list[Task] = []
    live: list[str] = []  # buffers that may be read
    sizes: dict[str, int] = {}

    def new(kind: str) -> str:
        name = f"{kind}{len(buffers)}"
        sizes[name] = rng.choice([64, 100, 128, 192, 256, 320, 512, 640, 1000])
        buffers.append(Buffer(name, sizes[name], spill_cycles=rng.randint(1, 12)))
        live.append(name)
        return name

    def any_part(name: str) -> str:
        if views and sizes[name] >= 128 and rng.random() < 0.25:
            half = sizes[name] // 128 * 64
            low = rng.random() < 0.5
            view = View(f"v{len(all_views)}", name, 0 if low else half, half)
            all_views.append(view)
            return view.id
        return name

    while len(items) < count:
        kind = rng.random()
        if kind < 0.3 or not live:
            name = new("w")
            items.append(load(name, rng.randint(1, 20), ports=1))
        elif kind < 0.42:
            name = rng.choice(live)
            if all(task.id != f"S {name}" for task in items):
                items.append(store(name, rng.randint(1, 12)))
        elif kind < 0.5 and views:  # two tasks fill one buffer
            reads = [any_part(name) for name in rng.sample(live, min(len(live), 2))]
            target = new("r")
            live.pop()
            half = -(-sizes[target] // 128) * 64
            parts = [(0, half), (half, sizes[target] - half)]
            if parts[1][1] <= 0:
                parts = [(0, sizes[target])]
            for number, (offset, size) in enumerate(parts):
                view = View(f"v{len(all_views)}", target, offset, size)
                all_views.append(view)
                engine = rng.choice([dpu, shave])
                items.append(
                    engine(
                        f"P{len(items)}", reads[number % len(reads)], view.id, rng.randint(1, 20)
                    )
                )
            live.append(target)
        else:
            chosen = rng.sample(live[-8:], min(len(live[-8:]), rng.choice([1, 1, 2, 3])))
            reads = dict.fromkeys(any_part(name) for name in chosen)
            target = new("r")
            more = {}
            same = [name for name in reads if name in sizes and sizes[name] >= sizes[target]]
            if same and rng.random() < 0.4:
                more["in_place"] = ((same[0], target),)
            engine = rng.choice([dpu, dpu, shave])
            items.append(
                engine(f"C{len(items)}", " ".join(reads), target, rng.randint(1, 25), **more)
            )
    unread = {b.id for b in buffers} - {
        next((v.of for v in all_views if v.id == n), n) for t in items for n in t.reads
    }
    for name in sorted(unread):
        if name.startswith("r") and all(task.id != f"S {name}" for task in items):
            items.append(store(name, rng.randint(1, 12)))
    need = least_capacity(buffers, all_views, items)
    factor = capacity if capacity is not None else rng.choice([1.0, 1.1, 1.3, 1.6, 2.5, 6.0])
    return TileGraph(
        machine(
            cmx_bytes=int(need * factor) // 64 * 64,
            dma_ports=ports or rng.randint(1, 4),
            dpus=rng.choice([1, 1, 2]),
            shaves=rng.choice([1, 2]),
            barriers=barriers or rng.choice([2, 3, 4, 8, 16, 64]),
            dma_agents=rng.choice([1, 1, 2]),
            barrier_latency=rng.choice([0, 0, 0, 2]),
            issue_latency=rng.choice([0, 0, 0, 1]),
        ),
        buffers,
        items,
        all_views,
    )


def least_capacity(buffers: list[Buffer], views: list[View], tasks: list[Task]) -> int:
    """What the largest task needs, and one buffer that several tasks fill on top of it."""
    sizes = {buffer.id: -(-buffer.bytes // 64) * 64 for buffer in buffers}
    root = {view.id: view.of for view in views}
    writers: dict[str, int] = {}
    largest = 0
    for task in tasks:
        names = {root.get(name, name) for name in (*task.reads, *task.writes)}
        largest = max(largest, sum(sizes[name] for name in names))
        for name in {root.get(name, name) for name in task.writes}:
            writers[name] = writers.get(name, 0) + 1
    return largest + max((sizes[name] for name, n in writers.items() if n > 1), default=0)


def streaming_layers(tasks: int) -> TileGraph:
    """Layers of products with streamed weights on all tiles of vpu40, and an exchange now and then."""
    chip = preset("vpu40")
    rng = random.Random(0)
    buffers: list[Buffer] = []
    items: list[Task] = []

    def new(name: str, tile: int, size: int) -> str:
        buffers.append(Buffer(name, size, spill_cycles=size // 32, tile=tile))
        return name

    current = [new(f"x{t}", t, 98304) for t in range(chip.tiles)]
    items += [load(name, 3000) for name in current]
    layer = 0
    while len(items) < tasks:
        for t in range(chip.tiles):
            weight = new(f"w{layer}.{t}", t, 131072)
            product = new(f"y{layer}.{t}", t, 98304)
            result = new(f"z{layer}.{t}", t, 98304)
            items.append(load(weight, 4000 + rng.randint(0, 500)))
            cycles = 16000 + rng.randint(0, 3000)
            items.append(dpu(f"D{layer}.{t}", f"{current[t]} {weight}", product, cycles, tile=t))
            pair = ((product, result),)
            items.append(shave(f"H{layer}.{t}", product, result, 9000, tile=t, in_place=pair))
            current[t] = result
        if layer % 4 == 3:
            moved = [new(f"c{layer}.{t}", t, 98304) for t in range(chip.tiles)]
            for t, name in enumerate(moved):
                source = (current[(t + 1) % chip.tiles],)
                items.append(Task(f"X{layer}.{t}", "dma", source, (name,), 1500))
            current = moved
        layer += 1
    items += [store(name, 3000) for name in current]
    return TileGraph(chip, buffers, items)
