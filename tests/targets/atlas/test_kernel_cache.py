"""The cache of generated kernels: the same bytes with it, without it, and for other weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import networks
import tilewright
from tilewright.cli import main
from tilewright.compiling import compile_imported
from tilewright.frontend.imported import Imported
from tilewright.io.content_cache import ContentCache, caching
from tilewright.runtime.bundle import save
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.codegen.compile_kernel import Area, Placement
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tuning import Tuning, tuned
from tilewright.targets.atlas.model import joining, kernel_code
from tilewright.targets.atlas.model.kernel_code import (
    Fitting,
    KernelCode,
    Lacking,
    Source,
    from_bytes,
    key_of,
    to_bytes,
)
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.tile.layouts import Layout

V1 = load_profile("atlas-v1")
MODELS: dict[str, Callable[[], Imported]] = {
    "mlp": lambda: networks.mlp(40, 48, 80),
    "cnn": lambda: networks.cnn(12, 8),
    "encoder": lambda: networks.siglip(33, 64, 2, 96, layers=3),
}


def with_other_weights(model: Imported, seed: int) -> Imported:
    """The same network; every weight is another number, of another range."""
    generator = np.random.default_rng(seed)

    def drawn(array: Any) -> np.ndarray:
        array = np.asarray(array)
        factor = generator.uniform(0.2, 4) * generator.uniform(0.5, 1.5, array.shape)
        return (array * factor).astype(array.dtype)

    return replace(model, weights={name: drawn(array) for name, array in model.weights.items()})


def bundle(model: Imported, place: str | Path, folder: Path, target: str = "atlas-v1") -> bytes:
    with caching(place):
        save(compile_imported(model, target), folder / "made.twb")
    return (folder / "made.twb").read_bytes()


def entries(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*/*.entry")}


@pytest.mark.parametrize("target", ["atlas-v1", "atlas-v0"])
@pytest.mark.parametrize("name", MODELS)
def test_bytes_are_those_of_a_fresh_compile(name: str, target: str, tmp_path: Path) -> None:
    model, cache = MODELS[name](), tmp_path / "cache"
    fresh = bundle(model, "off", tmp_path, target)
    assert not cache.exists()
    assert bundle(model, cache, tmp_path, target) == fresh
    known = entries(cache)
    assert known
    assert bundle(model, cache, tmp_path, target) == fresh
    assert entries(cache) == known, "everything was known"
    for seed in (1, 2):
        other = with_other_weights(model, seed)
        wanted = bundle(other, "off", tmp_path, target)
        assert wanted != fresh
        assert bundle(other, cache, tmp_path, target) == wanted


@pytest.mark.parametrize("name", MODELS)
def test_no_weight_is_in_an_entry(name: str, tmp_path: Path) -> None:
    """Entries that other weights make under the same key are equal; most keys are the same."""
    model = MODELS[name]()
    bundle(model, tmp_path / "a", tmp_path)
    bundle(with_other_weights(model, 3), tmp_path / "b", tmp_path)
    one, two = entries(tmp_path / "a"), entries(tmp_path / "b")
    common = one.keys() & two.keys()
    assert common
    assert all(one[key] == two[key] for key in common)


def test_what_is_known_is_not_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = networks.mlp(40, 48, 80)
    fresh = bundle(model, tmp_path / "cache", tmp_path)

    def fail(*_: Any, **__: Any) -> Program:
        raise AssertionError("this kernel was known")

    monkeypatch.setattr(Routine, "compile", fail)
    monkeypatch.setattr(joining, "joined", fail)
    assert bundle(model, tmp_path / "cache", tmp_path) == fresh
    with pytest.raises(AssertionError, match="was known"):
        bundle(model, "off", tmp_path)
    with tuned(body_instructions=2999), pytest.raises(AssertionError, match="was known"):
        bundle(model, tmp_path / "cache", tmp_path)
    monkeypatch.setattr(kernel_code, "generator_digest", lambda: "another code generator")
    with pytest.raises(AssertionError, match="was known"):
        bundle(model, tmp_path / "cache", tmp_path)


def test_known_kernels_compute_what_they_should(tmp_path: Path) -> None:
    model = with_other_weights(MODELS["encoder"](), 4)
    with caching(tmp_path / "cache"):
        compile_imported(MODELS["encoder"]())
        compiled = compile_imported(model)
    assert verify(compiled).ok


@pytest.mark.parametrize("spoil", ["cut", "flipped", "emptied", "swapped", "folder"])
def test_spoiled_entries_are_made_again(spoil: str, tmp_path: Path) -> None:
    model, cache = networks.mlp(40, 48, 80), tmp_path / "cache"
    fresh = bundle(model, cache, tmp_path)
    paths = sorted(cache.glob("*/*.entry"))
    contents = [path.read_bytes() for path in paths]
    for number, path in enumerate(paths):
        raw = contents[number]
        if spoil == "cut":
            path.write_bytes(raw[: len(raw) // 2])
        elif spoil == "flipped":
            path.write_bytes(raw[:-5] + bytes([raw[-5] ^ 16]) + raw[-4:])
        elif spoil == "emptied":
            path.write_bytes(b"")
        elif spoil == "swapped":
            path.write_bytes(contents[number - 1])
        else:
            path.unlink()
            path.mkdir()
    assert bundle(model, cache, tmp_path) == fresh
    if spoil != "folder":
        assert [path.read_bytes() for path in paths] == contents


def test_entries_that_are_whole_but_make_no_sense_are_made_again(tmp_path: Path) -> None:
    model, folder = networks.mlp(40, 48, 80), tmp_path / "cache"
    fresh = bundle(model, folder, tmp_path)
    cache = ContentCache(folder)
    for path in folder.glob("*/*.entry"):
        raw = path.read_bytes()
        size = int.from_bytes(raw[40:48], "little")
        cache.put(raw[56 : 56 + size], b'{"lacking": "much"}\n')
    assert bundle(model, folder, tmp_path) == fresh


# --- keys -----------------------------------------------------------------------------------


def key(**changes: Any) -> bytes | None:
    """The key of some launch, with something else than usual."""
    placed = changes.pop("placed", Placed(Layout((32, 64), "bf16"), 4096))
    area = changes.pop("area", Area(0, 65536))
    given = {
        "kernel": "norm",
        "options": {"kind": "rms", "factor": 2.0, "steps": [["mul", "t0", ["x0", "x1"]]]},
        "placement": Placement({"x": placed}, changes.pop("constants", 8192), area),
        "profile": V1,
        "short": False,
    }
    return key_of(Source(**{**given, **changes}))


LAYOUT = Layout((32, 64), "bf16")
DIFFERENT: dict[str, dict[str, Any]] = {
    "kernel": {"kernel": "softmax"},
    "option": {"options": {"kind": "rms", "factor": 4.0, "steps": [["mul", "t0", ["x0", "x1"]]]}},
    "type of a number": {
        "options": {"kind": "rms", "factor": 2, "steps": [["mul", "t0", ["x0", "x1"]]]}
    },
    "order of a list": {
        "options": {"kind": "rms", "factor": 2.0, "steps": [["mul", "t0", ["x1", "x0"]]]}
    },
    "missing option": {"options": {"kind": "rms", "factor": 2.0}},
    "address": {"placed": Placed(LAYOUT, 8192)},
    "memory": {"placed": Placed(LAYOUT, 4096, on_chip=True)},
    "rounds": {"placed": Placed(LAYOUT, 4096, rounds=True)},
    "copy": {"placed": Placed(LAYOUT, 4096, copy=0)},
    "changes": {"placed": Placed(LAYOUT, 4096, changes=True)},
    "padding": {"placed": Placed(LAYOUT, 4096, padding=False)},
    "shape": {"placed": Placed(Layout((64, 32), "bf16"), 4096)},
    "format": {"placed": Placed(Layout((32, 64), "fp8"), 4096)},
    "order of tiles": {"placed": Placed(Layout((32, 64), "bf16", "panels"), 4096)},
    "constants": {"constants": 12288},
    "area": {"area": Area(0, 61440)},
    "short": {"short": True},
    "machine": {"profile": load_profile("atlas-v0")},
    "size of a memory": {"profile": replace(V1, vmem_bytes=V1.vmem_bytes // 2)},
    "a latency": {
        "profile": replace(V1, timing={**V1.timing, "vector": replace(V1.timing["scalar"])})
    },
    "features": {"profile": replace(V1, features=frozenset())},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_whatever_changes_code_changes_the_key(what: str) -> None:
    assert key() == key()
    assert key(**DIFFERENT[what]) not in (key(), None)


@pytest.mark.parametrize("name", [name for name in vars(Tuning()) if name])
def test_every_setting_of_the_code_generator_is_in_the_key(name: str) -> None:
    usual = key()
    with tuned(**{name: getattr(Tuning(), name) + 1}):
        assert key() not in (usual, None)
    assert key() == usual


def test_the_source_of_the_package_is_in_the_key() -> None:
    table = json.loads(key() or b"")
    assert table["generator"] == kernel_code.generator_digest()
    kernel_code.generator_digest.cache_clear()
    assert table["generator"] == kernel_code.generator_digest()


def test_files_that_were_written_since_the_package_was_loaded_turn_it_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What runs is not what they say: nothing is stored under their digest."""
    assert key() is not None
    newest = max(path.stat().st_mtime_ns for path in kernel_code._files())
    monkeypatch.setattr(tilewright, "LOADED_AT", newest)
    assert key() is not None
    monkeypatch.setattr(tilewright, "LOADED_AT", newest - 1)
    assert key() is None


def test_kernels_of_others_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert key(kernel="unknown") is None
    record = replace(kernel_code.RECORDS["norm"], make=lambda options: None)
    monkeypatch.setitem(kernel_code.RECORDS, "norm", record)  # made in this file
    assert key() is None


def test_what_has_no_plain_form_is_not_cached() -> None:
    assert key(options={"array": np.zeros(3)}) is None
    assert key(options={"function": len}) is None
    assert key(options={"a": {1: 2}}) is None


# --- entries --------------------------------------------------------------------------------


def some_code() -> KernelCode:
    rows = [Instruction.of("addi", 1, 0, k - 5) for k in range(9)]
    program = Program.from_instructions(rows, "<kernel>")
    program.lines[:] = range(9)
    return KernelCode(program, "module {ä}\n", [(4096, b"\0\1\2"), (1 << 33, b"")], 123456)


def test_entries_say_what_was_put_in() -> None:
    code = some_code()
    again = from_bytes(to_bytes(code))
    assert isinstance(again, KernelCode)
    assert again.program.same_code(code.program)
    assert again.program.opcodes.dtype == np.uint8 and again.program.operands.dtype == np.int32
    assert np.array_equal(again.program.lines, code.program.lines)
    assert (again.schedule, again.data, again.end) == (code.schedule, code.data, code.end)
    assert from_bytes(to_bytes(Lacking(77))) == Lacking(77)
    assert from_bytes(to_bytes(Fitting(78))) == Fitting(78)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bytes_make_reading_an_entry_fail(data: st.DataObject) -> None:
    raw = bytearray(to_bytes(some_code()))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(raw) - 1)))
        raw[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    found = from_bytes(bytes(raw))
    assert found is None or isinstance(found, KernelCode | Fitting | Lacking)


def test_entries_with_impossible_heads_are_none() -> None:
    first, _, rest = to_bytes(some_code()).partition(b"\n")
    head = json.loads(first)
    for name, value in (
        ("instructions", -1), ("instructions", 10**12), ("instructions", True), ("end", 1.5),
        ("schedule", "11"), ("data", [[1]]), ("data", 5), ("data", [[0, 3], [0, 1 << 70]]),
    ):  # fmt: skip
        assert from_bytes(json.dumps({**head, name: value}).encode() + b"\n" + rest) is None
    for raw in (
        b"",
        b"\n",
        b"[]\n",
        b"null\n",
        b"5\n",
        b"{}\n",
        b"[" * 100_000,
        b'{"lacking": -1}\n',
    ):
        assert from_bytes(raw) is None
    assert from_bytes(first + b"\n" + rest + b"x") is None


# --- the command ----------------------------------------------------------------------------


def test_the_command_compiles_with_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, out = tmp_path / "cache", tmp_path / "mlp.twb"
    model = Path(__file__).parents[2] / "data" / "pt2" / "mlp.pt2"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache))

    def compiled(*more: str) -> bytes:
        with pytest.raises(SystemExit) as caught:
            main(["compile", str(model), "-o", str(out), *more])
        assert not caught.value.code
        return out.read_bytes()

    fresh = compiled("--no-cache")
    assert not cache.exists()
    assert compiled() == fresh and entries(cache)
    assert compiled() == fresh
