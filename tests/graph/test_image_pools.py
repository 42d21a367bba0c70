"""Poolings of whole models that are made by the convolution before them: kernels with two results."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from test_image_joins import doubled, joined

from tilewright.dialects.parsing import parse_text
from tilewright.frontend.builder import ModelBuilder
from tilewright.model.calibrate import example_inputs
from tilewright.model.parts import parts_of
from tilewright.program import Program
from tilewright.reference.executor import Executor
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.artifact.atlas_artifact import copy_of, is_result
from tilewright.targets.atlas.artifact.reference_device import references_of
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.convolution_pooling import IMAGE
from tilewright.targets.atlas.kernels.images import Image, Window, result_image
from tilewright.targets.atlas.model import compiler, image_bands
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.kernel_records import RECORDS, work_of
from tilewright.targets.atlas.model.latencies_images import leaves_out
from tilewright.targets.atlas.model.meaning import semantics
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.checking import check

V1 = load_profile("atlas-v1")


def halved_and_doubled(size, widths, batch=1):
    """A network that pools an image, and joins the image with what is made of the pooled one."""
    net = ModelBuilder("levels", seed=5)
    a = net.relu(net.conv2d(net.input("x", (batch, 3, *size)), widths[0], 3, "a", padding=1))
    b = net.relu(net.conv2d(net.max_pool(a, 2), widths[1], 3, "b", padding=1))
    net.output("y", net.conv2d(joined(net, a, doubled(net, b)), 5, 3, "last", padding=1))
    return net.build()


def one_after_the_other(size, widths, batch=1, window=2, leaves=False):
    """Convolutions with poolings between, as VGG has them."""
    net = ModelBuilder("row", seed=6)
    y = net.input("x", (batch, 3, *size))
    for number, width in enumerate(widths):
        y = net.relu(net.conv2d(y, width, 3, f"conv{number}", padding=1))
        if leaves:
            net.output(f"image{number}", y)
        y = net.max_pool(y, window)
    net.output("y", net.conv2d(y, 5, 1, "last"))
    return net.build()


def verified(model, profile=V1):
    program = compile_model(model, profile)
    found = verify(program, per_layer=True, original=model)
    assert found.ok, found
    assert not check(program)
    assert bound_of(program.artifact).total <= found.cycles
    return program


def steps(program):
    return [step.kernel for step in program.artifact.steps]


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(
    ("size", "widths", "batch"), [((16, 24), (20, 40), 1), ((18, 14), (40, 33), 2)]
)
def test_an_image_and_what_is_pooled_of_it_are_results_of_one_kernel(profile, size, widths, batch):
    program = verified(halved_and_doubled(size, widths, batch), load_profile(profile))
    assert "pool" not in steps(program)
    pooling = [step for step in program.artifact.steps if IMAGE in step.operands]
    assert [step.kernel for step in pooling] == ["conv2d"]


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(
    ("size", "widths", "batch", "window"),
    [((15, 29), (20, 40), 2, 2), ((29, 37), (33, 70), 1, 3), ((13, 8), (40,), 1, 2)],
)
def test_an_image_that_nobody_else_reads_is_not_stored(profile, size, widths, batch, window):
    """Pixels at the edge may be left over."""
    model = one_after_the_other(size, widths, batch, window)
    program = verified(model, load_profile(profile))
    assert not any(IMAGE in step.operands for step in program.artifact.steps)
    assert "pool" not in steps(program)[:-1]


def test_images_that_leave_the_device_are_stored_as_well():
    program = verified(one_after_the_other((16, 20), (20,), leaves=True))
    assert sum(IMAGE in step.operands for step in program.artifact.steps) == 1


@pytest.mark.parametrize("rest", [1, 0])
def test_bands_of_convolutions_pool(monkeypatch, rest):
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    net = ModelBuilder("bands", seed=3)
    y = net.input("x", (1, 3, 24, 40))
    for number in range(2):
        y = net.relu(net.conv2d(y, 36, 3, f"conv{number}", padding=1))
    z = net.relu(net.conv2d(net.max_pool(y, 2), 20, 3, "small", padding=1))
    if rest:
        y = joined(net, y, doubled(net, z))
    net.output("y", net.conv2d(y if rest else z, 5, 3, "last", padding=1))
    program = verified(net.build())
    (step,) = [s for s in program.artifact.steps if s.kernel == "chain" and s.options["parts"][-1].get("pool")]  # fmt: skip
    assert (IMAGE in step.operands) == bool(rest)


def test_two_poolings_of_one_image():
    """The first one is made with the image, the second one reads it."""
    net = ModelBuilder("two", seed=3)
    y = net.relu(net.conv2d(net.input("x", (1, 3, 24, 24)), 36, 3, "conv", padding=1))
    net.output("a", net.conv2d(net.max_pool(y, 2), 5, 1, "a"))
    net.output("b", net.conv2d(net.max_pool(y, 4), 5, 1, "b"))
    program = verified(net.build())
    assert steps(program).count("pool") == 1
    assert sum(IMAGE in step.operands for step in program.artifact.steps) == 1


# --- two results, as text, in files, and as what is checked --------------------------------


def test_text_and_files_keep_both_results(tmp_path, monkeypatch):
    model, kept = halved_and_doubled((16, 24), (20, 40)), []
    read = compiler.read_launches
    monkeypatch.setattr(compiler, "read_launches", lambda parts: kept.append(parts) or read(parts))
    result = compile_model(model, V1)
    monkeypatch.undo()
    assert f"also({IMAGE})" in result.phases["encoded"]
    parsed = parts_of(parse_text(result.phases["encoded"]), kept[0].weights)
    again = compiler.compile_encoded(parsed, V1)
    for one, other in zip(again.artifact.segments, result.artifact.segments, strict=True):
        assert np.array_equal(one.operands, other.operands)
    inputs = example_inputs(model, 0)
    outputs = Program(result)(*inputs.values())
    executor = Executor(parsed.module, parsed.weights, semantics(V1))
    wanted = next(iter(executor.run([inputs[spec.name] for spec in model.inputs])))
    assert np.array_equal(np.asarray(wanted, np.float32), np.asarray(outputs, np.float32))
    save(result, tmp_path / "two.twb")
    loaded = load(tmp_path / "two.twb")
    assert not check(loaded)
    assert verify(loaded, per_layer=True).ok
    graph = loaded.artifact.graph
    assert graph is not None
    assert [IMAGE in operation.others for operation in graph.operations].count(True) == 1


def _with_two(program):
    """The number of a step that has two results."""
    return next(k for k, s in enumerate(program.artifact.steps) if IMAGE in s.operands)


def test_results_that_share_memory_are_found():
    program = compile_model(halved_and_doubled((16, 24), (20, 40)), V1)
    step = program.artifact.steps[_with_two(program)]
    regions = program.artifact.regions
    first, second = regions[step.operands["out"]], regions[step.operands[IMAGE]]
    assert first.space == second.space
    wrong = copy.copy(program)
    wrong.artifact = replace(program.artifact, regions={**regions, first.name: replace(first, address=second.address)})  # fmt: skip
    assert "TW3112" in [finding.code for finding in check(wrong)]


def test_a_step_that_leaves_less_than_its_operation_is_found():
    program = compile_model(halved_and_doubled((16, 24), (20, 40)), V1)
    number = _with_two(program)
    every = list(program.artifact.steps)
    operands = {p: name for p, name in every[number].operands.items() if not p.startswith(IMAGE)}
    every[number] = replace(every[number], operands=operands)
    wrong = copy.copy(program)
    wrong.artifact = replace(program.artifact, steps=every)
    assert [finding.code for finding in check(wrong)] == ["TW3117"]


def test_verification_sees_a_wrong_second_result(monkeypatch):
    program = compile_model(halved_and_doubled((16, 24), (20, 40)), V1)
    references = dict(references_of(program.artifact))

    def other(profile, options, operands):
        found = RECORDS["conv2d"].compute(profile, options, operands)
        if IMAGE in found:
            found[IMAGE] = found[IMAGE] ^ np.uint8(1)
        return found

    wrong = copy.copy(program)
    wrong.artifact = replace(program.artifact, references={**references, "conv2d": other})
    found = verify(wrong, per_layer=True)
    assert not found.ok


def test_names_of_results():
    assert is_result("out") and is_result(IMAGE) and is_result(copy_of(IMAGE))
    assert not is_result("outer") and not is_result("x")


# --- work and bounds -----------------------------------------------------------------------


def _options(kept, size=(9, 11)):
    image = Image(size[0], size[1], 32, phases=2)
    window = Window(2, 2, 2)
    pooled = result_image(image, window, 32)
    return {
        "image": written(image), "out": written(image), "window": written(Window(1, 1)),
        "filters": 32, "groups": 1, "bias": False, "scale": False, "activation": "none",
        "unfolded": False, "pool": written(window), "pooled": written(pooled), "kept": kept,
    }  # fmt: skip


def test_work_counts_what_results_are_made_of():
    """Of an image that is not kept, 8 x 10 of 9 x 11 pixels are looked at; three of four are compared."""
    plain = {k: v for k, v in _options(True).items() if k not in ("pool", "pooled", "kept")}
    alone, kept, dropped = (work_of(V1, "conv2d", o, {}) for o in (plain, _options(True), _options(False)))  # fmt: skip
    assert kept.products == alone.products == 99 / 32
    assert dropped.products == 80 / 32
    assert kept.tiles == alone.tiles + 60 / 32 and dropped.tiles == 60 / 32
    assert (alone.casts, kept.casts, dropped.casts) == (99 / 32, 119 / 32, 20 / 32)


def test_pixels_may_be_left_out_of_what_is_pooled_only():
    options = _options(True)
    assert leaves_out("conv2d", options, "x", "out") and not leaves_out(
        "conv2d", options, "x", IMAGE
    )
    assert not leaves_out("conv2d", options, "w", "out")
