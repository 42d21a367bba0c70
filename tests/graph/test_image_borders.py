"""Of the border of an image only the tiles are written that somebody looks at."""

from __future__ import annotations

import numpy as np
import pytest
from test_image_pools import halved_and_doubled, one_after_the_other, steps, verified

from tilewright.frontend.builder import ModelBuilder
from tilewright.model.capture import capture
from tilewright.model.simplify import simplify
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.kernels.arrangements import read, written
from tilewright.targets.atlas.kernels.images import Image
from tilewright.targets.atlas.model import image_bands, image_borders
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.image_plan import plan_images
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def images(program):
    """How the images that kernels make are stored."""
    found = (program.artifact.regions[step.operands["out"]] for step in program.artifact.steps)
    return [r.layout.arrangement for r in found if isinstance(r.layout.arrangement, Image)]


def residual(batch=1):
    net = ModelBuilder("residual", seed=7)
    x = net.relu(net.conv2d(net.input("x", (batch, 3, 20, 28)), 40, 3, "a", padding=1))
    y = net.relu(net.conv2d(x, 40, 3, "b", padding=1))
    y = net.relu(net.conv2d(y, 40, 3, "c", padding=1) + x)
    net.output("y", net.conv2d(net.conv2d(y, 33, 3, "d", stride=2, padding=1), 5, 1, "e"))
    return net.build()


MODELS = {
    "joined": lambda: halved_and_doubled((16, 24), (20, 40), 2),
    "in a row": lambda: one_after_the_other((29, 37), (33, 70), 1),
    "sums": residual,
}


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("name", MODELS)
def test_what_nobody_looks_at_is_not_written(name, profile):
    """And all that somebody looks at is: memory begins as NaN."""
    program = verified(MODELS[name](), load_profile(profile))
    known = [image for image in images(program) if image.seen]
    assert known
    for image in known:
        every = (image.pixels - image.rows * image.pitch) // 32 * len(image.each_phase())
        assert sum(image.seen) < every


def test_bands_say_what_they_load(monkeypatch):
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    net = ModelBuilder("bands", seed=3)
    y = net.input("x", (1, 40, 24, 40))
    for number in range(4):
        y = net.relu(net.conv2d(y, 36, 3, f"conv{number}", padding=1))
    net.output("y", net.conv2d(y, 5, 1, "last"))
    program = verified(net.build())
    assert steps(program).count("chain") == 2
    assert any(image.seen for image in images(program))


@pytest.mark.parametrize("name", MODELS)
def test_too_little_border_is_noticed(name, monkeypatch):
    """What is looked at and not written is NaN, and so is the result."""
    monkeypatch.setattr(
        image_borders, "_tiles", lambda image, reads: (0,) * (2 * len(image.each_phase()))
    )
    model = MODELS[name]()
    assert not verify(compile_model(model, V1), per_layer=True, original=model).ok


def test_an_image_that_something_else_reads_has_all_of_its_border():
    net = ModelBuilder("mean", seed=3)
    y = net.relu(net.conv2d(net.input("x", (1, 40, 12, 12)), 40, 3, "a", padding=1))
    net.output("image", y)
    net.output("y", net.conv2d(y, 40, 3, "b", padding=1))
    assert not any(image.seen for image in images(verified(net.build())))


def test_border_as_text():
    image = Image(8, 8, 32, phases=2, border=(1, 1), seen=(0, 1, 1, 1, 2, 0, 0, 0))
    assert read(written(image)) == image
    assert "seen" not in written(Image(8, 8, 32))
    assert image.border_seen((1, 0)) == (2, 0)
    with pytest.raises(ValueError, match="tiles of border"):
        read({**written(image), "seen": [1, 2]})
    assert np.array_equal(image.restored(image.arranged(np.ones(image.shape, np.uint8))), np.ones(image.shape))  # fmt: skip


def test_who_reads_an_image_may_be_far_behind_it():
    """As many ways from the image to the end as two to the number of sums, in a long network."""
    net = ModelBuilder("far", seed=5)
    y = net.conv2d(net.input("x", (1, 3, 8, 8)), 8, 3, "conv", padding=1)
    y = net.reshape(net.transpose(y, (0, 2, 3, 1)), (1, 64, 8))
    for _ in range(400):
        y = net.binary("elementwise_add", net.unary("elementwise_tanh", y), y)
    net.output("y", net.linear(y, 5, "head"))
    graph = capture(simplify(net.build()))
    assert image_borders.seen_borders(plan_images(graph, V1, True, {})) is not None
