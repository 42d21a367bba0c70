"""Placement and code until every kernel has the room it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.model import fitting
from tilewright.targets.atlas.model.link import Generator
from tilewright.targets.atlas.profile import load_profile


@pytest.mark.parametrize("batch", [56, 66, 80])
def test_many_short_batches_leave_an_operand_on_chip(batch: int):
    """The code of the second product fits only with short loops beside the operand that stays."""
    net = ModelBuilder("two", seed=0)
    x = net.input("x", (batch, 1, 64))
    net.output("y", net.linear(net.linear(x, 32, "0", bias=False), 32, "1", bias=False))
    program = tw.compile(net.build())
    assert program.verify().ok


SMALL = replace(load_profile("atlas-v1"), vmem_bytes=128 * 1024)


def test_deep_products_have_room_for_two_columns_of_weights():
    """96 tiles of rows fit, but not beside twice 48 tiles of weights."""
    net = ModelBuilder("deep", seed=0)
    net.output("y", net.linear(net.input("x", (64, 1536)), 96, "wide"))
    assert tw.compile(net.build(), target=SMALL).verify().ok


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(("rows", "width"), [(5, 470), (40, 385), (33, 900)])
def test_rows_that_do_not_fit_are_read_once_for_every_pass(rows: int, width: int, profile: str):
    """Norms with weight and bias and powers shared out, of rows that the chip cannot hold."""
    small = replace(load_profile(profile), vmem_bytes=128 * 1024)
    net = ModelBuilder("wide", seed=0)
    x = net.input("x", (rows, width))
    net.output("y", net.layer_norm(x, "norm"))
    net.output("z", net.softmax(x))
    program = tw.compile(net.build(), target=small)
    assert program.verify().ok
    steps = {step.kernel: step.options for step in program.model.artifact.steps}
    assert width < 800 or all(steps[kernel]["passes"] for kernel in ("norm", "softmax"))


def test_the_layer_that_does_not_fit_is_named():
    """A product that is kept precise has no sums on chip: its rows are there as a whole."""
    net = ModelBuilder("too deep", seed=0)
    x = net.linear(net.input("x", (32, 64)), 2048, "first")
    net.output("y", net.linear(x, 32, "second"))
    with pytest.raises(TilewrightError) as caught:
        tw.compile(net.build(), target=SMALL, keep=["second"])
    assert caught.value.code == "TW1708" and caught.value.message.startswith("second")


@pytest.mark.parametrize(("lack", "short"), [(4 * 1024, False), (512 * 1024, True)])
def test_element_by_element_loops_get_short_before_much_leaves_the_chip(
    lack: int, short: bool, monkeypatch: pytest.MonkeyPatch
):
    """A sum that lacks much room for all of its operands at once does not drive out what others
    read again; one that lacks little gets it."""
    searches: list[fitting._Search] = []
    made = fitting._Search.__post_init__
    lower = Generator.lower

    def note(search: fitting._Search) -> None:
        made(search)
        searches.append(search)

    def lacking(self: Generator, *where: Any) -> Any:
        found, lacks = lower(self, *where)
        asked = searches[-1].areas  # the sum lacks room the first time
        return found, lacks if asked else {**lacks, 0: lack}

    monkeypatch.setattr(fitting._Search, "__post_init__", note)
    monkeypatch.setattr(Generator, "lower", lacking)
    net = ModelBuilder("sum", seed=0)
    x, y = (net.input(name, (64, 96)) for name in "xy")
    net.output("z", net.relu(x * y + x))
    program = tw.compile(net.build())
    assert [step.kernel for step in program.model.artifact.steps] == ["pointwise"]
    assert (searches[-1].short == {0}) is short
    assert (searches[-1].demands.more == {0: lack}) is not short
    assert program.verify().ok


@pytest.mark.parametrize(
    "profile, kibibytes, heads, groups, rows, keys, width, causal, masked",
    [
        ("atlas-v1", 64, 3, 3, 197, 197, 64, True, False),
        ("atlas-v1", 64, 2, 2, 50, 610, 64, False, False),
        ("atlas-v1", 48, 4, 2, 70, 200, 40, False, True),
        ("atlas-v0", 64, 1, 1, 130, 130, 100, True, False),
    ],
)
def test_attention_without_room_weighs_fewer_keys_at_a_time(
    profile: str,
    kibibytes: int,
    heads: int,
    groups: int,
    rows: int,
    keys: int,
    width: int,
    causal: bool,
    masked: bool,
):
    """The scores of a block of queries for all keys do not fit: maxima, sums and what is mixed so far
    are carried along. The order of that is part of what the kernel means, so the model is lowered
    again."""
    net = ModelBuilder("long", seed=rows)
    q = net.heads(net.linear(net.input("x", (1, rows, 48)), heads * width, "q"), heads)
    memory = net.input("memory", (1, keys, 40))
    k, v = (net.heads(net.linear(memory, groups * width, name), groups) for name in "kv")
    mask = net.input("mask", (1, rows, keys)) if masked else None
    y = net.attention(q, k, v, causal=causal, mask=mask)
    net.output("y", net.linear(y, 48, "o"))
    small = replace(load_profile(profile), vmem_bytes=kibibytes * 1024)
    program = tw.compile(net.build(), target=small)
    steps = program.model.artifact.steps
    (attention,) = (step for step in steps if step.kernel.startswith("attention"))
    assert attention.options["keys"] in (1, 2, 4, 8)
    found = program.verify()
    assert found.ok
    assert all(one.accuracy.cosine > 0.99 for one in found.outputs if one.accuracy)
