"""Products of more rows than fit, whose weights do: rows pass by them."""

from __future__ import annotations

from dataclasses import replace

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.profile import load_profile

SMALL = replace(load_profile("atlas-v1"), vmem_bytes=192 * 1024)


def test_rows_pass_by_weights_in_a_model() -> None:
    """Verified on memory that starts as NaN, the last rows no whole tile."""
    net = ModelBuilder("block", seed=1)
    x = net.input("x", (1, 690, 256))
    net.output("y", x + net.linear(net.rms_norm(x, "norm"), 256, "first", bias=False))
    program = tw.compile(net.build(), target=SMALL)
    assert program.verify().ok
    (options,) = (s.options for s in program.model.artifact.steps if s.kernel == "linear")
    assert options["resident"]
