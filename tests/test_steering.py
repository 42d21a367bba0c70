"""A goal of accuracy: reached by layers that are kept, the cheapest that were found, or a clear error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.cli import main
from tilewright.compiling import steering
from tilewright.compiling.steering import pattern
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.io.content_cache import caching
from tilewright.model.options import CompileOptions
from tilewright.reference.executor import Executor


def three_layers() -> Imported:
    """A factory: `tilewright compile test_steering:three_layers`."""
    net = ModelBuilder("three")
    x = net.input("x", (20, 48))
    for number in range(2):
        x = net.relu(net.linear(x, 64, f"blocks.{number}.fc"))
    net.output("y", net.linear(x, 40, "head"))
    return net.build()


def cosine(model: Imported, program: Any, x: np.ndarray) -> float:
    (wanted,) = Executor(model.module, model.weights).run([x])
    a, b = (np.asarray(array, np.float64).reshape(-1) for array in (program(x), wanted))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path) -> Iterator[None]:
    """Steering compiles again and again."""
    with caching(tmp_path / "cache"):
        yield


def test_a_goal_is_reached_on_what_was_measured() -> None:
    model = three_layers()
    x = np.random.default_rng(5).standard_normal((20, 48)).astype(np.float32)
    plain = tw.compile(model, calibrate={"x": x}, accuracy=0.5)
    first = plain.model.provenance["accuracy_goal"]
    assert first["chosen"]["keep"] == [] and len(first["choices"]) == 1
    assert first["chosen"]["cosine"] == pytest.approx(cosine(model, plain, x), abs=1e-9)
    assert first["chosen"]["cycles"] == plain.cycles
    low = first["chosen"]["cosine"]
    best = tw.compile(model, calibrate={"x": x}, keep=["blocks", "head"])
    high = cosine(model, best, x)
    assert high > low
    goal = low + 0.6 * (high - low)
    program = tw.compile(model, calibrate={"x": x}, accuracy=goal)
    found = program.model.provenance["accuracy_goal"]
    assert found["goal"] == goal and found["chosen"] in found["choices"]
    assert found["chosen"]["cosine"] == pytest.approx(cosine(model, program, x), abs=1e-9)
    assert found["chosen"]["cosine"] >= goal
    assert plain.cycles < found["chosen"]["cycles"] == program.cycles <= best.cycles
    assert set(found["chosen"]["keep"]) <= {"blocks.*.fc", "head"}
    enough = [row["cycles"] for row in found["choices"] if row["cosine"] >= goal]
    assert found["chosen"]["cycles"] == min(enough)
    assert program.verify().ok
    with pytest.raises(tw.TilewrightError, match=r"is not reached: keeping .*head.* gives 0\.9"):
        tw.compile(model, calibrate={"x": x}, accuracy=0.9999999)


def test_all_samples_count() -> None:
    model = three_layers()
    random = np.random.default_rng(1)
    samples = [{"x": random.standard_normal((20, 48)).astype(np.float32)} for _ in range(3)]
    program = tw.compile(model, calibrate=samples, accuracy=0.1)
    each = [cosine(model, program, sample["x"]) for sample in samples]
    measured = program.model.provenance["accuracy_goal"]["chosen"]["cosine"]
    assert measured == pytest.approx(min(each), abs=1e-9)


def test_goals_that_make_no_sense() -> None:
    model = three_layers()
    for goal in (1.0, 2.5, float("nan"), -1.1):
        with pytest.raises(tw.TilewrightError, match="is no cosine to reach"):
            tw.compile(model, accuracy=goal)
    with pytest.raises(tw.TilewrightError, match="cannot keep some layers"):
        tw.compile(model, target="vpu40", accuracy=0.9)
    with pytest.raises(tw.TilewrightError, match="entry point a: a cosine of 1 is not reached"):
        tw.compile({"a": model}, accuracy=0.9999999)
    with pytest.raises(tw.TilewrightError, match="that of one batch size"):
        tw.compile(model, accuracy=0.9, batch=[1, 2])
    net = ModelBuilder("sums")
    net.output("y", net.relu(net.input("x", (8, 40))))
    with pytest.raises(tw.TilewrightError, match="none of the model's layers can be kept"):
        tw.compile(net.build(), accuracy=0.9999999999)


@pytest.mark.parametrize(
    ("layer", "group"),
    [
        ("blocks.3.fc1", "blocks.*.fc1"),
        ("12", "*"),
        ("layer2.0.conv1", "layer2.*.conv1"),
        ("h.0.mlp.10", "h.*.mlp.*"),
        ("fc", "fc"),
    ],
)
def test_layers_are_grouped_by_name(layer: str, group: str) -> None:
    assert pattern(layer) == group


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_nothing_needless_is_kept(groups: list[tuple[int, int]], need: int) -> None:
    """On a model whose layers gain and cost what the table says."""
    names = [f"layer{k}" for k in range(len(groups))]
    table = dict(zip(names, groups, strict=True))
    steps = [SimpleNamespace(sources=[f"{name}: matmul"]) for name in names]

    def compiled(options: CompileOptions) -> Any:
        artifact = SimpleNamespace(steps=steps)
        return SimpleNamespace(artifact=artifact, kept=options.keep, provenance={})

    class Search(steering._Search):
        def _ran(self, model: Any) -> tuple[float, int]:
            gain = sum(table[name][0] for name in model.kept)
            return gain / 1000, 1000 + sum(table[name][1] for name in model.kept)

    model = three_layers()
    search = Search(model, CompileOptions(), [], need / 1000, compiled, names, lambda *_: None)
    if sum(gain for gain, _ in groups) < need:
        with pytest.raises(tw.TilewrightError, match="is not reached"):
            search.run()
        return
    kept = cast(Any, search.run()).kept
    assert sum(table[name][0] for name in kept) >= need
    for name in kept:
        assert sum(table[other][0] for other in kept if other != name) < need
    # What adds up is found, unless sets that nearly do are cheaper.
    sets = [
        (sum(cost for _, cost in some), sum(gain for gain, _ in some))
        for count in range(1, len(groups) + 1)
        for some in combinations([row for row in groups if row[0]], count)
    ]
    best = min((cost for cost, gain in sets if gain >= need), default=0)
    nearly = [cost for cost, gain in sets if 0.899 * need <= gain < need and cost <= best]
    if len(nearly) < steering.TRIES:
        assert sum(table[name][1] for name in kept) == best


# --- the command --------------------------------------------------------------------------


def compiled(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["compile", *arguments])
    printed = capsys.readouterr()
    return int(caught.value.code or 0), printed.out + printed.err


def test_the_command_takes_a_number_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = "test_steering:three_layers", str(tmp_path / "o.twb")
    status, text = compiled(capsys, "--accuracy", "0.9", model, "-o", out)
    assert status == 0
    assert re.search(r"accuracy goal 0.9: cosine 0\.9\d+ in [\d,]+ cycles", text)
    assert re.search(r"0\.9\d+ +[\d,]+ +\+0\.0% +none  <- chosen", text)
    status, text = compiled(capsys, "--accuracy", model, "-o", out, "--json")
    assert status == 0
    document = json.loads(text)
    assert "accuracy_goal" not in document["provenance"]
    assert any("cosine" in note for note in document["quantisation"].values())
    status, text = compiled(capsys, model, "-o", out, "--json", "--accuracy=0.5")
    assert json.loads(text)["provenance"]["accuracy_goal"]["goal"] == 0.5
    assert compiled(capsys, model, "-o", out, "--accuracy", "1.5")[0] == 2
    status, text = compiled(capsys, model, "-o", out, "--accuracy=much")
    assert status == 2 and "takes a cosine such as 0.995" in text
    status, text = compiled(capsys, f"a={model}", "-o", out, "--accuracy", "0.9")
    assert status == 0 and "accuracy goal 0.9: cosine 0.9" in text
    np.savez(tmp_path / "a.npz", x=np.ones((20, 48), np.float32))
    given = [f"a={model}", "-o", out, "--calibrate", f"a={tmp_path / 'a.npz'}", "--json"]
    status, text = compiled(capsys, *given)
    made = json.loads(text)["entries"]["a"]
    assert status == 0 and made["provenance"]["calibration"] == "1 samples"
    status, text = compiled(capsys, *given[:3], "--calibrate", "b=a.npz")
    assert status == 2 and "are for no entry point" in text
    status, text = compiled(capsys, *given[:3], "--calibrate-count", "3")
    assert status == 2 and "is about one model" in text
