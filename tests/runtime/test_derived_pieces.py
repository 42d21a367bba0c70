"""A tied head is stored as the table of embeddings it is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.compiling.entries import compile_entries
from tilewright.errors import TilewrightError
from tilewright.frontend.decoder import decoder, drawn_weights, head
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.runtime.bundle import load_any, save
from tilewright.runtime.derived_pieces import Derived, find, turned
from tilewright.targets.compiled_model import CompiledEntries
from tilewright.tile.layouts import Layout

CONFIG = DecoderConfig("llama", 1000, 72, 96, 0, 2, 1, 32)  # neither is a multiple of 32


def tied(dtype: Any) -> CompiledEntries:
    """Lookup of one token and a head, of one table."""
    weights = drawn_weights(CONFIG, seed=4)
    name = "model.embed_tokens.weight"
    weights[name] = weights[name].astype(dtype)
    models = {
        "look": decoder(CONFIG, weights, 1, 0, 1, 8),
        "head": head(CONFIG, weights, 1),
    }
    return compile_entries(models, None, "atlas-v1")[0]


@pytest.fixture(scope="module", params=["bf16", "f32"])
def program(request: pytest.FixtureRequest) -> CompiledEntries:
    return tied(ml_dtypes.bfloat16 if request.param == "bf16" else np.float32)


@pytest.fixture
def saved(program: CompiledEntries, tmp_path: Path) -> Path:
    save(program, tmp_path / "tied.twb")
    return tmp_path / "tied.twb"


def changed(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """The bundle with another manifest or other members, its checksums right."""
    members = {name: raw.tobytes() for name, raw in read_archive(path, "a bundle").items()}
    document = json.loads(members["manifest.json"])
    change(document, members)
    members["manifest.json"] = json.dumps(document).encode()
    write_archive(path, [Member(name, [raw]) for name, raw in members.items()])


def test_the_head_comes_back(program: CompiledEntries, saved: Path) -> None:
    members = read_archive(saved, "a bundle")
    document = json.loads(members["manifest.json"].tobytes())
    (mark,) = document["derived"]
    assert document["version"] == 5 and f"store/{mark}" not in members
    stored = program.entries["head"].artifact.weights["lm_head.weight"]
    assert not any(raw.nbytes >= stored.nbytes and stored.tobytes() in raw.tobytes()
                   for raw in members.values())  # fmt: skip
    again = load_any(saved)
    assert isinstance(again, CompiledEntries)
    found = again.entries["head"].artifact.weights["lm_head.weight"]
    np.testing.assert_array_equal(found, stored)
    save(again, saved.with_name("again.twb"))
    assert saved.with_name("again.twb").read_bytes() == saved.read_bytes()
    entry_points = tw.load(saved)
    assert isinstance(entry_points, tw.EntryPoints)
    assert entry_points.verify().ok


def test_other_weights_are_stored_as_they_are(program: CompiledEntries, tmp_path: Path) -> None:
    """One code that the table does not give, and the head is a piece of its own."""
    model = program.entries["head"]
    weights = model.artifact.weights
    kept = weights["lm_head.weight"]
    marked = kept.copy()
    marked[40] ^= 1
    try:
        weights["lm_head.weight"] = marked
        save(program, tmp_path / "other.twb")
    finally:
        weights["lm_head.weight"] = kept
    members = read_archive(tmp_path / "other.twb", "a bundle")
    assert "derived" not in json.loads(members["manifest.json"].tobytes())
    again = tw.load(tmp_path / "other.twb")
    assert isinstance(again, tw.EntryPoints)
    with pytest.raises(TilewrightError, match=r"TW3143.*not those"):  # verify knows other weights
        again.verify()


def test_only_what_comes_out_exactly_is_found() -> None:
    table = np.random.default_rng(0).standard_normal((1000, 72)).astype(np.float32)
    scales = np.frombuffer(Layout((1000,), "bf16").pack(np.full(1000, 0.5, np.float32)), np.uint8)
    piece = turned(table, np.full(1000, 0.5, np.float32), -3, "tiles")
    pieces = {"t": table, "s": scales, "p": piece}
    assert find(pieces.items()) == {"p": Derived("t", (1000, 72), "f32", "s", -3, "tiles")}
    piece = piece.copy()
    piece[1025] ^= 1
    assert find({**pieces, "p": piece}.items()) == {}
    table[3, 3] = np.nan  # a code as others
    assert "p" in find({**pieces, "p": turned(table, np.full(1000, 0.5), -3, "panels")}.items())


def _table(document: dict[str, Any]) -> str:
    return next(iter(document["derived"].values()))["table"]


def _rename(document: dict[str, Any], members: dict[str, bytes]) -> None:
    """Other numbers in the table, under the digest that fits them."""
    from tilewright.runtime.shared_members import digest

    old = _table(document)
    raw = bytearray(members.pop(f"store/{old}"))
    raw[3] ^= 8
    new = digest([bytes(raw)])
    members[f"store/{new}"] = bytes(raw)
    for recipe in document["recipes"].values():
        recipe[:] = [new if mark == old else mark for mark in recipe]
    next(iter(document["derived"].values()))["table"] = new


def _set(**fields: Any) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    return lambda d, m: next(iter(d["derived"].values())).update(fields)


DAMAGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, bytes]], Any], str]] = {
    "no table": (lambda d, m: m.pop(f"store/{_table(d)}"), "lacks store/"),
    "changed table": (_rename, "other content than its name says"),
    "another table": (_set(table="0" * 32), "lacks store/"),
    "another shape": (_set(shape=[999, 72]), "need"),
    "turned shape": (_set(shape=[72, 1000]), "need"),
    "no matrix": (_set(shape=[72000]), "of no table"),
    "empty": (_set(shape=[0, 72]), "shape"),
    "huge": (_set(shape=[1 << 40, 1 << 20]), "shape"),
    "another type": (_set(dtype="f64"), "dtype"),
    "another power": (_set(power=7), "other content than its name says"),
    "power of no float": (_set(power=5000), "power"),
    "another order": (_set(order="tiles"), "other content than its name says"),
    "unknown field": (_set(more=1), "unknown field"),
    "unused": (lambda d, m: d["derived"].update({"1" * 32: next(iter(d["derived"].values()))}),
               "nothing uses"),
    "of itself": (lambda d, m: _set(table=next(iter(d["derived"])))(d, m), "derived from what"),
    "none": (lambda d, m: d.pop("derived"), "lacks 'derived'"),
    "older": (lambda d, m: d.update(version=4), "unknown field 'derived'"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(saved: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    changed(saved, change)
    with pytest.raises(TilewrightError, match=message) as caught:
        load_any(saved)
    assert caught.value.code in ("TW3104", "TW3105")
