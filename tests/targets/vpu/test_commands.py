"""`tilewright vpu`: the documented files and commands, and errors that say what has to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from test_barriers import TEN, list_of
from vpu_graphs import prefetching, spilling

from tilewright.cli import main
from tilewright.targets.vpu.graph_file import graph_json
from tilewright.targets.vpu.list_file import list_binary, list_json, list_text, read_list


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit code and output of a command; JSON is parsed."""
    with pytest.raises(SystemExit) as ended:
        main(["vpu", *arguments])
    text = capsys.readouterr()
    output = text.out or text.err
    code = ended.value.code
    return int(code or 0), json.loads(output) if "--json" in arguments else output


def saved(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


@pytest.fixture
def graph(tmp_path: Path) -> str:
    return saved(tmp_path / "a1.json", graph_json(spilling()))


def test_schedule_and_verify(graph: str, tmp_path: Path, capsys) -> None:
    out = str(tmp_path / "list.json")
    code, result = run(capsys, "schedule", graph, "-o", out, "--json")
    assert code == 0 and result["makespan"] == 6
    assert list(result) == [
        "makespan", "lower_bound", "strong_bound", "optimal", "peak_bytes", "spill_writes",
        "spill_reads", "spill_bytes", "addresses", "tasks", "edges", "barriers", "idle",
    ]  # fmt: skip
    code, answer = run(
        capsys, "verify", out, "--graph", graph, "--jitter", "4", "--strict", "--json"
    )
    assert code == 0 and answer == {"ok": True, "findings": []}
    text = Path(out).read_text()
    assert list_text(read_list(out)) == text


def test_binary_lists(graph: str, tmp_path: Path, capsys) -> None:
    out = str(tmp_path / "list.bin")
    assert run(capsys, "schedule", graph, "-o", out)[0] == 0
    assert run(capsys, "verify", out, "--graph", graph)[0] == 0
    content = Path(out).read_bytes()
    assert list_binary(read_list(out)) == content
    for place in (9, 21, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        Path(out).write_bytes(bytes(damaged))
        code, text = run(capsys, "verify", out)
        assert code == 2 and "damaged" in text
    Path(out).write_bytes(content[:40])
    assert run(capsys, "verify", out)[0] == 2


def test_options_replace_the_target(graph: str, capsys) -> None:
    assert run(capsys, "schedule", graph, "--cmx", str(4 * 589824), "--json")[1]["makespan"] == 5
    assert run(capsys, "schedule", graph, "--ports", "1", "--json")[1]["makespan"] == 6
    result = run(capsys, "schedule", graph, "--barriers", "2", "--json")[1]
    assert result["barriers"]["pool"] == 2
    code, error = run(capsys, "schedule", graph, "--barriers", "0", "--json")
    assert code == 2 and "barriers" in error["errors"][0]["message"]


def test_pictures(tmp_path: Path, capsys) -> None:
    graph = saved(tmp_path / "a1.json", graph_json(spilling()))
    trace, lanes, memory = (str(tmp_path / n) for n in ("t.json", "t.svg", "m.svg"))
    code, _ = run(capsys, "schedule", graph, "--trace", trace, "--timeline", lanes,
                  "--memory-map", memory)  # fmt: skip
    assert code == 0
    names = {event["name"] for event in json.loads(Path(trace).read_text())["traceEvents"]}
    assert {"reload in", "idle: memory", "ADD2"} <= names
    assert "reload in" in Path(lanes).read_text()
    assert Path(memory).read_text().count("<rect") == 6  # five buffers, one of them twice
    for picture in (lanes, memory):
        ElementTree.fromstring(Path(picture).read_text())


def test_barriers_command(tmp_path: Path, capsys) -> None:
    path = saved(tmp_path / "b1.json", list_json(list_of(TEN)))
    code, answer = run(capsys, "barriers", path, "--pool", "4", "--as-given", "--json")
    assert code == 0
    assert answer == {
        "feasible": True, "physical": [0, 1, 2, 3, 0, 1, 2, 3, 1, 2], "minimum_pool": 3, "changes": [],
    }  # fmt: skip
    code, answer = run(capsys, "barriers", path, "--pool", "2", "--as-given", "--json")
    assert code == 1 and answer["feasible"] is False
    out = str(tmp_path / "out.json")
    assert run(capsys, "barriers", path, "--pool", "2", "-o", out, "--json")[0] == 0
    assert run(capsys, "verify", out, "--strict", "--json")[0] == 0
    assert run(capsys, "barriers", path, "--pool", "0", "--json")[0] == 2


def edges_of(tmp_path: Path, capsys, *tasks: tuple[list, list]) -> list[list[str]]:
    names = [f"t{n}" for n in range(len(tasks))]
    value = {
        "format": "tilewright-vpu-list", "version": 1, "queues": {}, "order": names,
        "tasks": {n: {"reads": r, "writes": w} for n, (r, w) in zip(names, tasks, strict=True)},
    }  # fmt: skip
    code, answer = run(capsys, "edges", saved(tmp_path / "e.json", value), "--json")
    assert code == 0
    return answer["edges"]


def test_edges_between_readers_and_writers(tmp_path: Path, capsys) -> None:
    low, high, both = ["cmx", 0, 64], ["cmx", 64, 64], ["cmx", 0, 128]
    found = edges_of(
        tmp_path, capsys, ([], [both]), ([low], []), ([both], []), ([], [low]), ([both], []),
        ([], [both]),
    )  # fmt: skip
    assert found == [
        ["t0", "t1", "RAW"], ["t0", "t2", "RAW"], ["t1", "t3", "WAR"], ["t2", "t3", "WAR"],
        ["t0", "t4", "RAW"], ["t3", "t4", "RAW"], ["t2", "t5", "WAR"], ["t4", "t5", "WAR"],
    ]  # fmt: skip
    assert high == ["cmx", 64, 64]


def test_waw_only_where_nobody_read(tmp_path: Path, capsys) -> None:
    whole = ["cmx", 0, 64]
    assert edges_of(tmp_path, capsys, ([], [whole]), ([], [whole])) == [["t0", "t1", "WAW"]]
    accumulate = edges_of(tmp_path, capsys, ([], [whole]), ([whole], [whole]), ([whole], [whole]))
    assert accumulate == [["t0", "t1", "RAW"], ["t1", "t2", "RAW"]]


def test_strided_views_of_one_buffer_are_apart(tmp_path: Path, capsys) -> None:
    even, odd = ["cmx", 0, 32, 4, 64], ["cmx", 32, 32, 4, 64]
    found = edges_of(tmp_path, capsys, ([], [even]), ([], [odd]), ([["cmx", 0, 256]], []))
    assert found == [["t0", "t2", "RAW"], ["t1", "t2", "RAW"]]


def bad(change: Any) -> dict[str, Any]:
    value = graph_json(prefetching())
    change(value)
    return value


BAD_GRAPHS = {
    "unknown key 'colour'": lambda g: g.update(colour=1),
    "unknown key 'speed'": lambda g: g["tasks"][0].update(speed=1),
    "the key 'cycles' is missing": lambda g: g["tasks"][0].pop("cycles"),
    "cycles has to be a whole number": lambda g: g["tasks"][0].update(cycles=0),
    "two tasks are called": lambda g: g["tasks"].append(g["tasks"][0]),
    "which is no buffer and no view": lambda g: g["tasks"][3].update(reads=["ghost"]),
    "in a cycle": lambda g: g.update(after=[["conv2", "conv1"]]),
    "which no task writes": lambda g: g["tasks"].pop(0),
    "only later": lambda g: g["tasks"].append(g["tasks"].pop(0)),
    "both write byte 0": lambda g: g["tasks"].insert(1, {**g["tasks"][0], "id": "L2"}),
    "needs 161792 bytes of CMX": lambda g: g["target"].update(cmx_bytes=150000),
    "there is no engine 'gpu'": lambda g: g["tasks"][3].update(engine="gpu"),
    "no VPU preset": lambda g: g.update(target="vpu99"),
    "version 2": lambda g: g.update(version=2),
    "its format is": lambda g: g.update(format="tilewright-vpu-list"),
    "barriers has to be": lambda g: g["target"].update(barriers=0),
    "occupies 3 ports": lambda g: g["tasks"][0].update(ports=3),
    "counts 200 slots": lambda g: g["tasks"][3].update(slots=200),
    "runs on tile 4": lambda g: g["tasks"][3].update(tile=4),
    "lies on tile 1": lambda g: g["buffers"][0].update(tile=1),
    "ends at byte 20000": lambda g: g.update(
        views=[{"id": "v", "of": "in", "offset": 0, "bytes": 20000}]
    ),
    "has to name whole buffers": lambda g: g["tasks"][3].update(in_place=[["in", "ghost"]]),
    "the output has 8192 bytes, the input 1024": lambda g: g["tasks"][3].update(
        in_place=[["t1", "a"]]
    ),
}


@pytest.mark.parametrize("words", BAD_GRAPHS)
def test_bad_graphs_are_clear_errors(words: str, tmp_path: Path, capsys) -> None:
    path = saved(tmp_path / "bad.json", bad(BAD_GRAPHS[words]))
    code, answer = run(capsys, "schedule", path, "--json")
    assert code == 2
    assert words in answer["errors"][0]["message"], answer


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":1,"a":2}'])
def test_files_that_are_no_graphs(content: bytes, tmp_path: Path, capsys) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    for command in ("schedule", "verify"):
        assert run(capsys, command, str(path), "--json")[0] == 2


def test_edges_need_an_order(graph: str, tmp_path: Path, capsys) -> None:
    out = str(tmp_path / "list.json")
    run(capsys, "schedule", graph, "-o", out)
    assert run(capsys, "edges", out, "--json")[0] == 2
