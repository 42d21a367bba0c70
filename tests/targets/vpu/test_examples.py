"""The public examples at their best-known values, and the same kinds of cases beyond them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from vpu_graphs import (
    CAPACITY,
    address_edge,
    dpu,
    load,
    machine,
    ping_pong,
    prefetching,
    spilling,
    store,
    three_engines,
)

from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.scheduling.schedule import schedule
from tilewright.targets.vpu.summary import metrics, summary
from tilewright.targets.vpu.tile_graph import Buffer, TileGraph


def checked(graph: TileGraph, **options: bool) -> dict:
    """The summary of a schedule whose list holds in every respect."""
    made = schedule(graph, **options)
    assert verify(made.tasks, graph, jitter=2, strict=True) == []
    assert verify(made.tasks, strict=True) == []
    return summary(made)


def test_clean_data_is_dropped_and_not_written() -> None:
    result = checked(spilling())
    assert (result["makespan"], result["spill_writes"], result["spill_reads"]) == (6, 0, 1)
    assert result["peak_bytes"] <= CAPACITY
    assert result["edges"] == [
        ["L in", "MP"], ["L c", "ADD1"], ["ADD1", "reload in"], ["reload in", "ADD2"],
        ["ADD2", "S b3"],
    ]  # fmt: skip
    assert result["addresses"] == {
        "in": [[0, 0, 2], [589824, 3, 5]], "c": [[589824, 0, 3]], "b1": [[1179648, 1, 3]],
        "b2": [[0, 2, 5]], "b3": [[1179648, 4, 6]],
    }  # fmt: skip
    assert result["barriers"] == {"virtual": 5, "physical": 2, "pool": 64}
    assert result["idle"] == {
        "dpu0": [
            {"from": 0, "to": 1, "why": "dependency"},
            {"from": 3, "to": 4, "why": "memory"},
        ]
    }
    assert result["optimal"]


def test_no_spill_in_place_or_with_room_for_four() -> None:
    for graph in (spilling(in_place=True), spilling(cmx_bytes=4 * 589824)):
        result = checked(graph)
        assert (result["makespan"], result["spill_writes"], result["spill_reads"]) == (5, 0, 0)
    made = schedule(spilling(in_place=True), in_place=False)
    assert made.makespan == 6


def test_a_dirty_buffer_is_written_once_and_read_back_twice() -> None:
    """Room for two: the result r has to leave twice, but DDR needs one copy of it."""
    size = 1024
    tasks = [load("a", 5), dpu("M", "a", "r", 5)]
    names = ["a", "r"]
    for n in range(2):
        tasks += [load(f"w{n}", 5), load(f"v{n}", 5), dpu(f"X{n}", f"w{n} v{n}", "", 30)]
        tasks += [dpu(f"R{n}", "r", "", 5)]
        names += [f"w{n}", f"v{n}"]
    graph = TileGraph(
        machine(cmx_bytes=2 * size),
        [Buffer(name, size, spill_cycles=5) for name in names],
        tasks,
        after=[("M", "X0"), ("X0", "R0"), ("R0", "X1"), ("X1", "R1")],
    )
    result = checked(graph)
    assert (result["spill_writes"], result["spill_reads"]) == (1, 2)


def test_a_store_saves_the_write_back() -> None:
    """What is stored anyway is stored before it leaves: no second transfer."""
    size = 1024
    graph = TileGraph(
        machine(cmx_bytes=2 * size),
        [Buffer(name, size) for name in ("a", "r", "b", "c")],
        [load("a"), dpu("M", "a", "r"), load("b"), load("c"), dpu("X", "b c", ""),
         dpu("R", "r", ""), store("r")],
        after=[("M", "X"), ("X", "R")],
    )  # fmt: skip
    result = checked(graph)
    assert (result["spill_writes"], result["spill_reads"]) == (0, 1)


def test_an_address_edge_orders_the_reuse_of_space() -> None:
    graph = address_edge()
    made = schedule(graph)
    assert made.makespan == 5
    assert summary(made)["peak_bytes"] == 1605632
    assert ["S b1", "MP2"] in summary(made)["edges"]
    assert checked(address_edge(cmx_bytes=3 * 802816))["makespan"] == 4


def test_a_deleted_address_edge_is_a_race() -> None:
    graph = address_edge()
    tasks = schedule(graph).tasks
    reader = next(n for n, t in tasks.tasks.items() if t.task == "S b1")
    writer = next(n for n, t in tasks.tasks.items() if t.task == "MP2")
    shared = set(tasks.tasks[reader].posts) & set(tasks.tasks[writer].waits)
    assert len(shared) == 1
    barrier = shared.pop()
    item = tasks.tasks[writer]
    tasks.tasks[writer] = replace(item, waits=tuple(b for b in item.waits if b != barrier))
    entry = tasks.barriers[barrier]
    tasks.barriers[barrier] = replace(entry, consumers=entry.consumers - 1)
    found = verify(tasks, graph)
    assert any(f.property == "V3" and set(f.tasks) == {reader, writer} for f in found)
    assert any(f.property == "V3" for f in verify(tasks))


def test_the_long_load_comes_first() -> None:
    result = checked(prefetching())
    assert result["makespan"] == 7001
    assert result["optimal"]
    assert checked(prefetching(dma_ports=1))["makespan"] == 9939


def test_the_smallest_peak_at_the_optimum() -> None:
    result = checked(prefetching(), exact=True)
    assert (result["makespan"], result["peak_bytes"]) == (7001, 209920)


@pytest.mark.parametrize("ports", [1, 2])
def test_three_engines_overlap(ports: int) -> None:
    result = checked(three_engines(dma_ports=ports), exact=True)
    assert (result["makespan"], result["lower_bound"], result["strong_bound"]) == (130, 90, 130)
    assert result["peak_bytes"] == 589824


@pytest.mark.parametrize("tiles", [1, 2, 5, 8, 13])
@pytest.mark.parametrize(("loads", "computes"), [(100, 60), (100, 100), (60, 100), (7, 100)])
def test_ping_pong_meets_its_closed_form(tiles: int, loads: int, computes: int) -> None:
    for buffers in (1, 2, 3, 4):
        made = schedule(ping_pong(tiles, loads, computes, buffers, ports=1))
        if buffers == 1:
            assert made.makespan == tiles * (loads + computes)
        else:
            longest = max(loads, computes)
            assert made.makespan == loads + (tiles - 1) * longest + computes


def test_ping_pong_with_two_ports() -> None:
    spans = [schedule(ping_pong(8, 100, 60, k, ports=2)).makespan for k in (1, 2, 3, 4)]
    assert spans == [1280, 700, 580, 580]


def test_efficiency_of_prefetching_is_one() -> None:
    assert metrics(schedule(prefetching()))["efficiency"] == 1.0
