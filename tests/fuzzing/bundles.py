"""Bundles: the manifest, the members and the zip around them, each spoiled with sums that fit."""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.files import safetensors_bytes
from fuzzing.mutations import json_text, mutated_bytes, mutated_json, mutated_text
from fuzzing.running import Keep, Subject
from tilewright.io.archive import Member, write_archive
from tilewright.program import Program
from tilewright.runtime import bundle
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.resuming import NEVER
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.checking import check
from tilewright.targets.compiled_model import CompiledModel

Members = dict[str, bytes]
CYCLES = 300_000


def _bundles() -> list[Members]:
    """Small compiled models of every kind, as their members."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))
    import hand_models  # pyright: ignore[reportMissingImports]

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, make in enumerate(
            (hand_models.mlp, lambda: hand_models.mlp(2), hand_models.hosted, hand_models.looped)
        ):
            path = Path(folder) / f"{number}.twb"
            bundle.save(make(), path)
            with zipfile.ZipFile(path) as file:
                found.append({name: file.read(name) for name in file.namelist()})
    return found


def _state_bundles() -> list[Members]:
    """A network that attends to what stays on the device, and one that steps on in it."""
    import tilewright as tw
    from tilewright.frontend.builder import ModelBuilder

    net = ModelBuilder("attends", seed=1)
    keys, values = (net.input(name, (1, 35, 2, 32)) for name in ("keys", "values"))
    q = net.heads(net.linear(net.input("x", (1, 3, 32)), 64, "q"), 2)
    net.output("y", net.attention(q, keys, values))
    attends = replace(net.build(), resident=frozenset({"keys", "values"}))
    net = ModelBuilder("steps", seed=1)
    memory = net.input("memory", (5, 48))
    net.output("next", net.relu(net.linear(memory + net.input("x", (5, 48)), 48, "step")))
    steps = replace(net.build(), state={"memory": "next"})
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (attends, steps):
            path = Path(folder) / "state.twb"
            tw.compile(model, target="atlas-v1").save(path)
            with zipfile.ZipFile(path) as file:
                found.append({name: file.read(name) for name in file.namelist()})
    return found


def _other_bundles() -> list[Members]:
    """A small network for each other machine; Coral's where its toolchain is there."""
    import tilewright as tw
    from tilewright.frontend.builder import ModelBuilder
    from tilewright.targets.coral.toolchain import toolchain_missing

    net = ModelBuilder("small", seed=1)
    hidden = net.relu(net.linear(net.input("x", (4, 24)), 40, "up"))
    net.output("y", net.softmax(net.linear(hidden, 12, "down")))
    network, found = net.build(), []
    with tempfile.TemporaryDirectory() as folder:
        for target in ("vpu40", "npu2", *(() if toolchain_missing() else ("coral",))):
            path = Path(folder) / f"{target}.twb"
            tw.compile(network, target=target).save(path)
            with zipfile.ZipFile(path) as file:
                found.append({name: file.read(name) for name in file.namelist()})
    return found


def _run_bundle(bundles: list[Members], choose: random.Random, keep: Keep) -> None:
    members = dict(choose.choice(bundles))
    kind = choose.randrange(12)
    if kind < 6:
        name = choose.choice(sorted(name for name in members if name.endswith(".json")))
        document = mutated_json(json.loads(members[name]), choose)
        members[name] = json_text(document, choose).encode("utf-8", "surrogatepass")
    elif kind < 10:
        _spoil(members, choose.choice(sorted(members)), choose)
    elif kind == 10:
        del members[choose.choice(sorted(members))]
    else:
        names = sorted(members)
        members[
            choose.choice(
                ("x", "../x", "atlas/code/segment-9.bin", "code/x", "host.mlir", "é" * 300)
            )
        ] = b"abc"
        a, b = choose.choice(names), choose.choice(names)
        members[a], members[b] = members[b], members[a]
    content = _zip(members, choose, keep.folder)
    if choose.random() < 0.12:
        content = mutated_bytes(content, choose)
    path = keep.file(content, "model.twb")
    model = bundle.load(path)
    assert not check(model)
    str(Program(model).memory_map)
    model.artifact.listing()
    session = Session(model, max_cycles=CYCLES)
    inputs = example_inputs(model, "random", choose.getrandbits(16))
    session.run({name: np.asarray(array) for name, array in inputs.items()})


def _run_state(bundles: list[Members], choose: random.Random, keep: Keep) -> None:
    """Also called again, with some rows that are others."""
    _run_bundle(bundles, choose, keep)
    model = bundle.load(str(keep.folder / "model.twb"))
    session = Session(model, max_cycles=CYCLES)
    inputs = example_inputs(model, "random", choose.getrandbits(16))
    for _ in range(2):
        session.run(inputs)
        for array in inputs.values():
            if array.ndim > 1 and array.size and array.dtype.kind == "f":
                array[:, choose.randrange(array.shape[1]) :] += 1
    verify(model).text()


def _run_other(bundles: list[Members], choose: random.Random, keep: Keep) -> None:
    """Also compared with its reference, which reads documents of its own."""
    _run_bundle(bundles, choose, keep)
    verify(bundle.load(str(keep.folder / "model.twb"))).text()


def _snapshots() -> list[tuple[CompiledModel[Any], Members]]:
    """Runs that were stopped at several cycles, as members of their files, with their programs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))
    import hand_models  # pyright: ignore[reportMissingImports]

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for make in (hand_models.mlp, hand_models.hosted, hand_models.looped):
            model, path = make(), Path(folder) / "run.twr"
            session = Session(model)
            session.run(example_inputs(model, "random", 1))
            for cycle in (1, session.cycles // 2, session.cycles - 1):
                stopped = session.run_until(cycle, example_inputs(model, "random", cycle))
                session.save_snapshot(stopped, path)
                with zipfile.ZipFile(path) as file:
                    found.append((model, {name: file.read(name) for name in file.namelist()}))
    return found


def _run_snapshot(
    snapshots: list[tuple[CompiledModel[Any], Members]], choose: random.Random, keep: Keep
) -> None:
    model, given = choose.choice(snapshots)
    members = dict(given)
    if choose.random() < 0.3:
        document = mutated_json(json.loads(members["snapshot.json"]), choose)
        members["snapshot.json"] = json_text(document, choose).encode("utf-8", "surrogatepass")
    else:
        for _ in range(choose.choice((1, 1, 2))):
            _spoil(members, choose.choice(sorted(members)), choose)
    path = keep.file(_zip(members, choose, keep.folder), "run.twr")
    session = Session(model, max_cycles=CYCLES)
    session.resume(session.load_snapshot(path), choose.choice((NEVER, 10, 1000)))


def _spoil(members: Members, name: str, choose: random.Random) -> None:
    """One member changed in a way of its kind."""
    content = members[name]
    if name.endswith(".safetensors") and choose.random() < 0.8:
        length = int.from_bytes(content[:8], "little")
        header = json_text(mutated_json(json.loads(content[8 : 8 + length]), choose), choose)
        members[name] = safetensors_bytes(
            header.encode("utf-8", "surrogatepass"), content[8 + length :]
        )
    elif name.endswith(".mlir") and choose.random() < 0.9:
        text = mutated_text(content.decode(), choose)
        members[name] = text.encode("utf-8", "surrogatepass")
    else:
        members[name] = mutated_bytes(content, choose)


def _zip(members: Members, choose: random.Random, folder: Path) -> bytes:
    """The members as a bundle has them, or now and then as another tool would write them."""
    if choose.random() < 0.9:
        path = folder / "made.twb"
        write_archive(path, [Member(name, [content]) for name, content in members.items()])
        return path.read_bytes()
    buffer = io.BytesIO()
    packing = choose.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


SUBJECTS = [
    Subject("bundle", _bundles, _run_bundle),
    Subject("state-bundle", _state_bundles, _run_state),
    Subject("other-bundle", _other_bundles, _run_other),
    Subject("snapshot", _snapshots, _run_snapshot),
]
