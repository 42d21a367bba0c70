"""First tiles of weights that the call before loads: which ones, how, and who would notice."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.io import content_cache
from tilewright.targets.atlas.codegen.routine import PointersExceeded
from tilewright.targets.atlas.model import fitting, link
from tilewright.targets.atlas.model.buffer_assignment import BESIDE, BEYOND, LAST
from tilewright.targets.checking import check

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import networks

# Loops with one body at their end; heads whose products overrun into the next one's weights; iterations
# of a layer loop; a norm that leaves the engine idle.
NETWORKS = {
    "decoder": lambda: networks.decoder(200, 512, 8, 4, 1365),
    "tower": lambda: networks.siglip(197, 384, 6, 1536),
    "narrow": lambda: networks.siglip(300, 160, 5, 320),
    "one row": lambda: networks.decoder(1, 576, 9, 3, 1536),
    "layers": lambda: networks.decoder(64, 160, 5, 5, 350, layers=3),
}


def products(rows: int, width: int, count: int) -> Imported:
    """Products one after the other."""
    net = ModelBuilder("products", seed=rows)
    x = net.input("x", (1, rows, width))
    for number in range(count):
        x = net.relu(net.linear(x, width, f"layers.{number}"))
    net.output("y", x)
    return net.build()


def compiled(make, hands_over: bool = True, target: str = "atlas-v1"):
    """The program, and what calls have begun for others."""
    found = []
    known = fitting.hand_over

    def choosing(program, places, uses, profile):
        return known(program, places, uses, profile) if hands_over else replace(places, begun=[])

    lower = link.Generator.lower

    def lowering(self, places, short=()):
        found[:] = places.begun
        return lower(self, places, short)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fitting, "hand_over", choosing)
        patched.setattr(link.Generator, "lower", lowering)
        program = tw.compile(make(), target=target)
    return program, list(found)


@pytest.fixture(scope="module")
def network():
    """Compiled networks by their names, each once for all tests."""
    return cache(lambda name: compiled(NETWORKS[name]))


@pytest.mark.parametrize("name", NETWORKS)
def test_calls_wait_for_less(name, network):
    program, begun = network(name)
    without, nothing = compiled(NETWORKS[name], hands_over=False)
    assert begun and not nothing
    assert program.verify().ok
    assert program.cycles < without.cycles


def test_all_ways_are_found(network):
    long = compiled(lambda: networks.siglip(1024, 768, 12, 3072))
    ways = {one.way for _, begun in (network("narrow"), long) for one in begun}
    assert ways == {BESIDE, LAST, BEYOND}


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("sizes", [(33, 96, 3), (64, 320, 3), (130, 320, 2), (250, 256, 2)])
def test_products_are_right(sizes, target):
    program, _ = compiled(lambda: products(*sizes), target=target)
    assert program.verify().ok


@pytest.mark.parametrize(
    "change",
    [
        lambda t: replace(t, dram=t.dram + 1024),
        lambda t: replace(t, vmem=t.vmem + 1024),
        lambda t: replace(t, bytes=t.bytes - 1024),
        lambda t: replace(t, rounds=not t.rounds),
    ],
)
def test_other_tiles_are_found_out(change, monkeypatch):
    """What is brought is what is read: another transfer gives other results."""
    made = link.Placement

    def placing(*arguments, **fields):
        following = tuple(map(change, fields["following"]))
        return made(*arguments, **{**fields, "following": following})

    monkeypatch.setattr(link, "Placement", placing)
    program = tw.compile(NETWORKS["layers"]())
    monkeypatch.undo()
    assert not program.verify().ok


def test_what_is_wrong_with_a_copy_is_found(network):
    program, begun = network("decoder")
    artifact = program.model.artifact
    assert begun
    number, step = next((k, s) for k, s in enumerate(artifact.steps) if s.finds and k)
    assert not list(check(program.model))
    for k, fields in (
        (number - 1, {"brings": ()}),
        (number, {"operands": {**step.operands, "w": "x"}}),
    ):
        steps = list(artifact.steps)
        steps[k] = replace(steps[k], **fields)
        other = replace(program.model, artifact=replace(artifact, steps=steps))
        assert list(check(other))


@pytest.mark.parametrize("name", ["decoder", "tower"])
def test_a_call_without_registers_for_what_it_brings_brings_nothing(name, monkeypatch):
    """Copies beside the work of a call follow addresses of their own: a loop over many tensors has
    none left for them, and was refused for it."""
    refused = []
    lower = link.lower_launch

    def lowering(source, traces):
        if source.placement.brings:
            refused.append(source.kernel)
            raise PointersExceeded(40, 1)
        return lower(source, traces)

    with content_cache.caching("off"):
        monkeypatch.setattr(link, "lower_launch", lowering)
        program, found = compiled(NETWORKS[name], monkeypatch)
    assert refused
    assert not any(one.way == BESIDE for one in found)
    assert program.verify().ok
