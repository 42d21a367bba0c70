"""Bundles: what is saved comes back, equal models give equal bytes, bad files are clear errors."""

from __future__ import annotations

import json
import random
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import hand_models as models
import numpy as np
import pytest

from hand_made import AtlasModel
from tilewright.errors import TilewrightError
from tilewright.io import archive
from tilewright.runtime import bundle
from tilewright.runtime.manifest import manifest_of
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.program import Data
from tilewright.targets.checking import check
from tilewright.targets.compiled_model import CompiledModel

OLD = Path(__file__).resolve().parents[1] / "data" / "bundles"
CODE, WEIGHTS = "atlas/code/segment-0.bin", "atlas/weights.safetensors"
ALL = {
    "one": models.mlp,
    "two": lambda: models.mlp(2),
    "host": models.hosted,
    "loop": models.looped,
    "streamed": models.streamed,
}


@pytest.fixture(params=ALL)
def model(request: pytest.FixtureRequest) -> AtlasModel:
    return ALL[request.param]()


def test_everything_comes_back(model: AtlasModel, tmp_path: Path) -> None:
    model.artifact.segments[0].data = [Data("dram", 1 << 20, b"abc"), Data("vmem", 64, b"\1" * 32)]
    bundle.save(model, tmp_path / "m.twb")
    again = bundle.load(tmp_path / "m.twb")
    for item in (*fields(CompiledModel), *fields(AtlasArtifact)):
        if item.name == "artifact":
            continue
        old, new = (
            getattr(m if hasattr(m, item.name) else m.artifact, item.name) for m in (model, again)
        )
        if item.name == "segments":
            assert all(a.same_code(b) for a, b in zip(old, new, strict=True))
            assert [p.labels for p in old] == [p.labels for p in new]
            assert [p.data for p in old] == [p.data for p in new]
        elif item.name in ("weights", "host_weights"):
            assert old.keys() == new.keys()
            for name in old:
                assert old[name].dtype == new[name].dtype
                assert np.array_equal(old[name], new[name])
        elif item.name != "timing":
            assert old == new, item.name
    assert again.timing == {}  # how long compiling took is not part of what was compiled


def test_equal_models_give_equal_bytes(model: AtlasModel, tmp_path: Path) -> None:
    bundle.save(model, tmp_path / "a.twb")
    model.timing = {"import": 99.0}
    bundle.save(bundle.load(tmp_path / "a.twb"), tmp_path / "b.twb")
    bundle.save(model, tmp_path / "c.twb")
    first = (tmp_path / "a.twb").read_bytes()
    assert first == (tmp_path / "b.twb").read_bytes() == (tmp_path / "c.twb").read_bytes()


def test_any_zip_tool_reads_it(tmp_path: Path) -> None:
    bundle.save(models.hosted(), tmp_path / "m.twb")
    with zipfile.ZipFile(tmp_path / "m.twb") as file:
        assert file.testzip() is None
        assert file.namelist() == [
            "manifest.json",
            "atlas/contents.json",
            "atlas/code/segment-0.bin",
            "atlas/code/segment-1.bin",
            "atlas/weights.safetensors",
            "host.mlir",
            "host_weights.safetensors",
            "phases/00-linalg.mlir",
            "phases/01-npu-kernel.mlir",
        ]
        assert file.read("phases/01-npu-kernel.mlir") == b"// two\n"
        assert json.loads(file.read("manifest.json"))["name"] == "mlp"
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    from safetensors.numpy import load

    with zipfile.ZipFile(tmp_path / "m.twb") as file:
        tensors = load(file.read("host_weights.safetensors"))
        assert tensors["shift"].shape == (1, 50, 70)
        assert tensors["flag"].tolist() == [True, False]


def test_weights_are_mapped(tmp_path: Path) -> None:
    bundle.save(models.mlp(), tmp_path / "m.twb")
    weights = bundle.load(tmp_path / "m.twb").artifact.weights["w"]
    base: Any = weights
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert weights.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 1


def test_large_members_are_described_by_64_bits(tmp_path: Path, monkeypatch: Any) -> None:
    """With a limit of one byte every member takes the form of one beyond 4 GiB."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1)
    bundle.save(models.hosted(), tmp_path / "m.twb")
    monkeypatch.undo()
    assert b"PK\x06\x06" in (tmp_path / "m.twb").read_bytes()
    assert check(bundle.load(tmp_path / "m.twb")) == []
    x = np.ones((50, 64), np.float32)
    assert np.array_equal(
        Session(bundle.load(tmp_path / "m.twb")).run([x])[0], Session(models.hosted()).run([x])[0]
    )


# --- files that are wrong ------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    bundle.save(models.hosted(), tmp_path / "m.twb")
    return tmp_path / "m.twb"


def code_of(path: Path) -> str:
    with pytest.raises(TilewrightError) as caught:
        bundle.load(path)
    assert caught.value.location is not None and str(path) in caught.value.location.file
    return caught.value.code


def rewrite(path: Path, change: Any) -> None:
    """Change the members of a bundle, keeping it a proper archive."""
    members = {name: raw.tobytes() for name, raw in archive.read_archive(path, "it").items()}
    change(members)
    archive.write_archive(path, [archive.Member(n, [raw]) for n, raw in members.items()])


def with_manifest(path: Path, change: Any, name: str = "manifest.json") -> None:
    def edit(members: dict[str, bytes]) -> None:
        document = json.loads(members[name])
        change(document)
        members[name] = json.dumps(document).encode()

    rewrite(path, edit)


def test_not_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "x.twb"
    for content in (b"", b"x", b"PK", np.arange(500, dtype=np.uint8).tobytes() * 3):
        path.write_bytes(content)
        assert code_of(path) == "TW3101"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("word/document.xml", "<x/>")
    assert code_of(path) == "TW3101"
    with pytest.raises(TilewrightError, match="TW0010"):
        bundle.load(tmp_path / "missing.twb")
    with pytest.raises(TilewrightError, match="TW3101"):
        bundle.load(tmp_path)


def test_truncated(saved: Path) -> None:
    whole = saved.read_bytes()
    for end in (len(whole) - 1, len(whole) - 30, len(whole) // 2, 100, 5):
        saved.write_bytes(whole[:end])
        assert code_of(saved) == "TW3102"
    saved.write_bytes(whole + b"\0")
    assert code_of(saved) == "TW3102"


def test_one_wrong_byte_in_the_weights(saved: Path) -> None:
    whole = bytearray(saved.read_bytes())
    place = whole.index(bundle.load(saved).artifact.weights["b"].tobytes())
    whole[place + 77] ^= 4
    saved.write_bytes(bytes(whole))
    with pytest.raises(TilewrightError, match=r"weights\.safetensors does not have its checksum"):
        bundle.load(saved)


def test_newer_version(saved: Path) -> None:
    with_manifest(saved, lambda m: m.update(version=7))
    with pytest.raises(TilewrightError, match=r"TW3103.*version 7.*up to 6"):
        bundle.load(saved)


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions_are_read(version: int, tmp_path: Path) -> None:
    """Files of earlier releases: three layers, the first of them on the host."""
    model = bundle.load(OLD / f"version{version}.twb")
    assert (model.artifact.graph is None) == (version == 1)
    x = np.linspace(-2, 2, 160, dtype=np.float32).reshape(5, 32)
    session = Session(model)
    y = session.run(x=x)["y"]
    assert y[0, :4].tolist() == [0.0196533203125, 1.6484375, -0.08544921875, -0.078125]
    assert session.cycles == 6995
    assert model.artifact.bound().cycles == 1476 and "bound" not in model.provenance
    found = verify(model)
    assert found.ok, found.text()
    bundle.save(model, tmp_path / "new.twb")
    again = bundle.load(tmp_path / "new.twb")
    assert manifest_of(again) == manifest_of(model)
    assert np.array_equal(Session(again).run(x=x)["y"], y)


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions_are_not_trusted_either(version: int, tmp_path: Path) -> None:
    whole = (OLD / f"version{version}.twb").read_bytes()
    saved = tmp_path / "m.twb"
    for change, message in (
        (lambda m: m.update(surprise=1), "unknown field 'surprise'"),
        (lambda m: m.pop("rounds"), "lacks 'rounds'"),
        (lambda m: m.update(values=7) if version == 1 else m.pop("values"), "'values'"),
        (lambda m: m["parts"][1].update(segments="0"), "segments"),
        (lambda m: m["ports"].update(x=7), "not an object"),
        (lambda m: m.update(profile=7), "not an object"),
        (lambda m: m["parts"].append(7), "not an object"),
        (lambda m: m["provenance"].update(bound=-1), "cycles -1"),
    ):
        saved.write_bytes(whole)
        with_manifest(saved, change)
        with pytest.raises(TilewrightError) as caught:
            bundle.load(saved)
        assert caught.value.code == "TW3104" and message in caught.value.message
    draw = random.Random(9)
    document = json.loads(
        archive.read_archive(OLD / f"version{version}.twb", "it")["manifest.json"].tobytes()
    )
    for _ in range(60):
        saved.write_bytes(whole)
        text = json.dumps(changed(document, draw)).encode()
        rewrite(saved, lambda m, text=text: m.update({"manifest.json": text}))
        loads_safely(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(surprise=1), "unknown field 'surprise'"),
        (lambda m: m.pop("state"), "lacks 'state'"),
        (lambda m: m["ports"]["x"].update(tensor=7), "tensor 7"),
        (lambda m: m["parts"][0].update(kind="remote"), "kind 'remote'"),
        (lambda m: m["parts"][1].update(entry=0), "entry 0"),
        (lambda m: m.update(name="\ud800"), "must be a text"),
        (lambda m: m["target"].update(family=None), "family None"),
    ],
)
def test_malformed_manifest(saved: Path, change: Any, message: str) -> None:
    with_manifest(saved, change)
    with pytest.raises(TilewrightError) as caught:
        bundle.load(saved)
    assert caught.value.code == "TW3104"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(surprise=1), "unknown field 'surprise'"),
        (lambda m: m.pop("loops"), "lacks 'loops'"),
        (lambda m: m["regions"]["w"].update(address=-4), "address -4"),
        (lambda m: m["regions"]["w"].update(address="0"), "address '0'"),
        (lambda m: m["regions"]["w"].update(address=True), "address True"),
        (lambda m: m["regions"]["w"].update(shape=[1 << 40, 1 << 40]), "no machine can hold"),
        (lambda m: m["regions"]["w"].update(shape=[]), "no dimensions"),
        (lambda m: m["regions"]["w"].update(dtype="f32"), "dtype 'f32'"),
        (lambda m: m["regions"]["w"].update(space="disk"), "space 'disk'"),
        (lambda m: m["steps"][0].update(operands={"a": 7}), "operands 7"),
        (lambda m: m["segments"][0]["labels"].update(x=10**9), "label"),
        (lambda m: m.update(steps="none"), "steps that is no list"),
        (lambda m: m["profile"].update(name="other"), "another name than its text"),
        (lambda m: m["entries"]["part1"].update(segments=[-1]), "segments [-1]"),
        (lambda m: m.update(bound={"cycles": 1, "cause": "", "terms": {"DMA": "x"}}), "a term"),
    ],
)
def test_malformed_programs(saved: Path, change: Any, message: str) -> None:
    with_manifest(saved, change, "atlas/contents.json")
    with pytest.raises(TilewrightError) as caught:
        bundle.load(saved)
    assert caught.value.code == "TW3104"
    assert message in caught.value.message


def test_bundles_of_machines_that_are_not_here(saved: Path) -> None:
    with_manifest(saved, lambda m: m["target"].update(family="cray", name="cray-1"))
    with pytest.raises(TilewrightError) as caught:
        bundle.load(saved)
    assert caught.value.code == "TW3105"  # the files of the machine are in no folder of its name

    def moved(members: dict[str, bytes]) -> None:
        for name in [name for name in members if name.startswith("atlas/")]:
            members[name.replace("atlas/", "cray/")] = members.pop(name)

    rewrite(saved, moved)
    with pytest.raises(TilewrightError, match=r"TW0063.*cray-1.*'cray' that is not here") as caught:
        bundle.load(saved)
    assert caught.value.hint is not None and "atlas" in caught.value.hint


def test_profile_reads_no_other_file(saved: Path) -> None:
    change = {"toml": 'base = "/etc/passwd"'}
    with_manifest(saved, lambda m: m["profile"].update(change), "atlas/contents.json")
    assert code_of(saved).startswith("TW110")


def test_members_are_exactly_those_named(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    rewrite(saved, lambda m: m.update({"../../evil": b"x"}))
    assert code_of(saved) == "TW3105"
    rewrite(saved, lambda m: (m.pop("../../evil"), m.update({"atlas/more": b"x"})))
    assert code_of(saved) == "TW3105"
    for name in ("atlas/code/segment-1.bin", "atlas/weights.safetensors", "phases/00-linalg.mlir"):
        saved.write_bytes(whole)
        rewrite(saved, lambda m, name=name: m.pop(name))
        with pytest.raises(TilewrightError, match=f"TW3105.*lacks {name.removeprefix('atlas/')}"):
            bundle.load(saved)
    assert list(tmp_path.iterdir()) == [saved]


def test_wrong_sizes(saved: Path) -> None:
    whole = saved.read_bytes()
    rewrite(saved, lambda m: m.update({CODE: m[CODE][:-4]}))
    assert code_of(saved) == "TW3105"
    saved.write_bytes(whole)
    rewrite(saved, lambda m: m.update({CODE: b"\xff" * len(m[CODE])}))
    assert code_of(saved) == "TW3109"
    saved.write_bytes(whole)
    rewrite(saved, lambda m: m.update({WEIGHTS: m[WEIGHTS][:-1]}))
    assert code_of(saved) == "TW3106"
    saved.write_bytes(whole)
    rewrite(saved, lambda m: m.update({"host.mlir": b"\xff\xfe"}))
    assert code_of(saved) == "TW3105"


def test_compressed_members_are_refused(saved: Path) -> None:
    """Nothing is ever unpacked, so a small file cannot become a large one."""
    members = {name: raw.tobytes() for name, raw in archive.read_archive(saved, "it").items()}
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as file:
        for name, raw in members.items():
            file.writestr(name, raw)
    assert code_of(saved) == "TW3102"


def test_two_members_of_one_name(saved: Path) -> None:
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(saved, "a") as file,
    ):
        file.writestr("manifest.json", "{}")
    assert code_of(saved) == "TW3102"


def test_json_that_is_too_deep_or_twice(saved: Path) -> None:
    whole = saved.read_bytes()
    for text in (b"[" * 100_000, b'{"format": 1, "format": 2}', b"{", b"7", b"\xff"):
        saved.write_bytes(whole)
        rewrite(saved, lambda m, text=text: m.update({"manifest.json": text}))
        assert code_of(saved) in ("TW3104", "TW3105")


def test_random_damage(saved: Path) -> None:
    """A changed file is refused, or it is a model that still fits together."""
    whole = saved.read_bytes()
    draw = random.Random(7)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        kind = draw.randrange(3)
        if kind == 0:
            for _ in range(draw.randrange(1, 4)):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.randrange(8)] = draw.randbytes(draw.randrange(8))
        saved.write_bytes(bytes(damaged))
        refused += loads_safely(saved)
    assert refused > 120


@pytest.mark.parametrize("name", ["manifest.json", "atlas/contents.json"])
def test_random_manifests(saved: Path, name: str) -> None:
    """The same for documents that are well formed JSON: numbers, texts and entries changed."""
    draw = random.Random(8)
    original = json.loads(archive.read_archive(saved, "it")[name].tobytes())
    whole = saved.read_bytes()
    refused = 0
    for _ in range(150):
        saved.write_bytes(whole)
        text = json.dumps(changed(original, draw)).encode()
        rewrite(saved, lambda m, text=text: m.update({name: text}))
        refused += loads_safely(saved)
    assert refused > 75


def changed(document: Any, draw: random.Random) -> Any:
    """A document with one value replaced or left out."""
    values = [0, 1, -1, 3, 1 << 31, 1 << 62, 0.5, None, "", "w", "h", [], {}, True, [1], "x" * 3000]
    manifest = json.loads(json.dumps(document))
    place: Any = manifest
    key: Any = draw.choice(list(place))
    while isinstance(place[key], dict | list) and place[key] and draw.random() < 0.9:
        place = place[key]
        key = draw.choice(list(place)) if isinstance(place, dict) else draw.randrange(len(place))
    if draw.random() < 0.2:
        del place[key]
    else:
        place[key] = draw.choice(values)
    return manifest


def loads_safely(path: Path) -> bool:
    """Whether a bundle is refused; one that is not has to be sound."""
    try:
        model = bundle.load(path)
    except TilewrightError:
        return True
    assert check(model) == []
    return False


# --- saving --------------------------------------------------------------------------------


def test_nothing_half_written(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "m.twb"
    bundle.save(models.mlp(), path)
    whole = path.read_bytes()
    broken = models.mlp(seed=1)
    broken.artifact.weights["w"] = broken.artifact.weights["w"][:-1]
    with pytest.raises(TilewrightError, match="TW3113"):
        bundle.save(broken, path)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write_member", fail)
    with pytest.raises(TilewrightError, match=r"TW0011.*No space left"):
        bundle.save(models.mlp(seed=1), path)
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_what_json_cannot_hold_is_named(tmp_path: Path) -> None:
    model = models.mlp()
    model.quantisation = {"fc": {"error": float("nan")}}
    with pytest.raises(TilewrightError, match=r"TW3107.*quantisation\.fc\.error is nan"):
        bundle.save(model, tmp_path / "m.twb")
    model.quantisation = {"fc": {"error": np.float32(0.5)}}
    bundle.save(model, tmp_path / "m.twb")
    assert bundle.load(tmp_path / "m.twb").quantisation == {"fc": {"error": 0.5}}


def test_code_that_would_read_back_differently_is_refused(tmp_path: Path) -> None:
    model = models.mlp()
    step = model.artifact.steps[0]
    assert step.end_word > 0
    program = model.artifact.segments[0]
    operands = program.operands.copy()
    operands[0, 3] = 9  # an operand the instruction does not have
    model.artifact.segments = [replace(program, operands=operands)]
    with pytest.raises(TilewrightError, match=r"TW3108 .*instruction 0 of segment 0"):
        bundle.save(model, tmp_path / "m.twb")
