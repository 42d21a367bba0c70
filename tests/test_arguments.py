"""Arguments of the wrong kind at the front door: `tw.compile`, programs, `tw.model`, `tw.constant`.

Every one of them is refused with a sentence of ours, or taken; none ends inside the package.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from fresh_seeds import repeatable_seed
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported

TRIED = 250


def small() -> Imported:
    net = ModelBuilder("small")
    net.output("y", net.linear(net.input("x", (4, 16)), 8, "head"))
    return net.build()


@pytest.fixture(scope="module")
def program() -> tw.Program:
    return tw.compile(small())


def things(folder: Path) -> dict[str, Any]:
    (folder / "junk.bin").write_bytes(b"\0\1junk" * 9)
    (folder / "folder").mkdir(exist_ok=True)
    return {
        "None": None, "text": "a", "file": "nofile.onnx", "junk": str(folder / "junk.bin"),
        "folder": str(folder / "folder"), "number": 3, "negative": -1, "real": 1.5, "nan": float("nan"),
        "list": [], "tuple": (), "numbers": (1, 2), "dict": {}, "table": {"x": 1},
        "other": {"q": np.ones((4, 16))}, "array": np.ones((4, 16), np.float32), "short": np.ones(3),
        "objects": np.array([None, "a"]), "complex": np.ones((4, 16), complex), "texts": np.array(["a"]),
        "function": len, "class": int, "True": True, "bytes": b"ab", "ellipsis": ..., "set": {1},
        "nested": [[1, 2], [3]], "huge": 2**80, "error": ValueError("x"),
    }  # fmt: skip


def attempts(program: tw.Program, folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    model = small()
    made: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("compile", tw.compile, (model,)),
        ("load", tw.load, ()),
        ("Program", tw.Program, ()),
        ("EntryPoints", tw.EntryPoints, ()),
        ("model", tw.model, ()),
        ("constant", tw.constant, (1.0,)),
        ("verify", program.verify, ()),
        ("report", program.report, ()),
        ("save", program.save, ()),
        ("run", program.run, ()),
        ("call", program, ()),
    ]
    for thing, value in things(folder).items():
        for name, call, first in made:
            yield f"{name}({thing})", lambda c=call, v=value: c(v)
            for parameter in [*inspect.signature(call).parameters.values()][len(first) :]:
                if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    continue
                if parameter.kind is parameter.POSITIONAL_ONLY or parameter.name == "progress":
                    continue
                given = {parameter.name: value}
                yield (
                    f"{name}({parameter.name}={thing})",
                    lambda c=call, f=first, g=given: c(*f, **g),
                )


def test_wrong_arguments_are_said(
    program: tw.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    choose = random.Random(repeatable_seed())
    everything = list(attempts(program, tmp_path))
    assert len(everything) > 900
    for name, attempt in choose.sample(everything, TRIED):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                attempt()
        except TilewrightError:
            pass
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            assert last.filename == __file__, f"{name}: {type(error).__name__}: {error} at {last}"


SENTENCES: list[tuple[dict[str, Any], str]] = [
    ({"fuse": np.ones(3)}, "fuse is True or False, not something of type ndarray"),
    ({"keep": 3}, "keep is a list of layers' names, not 3"),
    ({"keep": ["head", None]}, "keep is a list of layers' names, not something of type list"),
    ({"seed": -1}, "seed is a whole number from 0 on, not -1"),
    ({"seed": "1"}, "seed is a whole number from 0 on, not '1'"),
    ({"accuracy": None}, "accuracy is a number, not None"),
    ({"smooth": "half"}, "smooth is a number, not 'half'"),
    ({"target": 3}, "a target is a name, a file, a machine or a profile, not int"),
    ({"shapes": [1]}, "shapes is a table by name, not something of type list"),
    ({"progress": None}, "progress is a function of a phase and a detail, not None"),
    ({"keep": "tail"}, "the model has no layer 'tail'"),
]


@pytest.mark.parametrize(("given", "sentence"), SENTENCES)
def test_sentences(given: dict[str, Any], sentence: str):
    with pytest.raises(TilewrightError) as error:
        tw.compile(small(), **given)
    assert error.value.message == sentence


def test_one_layer_alone_is_its_name():
    alone, listed = (tw.compile(small(), keep=given) for given in ("head", ["head"]))
    assert alone.model.provenance["options"] == listed.model.provenance["options"]
    assert alone.model.provenance["options"]["keep"] == ["head"]


def test_verify_takes_what_a_call_takes(program: tw.Program):
    x = np.random.default_rng(1).normal(size=(4, 16)).astype(np.float32)
    found = [program.verify(given) for given in (x, (x,), [x], {"x": x})]
    assert all(one.ok for one in found)
    for one in found[1:]:
        assert str(one) == str(found[0])
    with pytest.raises(TilewrightError, match="2 inputs were given, small takes 1"):
        program.verify((x, x))
    with pytest.raises(TilewrightError) as error:
        program.verify(x=x)
    assert error.value.hint == 'inputs are given as a table: verify({"x": …})'
    with pytest.raises(TilewrightError) as error:
        program.verify(per_layers=True)
    assert error.value.hint == "did you mean per_layer?"
