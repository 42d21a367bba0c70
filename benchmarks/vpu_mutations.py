"""Damaged VPU task lists: how many that can go wrong the verifier finds.

    python benchmarks/vpu_mutations.py [--lists N] [--mutants N] [--seed S]

A list is damaged by deleting a wait or a post (counts adjusted), swapping neighbours of a queue,
or shifting an address. Whether a mutant can go wrong is decided without the verifier: on small
lists by trying every interleaving of starts and ends with values, on large ones by the order of
all pairs of accesses to a byte, and one run with values. The exit code is 1 below 99 %.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "targets" / "vpu"))

from vpu_graphs import random_graph

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.scheduling.schedule import schedule
from tilewright.targets.vpu.simulator import Options, jittered
from tilewright.targets.vpu.task_list import TaskList
from tilewright.targets.vpu.values import ValueMachine, run_values

SMALL = 9  # tasks up to which all interleavings are tried
_MOST_STATES = 60_000


def mutants(tasks: TaskList, count: int, seed: int) -> Iterator[tuple[str, TaskList]]:
    """Random damages of all kinds."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.choice(["wait", "post", "swap", "shift"])
        found = DAMAGES[kind](tasks, rng)
        if found is not None:
            yield kind, found


def _drop(tasks: TaskList, rng: random.Random, side: str) -> TaskList | None:
    """Delete one end of a barrier; a barrier without users on one side goes altogether."""
    users = [(name, b) for name, item in tasks.tasks.items() for b in getattr(item, side)]
    if not users:
        return None
    name, barrier = rng.choice(users)
    items = dict(tasks.tasks)
    item = items[name]
    left = tuple(b for b in getattr(item, side) if b != barrier)
    items[name] = replace(item, **{side: left})
    barriers = list(tasks.barriers)
    entry = barriers[barrier]
    key = "consumers" if side == "waits" else "producers"
    barriers[barrier] = replace(entry, **{key: getattr(entry, key) - item.slots})
    if getattr(barriers[barrier], key) == 0:
        del barriers[barrier]

        def renumbered(ids: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(b - (b > barrier) for b in ids if b != barrier)

        items = {
            n: replace(i, waits=renumbered(i.waits), posts=renumbered(i.posts))
            for n, i in items.items()
        }
    return replace(tasks, tasks=items, barriers=barriers)


def _swap(tasks: TaskList, rng: random.Random) -> TaskList | None:
    queues = [name for name, names in tasks.queues.items() if len(names) > 1]
    if not queues:
        return None
    queue = rng.choice(queues)
    names = list(tasks.queues[queue])
    place = rng.randrange(len(names) - 1)
    names[place], names[place + 1] = names[place + 1], names[place]
    return replace(tasks, queues={**tasks.queues, queue: names})


def _shift(tasks: TaskList, rng: random.Random) -> TaskList | None:
    name = rng.choice(list(tasks.tasks))
    item = tasks.tasks[name]
    side = rng.choice([s for s in ("reads", "writes") if getattr(item, s)] or ["reads"])
    ranges = list(getattr(item, side))
    if not ranges:
        return None
    place = rng.randrange(len(ranges))
    step = rng.choice([-128, -64, 64, 128, 192])
    if ranges[place].address + step < 0:
        step = -step
    moved = replace(ranges[place], address=ranges[place].address + step)
    ranges[place] = moved
    return replace(tasks, tasks={**tasks.tasks, name: replace(item, **{side: tuple(ranges)})})


DAMAGES = {
    "wait": lambda tasks, rng: _drop(tasks, rng, "waits"),
    "post": lambda tasks, rng: _drop(tasks, rng, "posts"),
    "swap": _swap,
    "shift": _shift,
}


# --- Whether a mutant can go wrong ---------------------------------------------------------


def goes_wrong_somehow(tasks: TaskList, good: dict[str, bytes]) -> bool | None:
    """All interleavings of starts and ends; None if there are too many."""
    names = list(tasks.tasks)
    number = {name: n for n, name in enumerate(names)}
    items = list(tasks.tasks.values())
    queues = [
        ([number[n] for n in q], tasks.engines_behind(name)) for name, q in tasks.queues.items()
    ]
    chains = _chains(tasks)
    seen: set[bytes] = set()
    stack: list[tuple[tuple[int, ...], ValueMachine]] = []
    stack.append((tuple([0] * len(names)), ValueMachine(tasks, {}, {}, None, 0)))
    while stack:
        state, memory = stack.pop()
        key = bytes(state) + b"".join(m.tobytes() for m in memory.spaces.values())
        key += b"".join(v.tobytes() for n in sorted(memory.taken) for v in memory.taken[n])
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > _MOST_STATES:
            return None
        if memory.torn:
            return True
        moves = [("end", n) for n, s in enumerate(state) if s == 1]
        moves += [("start", n) for n in _startable(state, items, queues, chains, tasks)]
        if not moves:
            if any(s != 2 for s in state):
                return True  # deadlock
            if _stored(tasks, memory) != good:
                return True
            continue
        for what, task in moves:
            after = _copied(memory)
            getattr(after, what)(task, 0)
            changed = list(state)
            changed[task] += 1
            stack.append((tuple(changed), after))
    return False


def _chains(tasks: TaskList) -> dict[int, int]:
    """The barrier before each on the same physical id."""
    before, last = {}, {}
    for number, barrier in enumerate(tasks.barriers):
        if barrier.physical in last:
            before[number] = last[barrier.physical]
        last[barrier.physical] = number
    return before


def _startable(state, items, queues, chains, tasks) -> Iterator[int]:
    producers = [b.producers for b in tasks.barriers]
    consumers = [b.consumers for b in tasks.barriers]
    for task, item in enumerate(items):
        for barrier in item.posts:
            producers[barrier] -= item.slots * (state[task] == 2)
        for barrier in item.waits:
            consumers[barrier] -= item.slots * (state[task] >= 1)

    after = {old: new for new, old in chains.items()}

    def mapped(barrier: int) -> bool:
        """Its turn has come, and it is not over yet or nobody follows."""
        if barrier in chains and (consumers[chains[barrier]] > 0 or not passed(chains[barrier])):
            return False
        return not (barrier in after and consumers[barrier] <= 0)

    def passed(barrier: int) -> bool:
        return barrier not in chains or (
            consumers[chains[barrier]] <= 0 and passed(chains[barrier])
        )

    blocked = set()
    heads: dict[int, int] = {}
    stands: dict[int, int] = {}
    for queue, engines in queues:
        running = sum(state[t] == 1 for t in queue)
        for task in queue:
            stands[task] = stands.get(task, 0) + 1
        left = [t for t in queue if state[t] == 0]
        if left and running < engines:
            heads[left[0]] = heads.get(left[0], 0) + 1
        blocked.update(left[1:])
    for task, count in heads.items():
        item = items[task]
        if count < stands[task] or task in blocked:
            continue
        if all(mapped(b) and producers[b] <= 0 for b in item.waits) and all(
            map(mapped, item.posts)
        ):
            yield task


def _copied(memory: ValueMachine) -> ValueMachine:
    after = object.__new__(ValueMachine)
    after.__dict__.update(memory.__dict__)
    after.spaces = {space: content.copy() for space, content in memory.spaces.items()}
    after.taken = dict(memory.taken)
    after.taken = {n: list(v) for n, v in memory.taken.items()}
    after.torn = list(memory.torn)
    return after


def _stored(tasks: TaskList, memory: ValueMachine) -> dict[str, bytes]:
    return {
        item.task or name: b"".join(
            memory.read(e).tobytes() for e in item.writes if e.space == "ddr"
        )
        for name, item in tasks.tasks.items()
        if item.buffer is None and any(e.space == "ddr" for e in item.writes)
    }


def has_unordered_pair(tasks: TaskList) -> bool | None:
    """Whether two accesses of a byte, one of them a write, are unordered; None for a deadlock."""
    names = list(tasks.tasks)
    number = {name: n for n, name in enumerate(names)}
    items = list(tasks.tasks.values())
    count = len(items)
    arrows: list[set[int]] = [set() for _ in range(2 * count)]  # starts, then ends
    for task in range(count):
        arrows[task].add(count + task)
    for name, queue in tasks.queues.items():
        several = tasks.engines_behind(name) > 1
        for first, second in pairwise(queue):
            arrows[number[first] + (0 if several else count)].add(number[second])
    for first in range(count):
        for second in range(count):
            if set(items[first].posts) & set(items[second].waits):
                arrows[count + first].add(second)
    reach = np.zeros((2 * count, 2 * count), bool)
    for point, targets in enumerate(arrows):
        reach[point, list(targets)] = True
    while True:  # squaring until nothing is new
        further = reach | (reach.astype(np.float32) @ reach.astype(np.float32) > 0)
        if (further == reach).all():
            break
        reach = further
    if reach.diagonal().any():
        return None
    accesses: dict[str, list[tuple[int, int, int, bool]]] = {}
    for task, item in enumerate(items):
        for entries, writes in ((item.reads, False), (item.writes, True)):
            for entry in entries:
                for first, end in entry.runs():
                    accesses.setdefault(entry.space, []).append((first, end, task, writes))
    for found in accesses.values():
        found.sort()
        for place, (_, end, task, writes) in enumerate(found):
            for other_first, _, other, other_writes in found[place + 1 :]:
                if other_first >= end:
                    break
                if task == other or not (writes or other_writes):
                    continue
                if not reach[count + task, other] and not reach[count + other, task]:
                    return True
    return False


def can_go_wrong(tasks: TaskList, good: dict[str, bytes]) -> bool:
    """The truth about a mutant."""
    if len(tasks.tasks) <= SMALL:
        found = goes_wrong_somehow(tasks, good)
        if found is not None:
            return found
    unordered = has_unordered_pair(tasks)
    if unordered is None or unordered:
        return True
    outcome = run_values(tasks)
    return bool(outcome.run.stuck) or outcome.stored != good


def found_by_us(tasks: TaskList, graph, good: dict[str, bytes]) -> bool:
    """Whether the verifier, or a few runs with values, notice."""
    if verify(tasks, graph):
        return True
    for timing in range(1, 4):
        options = Options(durations=jittered(tasks, timing), shuffle_ties=timing)
        outcome = run_values(tasks, options, seed=timing)
        if outcome.run.stuck or outcome.torn or outcome.stored != good:
            return True
    return False


def measure(lists: int, per_list: int, seed: int) -> dict[str, dict[str, int]]:
    """Per kind of damage: mutants that can go wrong, those found, harmless ones, harmless alarms."""
    table = {kind: {"harmful": 0, "found": 0, "harmless": 0, "alarms": 0} for kind in DAMAGES}
    for number in range(lists):
        rng = random.Random(seed * 1000 + number)
        size = rng.choice([5, 6, 7, 20, 40, 80])
        graph = random_graph(seed * 1000 + number, size, capacity=rng.choice([1.0, 1.2, 1.5, 3.0]))
        try:
            made = schedule(graph)
        except TilewrightError:
            continue
        good = run_values(made.tasks).stored
        for kind, mutant in mutants(made.tasks, per_list, number):
            row = table[kind]
            try:
                harmful = can_go_wrong(mutant, good)
            except TilewrightError:
                continue
            noticed = found_by_us(mutant, graph, good)
            row["harmful" if harmful else "harmless"] += 1
            row["found"] += harmful and noticed
            row["alarms"] += noticed and not harmful
            if harmful and not noticed:
                print(f"missed: list {seed * 1000 + number}, {kind}", file=sys.stderr)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lists", type=int, default=20)
    parser.add_argument("--mutants", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    table = measure(chosen.lists, chosen.mutants, chosen.seed)
    print(f"{'damage':8} {'can go wrong':>12} {'found':>7} {'harmless':>9} {'reported though':>16}")
    harmful = found = 0
    for kind, row in table.items():
        print(
            f"{kind:8} {row['harmful']:12} {row['found']:7} {row['harmless']:9} {row['alarms']:16}"
        )
        harmful += row["harmful"]
        found += row["found"]
    rate = 100 * found / max(1, harmful)
    print(f"found {found} of {harmful}: {rate:.2f} %")
    return 0 if rate >= 99 else 1


if __name__ == "__main__":
    sys.exit(main())
