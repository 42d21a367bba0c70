"""One model for several batch sizes: entry points that a call chooses from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.cli import main
from tilewright.errors import TilewrightError
from tilewright.runtime.batches import Batches


def model(mixing: bool = False, batch: Any = "rows") -> onnx.ModelProto:
    """A hidden layer and a head; `mixing` takes the mean of the batch from every row."""
    random = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
        for name, shape in (("w", (24, 40)), ("v", (40, 10)), ("table", (7, 10)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["p"]),
        helper.make_node("Gather", ["table", "id"], ["t"]),
        helper.make_node("Add", ["p", "t"], ["s"]),
    ]
    if mixing:
        nodes.append(helper.make_node("ReduceMean", ["s"], ["m"], axes=[0], keepdims=1))
        nodes.append(helper.make_node("Sub", ["s", "m"], ["y"]))
    else:
        nodes.append(helper.make_node("Identity", ["s"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "classifier",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 24]),
            helper.make_tensor_value_info("id", TensorProto.INT64, [batch]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(count)
    x = random.normal(size=(count, 24)).astype(np.float32)
    return x, random.integers(0, 7, count)


def status(arguments: list[str]) -> Any:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.fixture(scope="module")
def program() -> Any:
    return tw.compile(model(), batch=[4, 1, 8])


def test_a_call_takes_any_number_of_rows(program: Any):
    assert list(program) == ["batch_1", "batch_4", "batch_8"]
    x, ids = rows(19)
    y = program(x, ids)
    assert y.shape == (19, 10)
    alone = np.concatenate([program["batch_1"](x[k : k + 1], ids[k : k + 1]) for k in range(19)])
    assert np.array_equal(y, alone)  # a row does not depend on who is beside it
    weights = {w.name: numpy_helper.to_array(w) for w in model().graph.initializer}
    exact = np.maximum(x @ weights["w"], 0) @ weights["v"] + weights["table"][ids]
    assert np.linalg.norm(y - exact) < 0.1 * np.linalg.norm(exact)
    assert program.verify().ok


def test_pieces_of_a_batch():
    batches = Batches((1, 4, 8), frozenset("x"), frozenset("y"), True)
    assert batches.pieces(4) == [(4, 0, 4)]
    assert batches.pieces(3) == [(4, 0, 3)]
    assert batches.pieces(19) == [(8, 0, 8), (8, 8, 8), (4, 16, 3)]
    for count in range(1, 40):
        covered = [
            n for _, start, size in batches.pieces(count) for n in range(start, start + size)
        ]
        assert covered == list(range(count))


def test_rows_that_see_each_other_are_not_cut():
    mixing = tw.compile(model(mixing=True), batch=[2, 4])
    assert mixing(*rows(4)).shape == (4, 10)
    with pytest.raises(TilewrightError, match=r"TW3153.*batch of 3.*depend on each other"):
        mixing(*rows(3))


def test_one_file(program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program.save(tmp_path / "a.twb")
    again = tw.load(tmp_path / "a.twb")
    assert np.array_equal(again(*rows(6)), program(*rows(6)))
    onnx.save(model(), tmp_path / "model.onnx")
    given = [
        "compile",
        str(tmp_path / "model.onnx"),
        "--batch",
        "1,8",
        "-o",
        str(tmp_path / "b.twb"),
    ]
    assert status(given) == 0
    assert "entry point batch_8" in capsys.readouterr().out
    assert tw.load(tmp_path / "b.twb")(*rows(3)).shape == (3, 10)


@pytest.mark.parametrize(
    ("sizes", "batch", "message"),
    [
        ([], "rows", "no batch sizes"),
        ([0], "rows", "no batch sizes"),
        ("4", "rows", "no batch sizes"),
        ([2], 4, "one batch size"),
    ],
)
def test_sizes_that_cannot_be(sizes: Any, batch: Any, message: str):
    with pytest.raises(TilewrightError, match=message):
        tw.compile(model(batch=batch), batch=sizes)


def test_inputs_of_different_lengths(program: Any):
    x, ids = rows(5)
    with pytest.raises(TilewrightError, match=r"TW3153.*different numbers of rows"):
        program(x, ids[:3])
    with pytest.raises(TilewrightError, match="TW3120"):
        program(x)


@pytest.mark.parametrize("text", ["x", "1,,2", "-1"])
def test_the_option(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert status(["compile", "m.onnx", "--batch", text, "-o", str(tmp_path / "x.twb")]) == 2
    assert "TW0049" in capsys.readouterr().err
