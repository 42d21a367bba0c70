"""Batches and rows that do not fit VMEM: matrices of a batch as one, products in smaller parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from drawn_blocks import drawn

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.targets.atlas.artifact.atlas_artifact import Step
from tilewright.targets.atlas.model.fitting import _stage
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram, StoredTensor
from tilewright.targets.atlas.model.smaller_parts import cut_smaller
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.tile.layouts import Layout


def small(kibibytes: int, base: str = "atlas-v1") -> Profile:
    return replace(load_profile(base), vmem_bytes=kibibytes * 1024)


def encoder(batch: int, rows: int, width: int, heads: int, hidden: int) -> Imported:
    net = ModelBuilder("encoder", seed=1)
    x = net.input("x", (batch, rows, width))
    n = net.layer_norm(x, "norm1")
    q, k, v = (net.heads(net.linear(n, width, name), heads) for name in "qkv")
    y = x + net.linear(net.attention(q, k, v), width, "out")
    n = net.layer_norm(y, "norm2")
    net.output("y", y + net.linear(net.gelu(net.linear(n, hidden, "up")), width, "down"))
    return net.build()


def gated(batch: int, rows: int, width: int, hidden: int) -> Imported:
    net = ModelBuilder("gated", seed=2)
    x = net.input("x", (batch, rows, width))
    n = net.rms_norm(x, "norm")
    gate, up = (net.linear(n, hidden, f"{name}_proj", bias=False) for name in ("gate", "up"))
    net.output("y", x + net.linear(net.silu_gate(gate, up), width, "down_proj"))
    return net.build()


def verified(model: Imported, profile: Profile) -> dict[str, Step]:
    """The steps of a program by name, which is right in every bit and has nothing on the host."""
    program = tw.compile(model, target=profile)
    assert program.verify().ok
    steps = program.model.artifact.steps
    names = Counter(tensor for step in steps for tensor in {step.operands["out"]})
    assert max(names.values()) == 1  # results have places of their own
    return {step.name: step for step in steps}


@pytest.mark.parametrize(
    ("batch", "rows", "stacked"),
    [(8, 32, True), (5, 50, True), (3, 97, True), (2, 33, False), (1, 200, False)],
)
@pytest.mark.parametrize("base", ["atlas-v1", "atlas-v0"])
def test_encoders(batch: int, rows: int, stacked: bool, base: str) -> None:
    """Rows between matrices are padding: they are computed with the others, where there are few."""
    steps = verified(encoder(batch, rows, 128, 4, 200), small(64, base))
    assert bool(steps["up"].options.get("stacked")) == stacked
    assert not steps["out"].options.get("stacked")  # heads lie matrix by matrix


@pytest.mark.parametrize(("width", "kibibytes", "names"), [(256, 144, "q k v"), (128, 72, "v out")])
def test_heads_of_some_matrices_at_a_time(width: int, kibibytes: int, names: str) -> None:
    """Three of five are on chip while weights pass by, then the last two."""
    net = ModelBuilder("decoder", seed=3)
    x = net.input("x", (5, 70, width))
    n = net.rms_norm(x, "norm")
    q, k, v = (
        net.heads(net.linear(n, heads * 32, name), heads)
        for name, heads in (("q", 4), ("k", 2), ("v", 2))
    )
    tables = net.rotary_tables(70, 32)
    y = net.attention(net.rope(q, tables), net.rope(k, tables), v, causal=True)
    net.output("y", x + net.linear(y, width, "out"))
    steps = verified(net.build(), small(kibibytes))
    assert all(steps[name].options["matrices"] == 3 for name in names.split())


def test_gates_of_a_batch_in_parts() -> None:
    steps = verified(gated(10, 97, 96, 130), small(128))
    gate = steps["gate_proj+up_proj"].options
    assert gate["stacked"] and gate["rows"] and gate["norm"]


def test_what_fits_stays_apart() -> None:
    """Three rows of a matrix would bring 29 of padding along."""
    steps = verified(encoder(4, 3, 64, 2, 96), load_profile("atlas-v1"))
    assert not any(step.options.get("stacked") for step in steps.values())


def test_an_operand_is_copied_for_several_products() -> None:
    """Products behind each other share a copy to VMEM; one further on has a copy with a name of its own."""
    a, b = (StoredTensor(name, Layout((8, 64, 64), "fp8"), "activation") for name in "ab")
    reads = {"q": a, "k": a, "other": b, "later": a}
    program = LaunchProgram([Launch(name, "linear", {"a": t}, t) for name, t in reads.items()])
    first = _stage(program, [0, 1, 3])
    second = _stage(program, [4])
    assert [one.name for one in program.launches] == [
        "a to VMEM", "q", "k", "other", "a to VMEM", "later",
    ]  # fmt: skip
    assert [one.operands.get("a") for one in program.launches] == [
        None, first, first, b, None, second,
    ]  # fmt: skip
    assert first.name != second.name


def test_parts_become_smaller_until_they_fit() -> None:
    """A product with the sum behind it has no room for all rows, and its estimate does not know."""
    net = ModelBuilder("block", seed=1)
    x = net.input("x", (1, 256, 64))
    n = net.rms_norm(x, "norm")
    gate, up = (net.linear(n, 40, f"{name}_proj", bias=False) for name in ("gate", "up"))
    net.output("y", x + net.linear(net.silu_gate(gate, up), 64, "down_proj"))
    steps = verified(net.build(), small(64))
    assert steps["down_proj"].options["rows"] == 128


def test_how_products_become_smaller() -> None:
    layout = Layout((3, 100, 64), "fp8")
    a = StoredTensor("a", layout, "activation")
    for options, rows in (({}, [128, 64, 32]), ({"stacked": True}, [384, 192, 96, 64, 32])):
        call = Launch("y", "linear", {"a": a}, a, {"together": 3, **options})
        for wanted in rows:
            assert cut_smaller(call) and call.options["rows"] == wanted
            assert "together" not in call.options
        assert not cut_smaller(call)
    sums = Launch("y", "linear", {"a": a}, a, {"rows": 32, "depth": 64})
    assert cut_smaller(sums) and sums.options == {"rows": 32, "depth": 32}
    for kernel, options in (("norm", {}), ("linear", {"precise": "both"})):
        assert not cut_smaller(Launch("y", kernel, {"a": a}, a, options))


def test_many_parts_are_a_loop() -> None:
    """Code of its own for each of 20 parts would need their rows on chip together."""
    steps = verified(gated(1, 610, 40, 40), small(64))
    assert steps["gate_proj+up_proj"].options["rows"] <= 64


@pytest.mark.parametrize("seed", [1010, 1028, 1038])
def test_blocks_on_machines_with_little_room(seed: int) -> None:
    block = drawn(seed)
    verified(block.model, block.profile)


def test_padding_that_nobody_wrote_reaches_no_attention() -> None:
    """Values that stay on chip have rows beyond their edge, which a product made of whole tiles."""
    steps = verified(drawn(50010).model, drawn(50010).profile)
    assert steps["layers.0.attention1.v_proj"].options["resident"]
