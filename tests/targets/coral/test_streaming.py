"""Images that do not fit are computed row by row, weights that do not fit come in layer by layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coral_models import Weights, separable_cnn

from tilewright.errors import TilewrightError
from tilewright.frontend.model_language import Model, Tensor, constant, model
from tilewright.targets.coral.compile import CoralOptions, compile_model, random_inputs, same_bits
from tilewright.targets.coral.machines import MACHINES, CoralMachine
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")


def with_data(name: str, size: int) -> CoralMachine:
    """A machine with another data memory and ample code memory."""
    machine = MACHINES[name]
    code = replace(machine.code, size=64 * 1024)
    data = replace(machine.data, base=0x10000 if not machine.external else 0x100000, size=size)
    return replace(machine, memories=(code, data))


def odd_network() -> Model:
    """Strides, dilation, pools, a skip over two convolutions, odd sizes, an image that is kept."""
    w = Weights(11)

    @model
    def network(x: Tensor["f32", 1, 27, 13, 3]) -> tuple[Tensor, Tensor]:
        h = (x.conv2d(w(3, 3, 3, 6), strides=(2, 1), padding=((2, 0), (1, 1))) + w(6)).relu()
        s = h
        h = (h.conv2d(w(5, 3, 1, 6), groups=6) + w(6)).relu()
        h = h.conv2d(w(1, 1, 6, 6)) + s
        kept = h.conv2d(w(3, 2, 6, 5), padding=((0, 1), (0, 0)), strides=(2, 2)).tanh()
        return kept, kept.sum(1, 2)

    return network


def keyword_spotter() -> Model:
    """A recording along time: strides, a skip, gates, uneven padding, an extreme at the end."""
    w = Weights(15)

    @model
    def network(x: Tensor["f32", 1, 121, 2]) -> Tensor:
        h = x.reshape(1, 1, 121, 2).conv2d(w(1, 5, 2, 6), strides=(1, 2)) + w(6)
        h = h + h.conv2d(w(1, 3, 1, 6), groups=6).tanh() * h.sigmoid()
        h = h.conv2d(w(1, 4, 6, 7), padding=((0, 0), (0, 2))).relu()
        h = h.reshape(1, 60, 7)
        return (h.tanh() + w(7)).max(1).matmul(w(7, 4)).softmax()

    return network


@pytest.mark.parametrize("precision", ["keep", "int8"])
@pytest.mark.parametrize("machine", ["coral", "coral-zve32f", "coral-scalar"])
@pytest.mark.parametrize("build", [separable_cnn, odd_network, keyword_spotter])
def test_rows_give_the_bits_of_whole_images(build, machine, precision):
    options = CoralOptions(precision, unroll=False)
    whole = compile_model(build().imported(), with_data(machine, 1 << 16), options)
    assert "k_rows" not in whole.source
    need = whole.budget.data_used - 64
    rows = compile_model(build().imported(), with_data(machine, need), options)
    assert "k_rows" in rows.source and rows.budget.data_used <= need
    assert rows.verify(1).ok
    inputs = random_inputs(rows.program, 5)
    for a, b in zip(rows.run(inputs), whole.run(inputs), strict=True):
        assert same_bits(a, b)


def test_a_large_image_on_the_small_machine():
    """Two maps of 32 KB each do not fit 32 KB; rows of them do."""
    w = Weights(12)

    @model
    def network(x: Tensor["f32", 1, 32, 32, 2]) -> Tensor:
        h = (x.conv2d(w(3, 3, 2, 8)) + w(8)).relu()
        h = (h.conv2d(w(3, 3, 1, 8), groups=8) + w(8)).relu()
        return h.conv2d(w(1, 1, 8, 4), strides=(2, 2)).mean(1, 2)

    made = compile_model(network.imported(), "coral")
    assert made.fits and made.verify(1).ok
    # More rows at a time where there is room for them, one at a time where there is not.
    small = compile_model(network.imported(), with_data("coral", 20_000))
    assert small.verify(1).ok and small.budget.data_used <= 20_000 < made.budget.data_used


def test_weights_behind_the_bus():
    w = Weights(13)

    @model
    def network(x: Tensor["f32", 1, 96]) -> Tensor:
        h = (x.matmul(w(96, 80)) + w(80)).relu()
        h = (h.matmul(w(80, 96)) + w(96)).relu()
        return h.matmul(w(96, 24)) + w(24)

    machine = with_data("coral-highmem", 40 * 1024)
    for precision, size in (("keep", 40 * 1024), ("int8", 16 * 1024)):
        machine = with_data("coral-highmem", size)
        made = compile_model(network.imported(), machine, CoralOptions(precision))
        assert "k_fetch" in made.source and made.budget.data_used <= size
        assert any(s.address >= 0x2000_0000 for s in made.elf.segments)
        assert made.verify(1).ok
        outcome = made.run_with_outcome(random_inputs(made.program, 0))[1]
        assert outcome.cycles is None and outcome.region_instructions  # the bus is not timed


def test_a_layer_larger_than_data_memory():
    """Its filters come in blocks."""
    w = Weights(14)

    @model
    def network(x: Tensor["f32", 1, 64]) -> Tensor:
        return (x.matmul(w(64, 100)) + w(100)).relu()

    for precision, size in (("keep", 20 * 1024), ("int8", 6 * 1024)):
        made = compile_model(
            network.imported(), with_data("coral-highmem", size), CoralOptions(precision)
        )
        assert made.budget.data_used <= size and made.source.count("k_fetch(") > 3
        assert made.verify(1).ok


def test_what_cannot_be_cut_says_by_how_much():
    @model
    def network(x: Tensor["f32", 1, 64, 64, 3]) -> Tensor:
        return x.relu()

    with pytest.raises(TilewrightError, match=r"TW5030.* 67,584 more than the 32,768"):
        compile_model(network.imported(), "coral")


def test_weights_are_finite_where_rows_pad():
    """Padding rows are numbers, and 0 times infinity is none: such a model is not streamed."""
    weights = np.ones((3, 3, 2, 8), dtype=np.float32)
    weights[0, 0, 0, 0] = np.inf

    @model
    def network(x: Tensor["f32", 1, 32, 32, 2]) -> Tensor:
        return x.conv2d(weights).relu().conv2d(np.ones((3, 3, 8, 8), np.float32)).sum(1, 2)

    with pytest.raises(TilewrightError, match="TW5030"):
        compile_model(network.imported(), "coral")


def test_inputs_and_outputs_larger_than_data_memory():
    """Without memory behind the bus an error says which and by how much; else they lie there."""
    w = Weights(16)

    @model
    def network(x: Tensor["f32", 1, 40, 40, 3]) -> Tensor:
        h = (x.conv2d(w(3, 3, 3, 6)) + w(6)).relu()
        return h.conv2d(w(3, 3, 6, 2)).tanh()

    with pytest.raises(TilewrightError) as caught:
        compile_model(network.imported(), "coral")
    said = str(caught.value)
    assert (
        "1,280 bytes more than there are: the largest is input_0, 1x40x40x3 of f32, 19,200" in said
    )
    assert "fits coral-highmem, which has 1,048,576 bytes" in said
    for size, far in ((24 * 1024, 1), (10 * 1024, 2)):
        made = compile_model(network.imported(), with_data("coral-highmem", size))
        assert made.source.count("] FAR_IO") == far and made.budget.data_used <= size
        assert made.budget.external == (19_200, 32_000)[far - 1] and made.verify(1).ok
        outcome = made.run_with_outcome(random_inputs(made.program, 0))[1]
        assert outcome.cycles is None and outcome.region_instructions


def test_pools_along_time():
    """Written over [time, channels, 1], as a pool of a recording may arrive, it is streamed too."""
    w = Weights(18)

    @model
    def network(x: Tensor["f32", 1, 300, 1]) -> Tensor:
        h = (x.reshape(1, 1, 300, 1).conv2d(w(1, 3, 1, 16)) + w(16)).relu()
        down = h.reshape(1, 300, 16, 1)
        pooled = h.tape.add(
            f'"stablehlo.reduce_window"({down.name}, {constant(0.0).name}) ({{^bb0(%a: tensor<f32>, %b: '
            "tensor<f32>):\n %r = stablehlo.add %a, %b : tensor<f32>\n stablehlo.return %r : tensor<f32> }) "
            "{window_dimensions = array<i64: 1, 3, 1, 1>, window_strides = array<i64: 1, 2, 1, 1>} : "
            f"({down.type}, tensor<f32>) -> tensor<1x149x16x1xf32>",
            Tensor["f32", 1, 149, 16, 1],  # type: ignore[arg-type]
        )
        h = pooled.reshape(1, 1, 149, 16)
        return (h.conv2d(w(1, 2, 16, 8)) + w(8)).relu().max(1, 2)

    imported = network.imported()
    whole = compile_model(imported, with_data("coral", 1 << 17))
    rows = compile_model(imported, with_data("coral", 12_000))
    assert "k_rows" in rows.source and rows.verify(1).ok
    inputs = random_inputs(rows.program, 5)
    assert same_bits(rows.run(inputs)[0], whole.run(inputs)[0])


def test_heads_cut_in_rows():
    """One head's scores do not fit either: a mask for all heads, keys and values of each."""
    w = Weights(17)

    @model
    def network(x: Tensor["f32", 24, 6]) -> Tensor:
        def heads(weights: np.ndarray) -> Tensor:
            return x.matmul(weights).reshape(24, 2, 5).transpose(1, 0, 2)

        q, k, v = (heads(w(6, 10)) for _ in range(3))
        scores = q.matmul(k.transpose(0, 2, 1)) / 2.0 + np.triu(np.full((24, 24), -9.0), 1)
        out = scores.softmax().matmul(v) * heads(w(6, 10)).sigmoid()
        return out.transpose(1, 0, 2).reshape(24, 10).matmul(w(10, 3))

    imported = network.imported()
    for precision in ("keep", "int8"):
        whole = compile_model(imported, with_data("coral", 1 << 16), CoralOptions(precision))
        need = whole.budget.data_used - 3600
        parts = compile_model(imported, with_data("coral", need), CoralOptions(precision))
        assert "turn_" in parts.source and " % " in parts.source and parts.verify(1).ok
        inputs = random_inputs(parts.program, 5)
        for a, b in zip(parts.run(inputs), whole.run(inputs), strict=True):
            assert same_bits(a, b)
