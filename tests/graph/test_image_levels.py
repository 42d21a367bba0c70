"""Networks that halve images and double them again: where they are stored anew, and that they compute
the same."""

from __future__ import annotations

import numpy as np
import pytest
from test_image_joins import doubled, joined

from tilewright.frontend.builder import ModelBuilder
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def down_and_up(sizes, widths, batch=1, twice=True):
    """Two halvings and two doublings, with what was there before beside what is doubled."""
    net = ModelBuilder("levels", seed=5)
    x = net.input("x", (batch, 3, *sizes))
    a = net.relu(net.conv2d(x, widths[0], 3, "a", padding=1))
    b = net.relu(net.conv2d(net.max_pool(a, 2), widths[1], 3, "b", padding=1))
    c = net.relu(net.conv2d(net.max_pool(b, 2), widths[2], 1, "c"))
    beside = joined(net, b, doubled(net, c)) if twice else net.relu(net.conv2d(b, 9, 1, "e"))
    d = net.relu(net.conv2d(beside, widths[1], 3, "d", padding=1))
    net.output("y", net.conv2d(joined(net, a, doubled(net, d)), 5, 3, "last", padding=1))
    if not twice:
        net.output("z", c)
    return net.build()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_doubled_is_read_where_it_is(seed):
    """The size between is stored anew where it begins and where it ends, not what is doubled."""
    random = np.random.default_rng(seed)
    sizes = [4 * int(random.integers(5, 12)) for _ in range(2)]
    widths = [int(n) for n in random.integers(3, 50, 3)]
    model = down_and_up(sizes, widths, int(random.integers(1, 3)))
    program = compile_model(model, load_profile("atlas-v1"))
    kernels = [step.kernel for step in program.artifact.steps]
    assert kernels == [
        "conv2d", "resample", "conv2d", "conv2d", "conv2d", "resample", "conv2d",
    ]  # fmt: skip
    assert verify(program, per_layer=True, original=model).ok


def test_without_a_doubled_image_strides_are_stored_anew_where_they_are():
    model = down_and_up((40, 44), (8, 20, 12), twice=False)
    program = compile_model(model, load_profile("atlas-v1"))
    kernels = [step.kernel for step in program.artifact.steps]
    assert kernels.count("resample") == 1
    assert verify(program, per_layer=True, original=model).ok
