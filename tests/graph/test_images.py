"""Networks over images on the device: exact against their references, close to float32, and only
what has to be on the host is there."""

from __future__ import annotations

import json

import numpy as np
import pytest
from image_models import MODELS, compiled, global_average, imported, pooled
from test_programs import caught, with_regions

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.builder import ModelBuilder, integers
from tilewright.io.json_tables import Table
from tilewright.model.options import CompileOptions
from tilewright.runtime.bundle import load, save
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import HostPart
from tilewright.targets.atlas.artifact.contents import contents_of, read_contents
from tilewright.targets.atlas.kernels.arrangements import read, written
from tilewright.targets.atlas.kernels.image_operands import (
    Channels,
    Diagonals,
    Filters,
    Means,
    Unfolded,
    unfolded_columns,
)
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

PROGRAMS = [
    ("classifier", "atlas-v1", True),
    ("ragged", "atlas-v1", True),
    ("ragged", "atlas-v0", True),
    ("ragged", "atlas-v1", False),
    ("flattened", "atlas-v1", True),
    ("flattened", "atlas-v0", False),
    ("residual", "atlas-v1", True),
    ("edges", "atlas-v1", True),
]


@pytest.mark.parametrize(("name", "profile", "fuse"), PROGRAMS)
def test_every_layer_is_exact(name, profile, fuse):
    model = compiled(name, profile, fuse)
    result = verify(model, per_layer=True, original=imported(name))
    assert result.ok, result.first
    assert {layer.status for layer in result.layers} == {"equal"}
    for output in result.outputs:
        assert output.accuracy is not None and output.accuracy.cosine > 0.995
    assert all(note["cosine"] > 0.99 for note in model.quantisation.values())
    assert bound_of(model.artifact).total <= result.cycles
    for segment in model.artifact.segments:
        report = lint(segment, model.artifact.profile)
        assert not report.errors and not report.warnings and report.exact


@pytest.mark.parametrize("name", list(MODELS))
def test_only_the_handing_over_is_on_the_host(name):
    """One part of the host in front, which scales the image; everything else is one device part."""
    model = compiled(name)
    host = [part for part in model.parts if isinstance(part, HostPart)]
    assert len(model.parts) == 2 and len(host) == 1
    assert [reason.split(": ")[1][:6] for reason in host[0].reasons] == ["scaled"]


def test_nothing_is_refused_without_a_host():
    """Handing an image over is no operation of the model."""
    net = ModelBuilder("tiny", seed=20)
    net.output("y", net.conv2d(net.input("x", (1, 3, 5, 5)), 4, 3, "conv"))
    program = compile_model(net.build(), load_profile("atlas-v1"), CompileOptions(no_host=True))
    assert [step.kernel for step in program.artifact.steps] == ["conv2d"]


def test_what_becomes_of_a_network():
    model = compiled("classifier")
    assert [step.kernel for step in model.artifact.steps] == [
        "conv2d", "resample", "conv2d", "conv2d", "gather", "linear",
    ]  # fmt: skip
    assert [step.options.get("activation") for step in model.artifact.steps[:1]] == ["relu"]
    kept = [
        r for r in model.artifact.regions.values() if r.space == "vmem" and r.layout.arrangement
    ]
    assert len(kept) == 4  # every image between two kernels
    unfused = compiled("ragged", "atlas-v1", False)
    assert [step.kernel for step in unfused.artifact.steps].count("combine") == 3


def test_activations_are_part_of_their_layers():
    model = compiled("flattened")
    names = [step.options["activation"] for step in model.artifact.steps if step.kernel == "conv2d"]
    assert names == ["silu", "tanh"]
    assert [step.kernel for step in model.artifact.steps][-3:] == ["gather", "linear", "linear"]


def test_images_with_channels_last():
    """[B, H, W, C] and filters [KH, KW, C, N], as other frameworks have them."""
    from xdsl.dialects.builtin import StringAttr

    net = ModelBuilder("last", seed=21)
    x = net.input("x", (2, 9, 7, 40))
    w = net.drawn("w", (3, 3, 40, 12), 0.05)
    attributes = {
        "strides": integers([2, 1]), "padding": integers([1, 0, 0, 2]),
        "layout": StringAttr("nhwc_hwcf"),
    }  # fmt: skip
    y = net.relu(net._call("conv2d", [x, w], (2, 4, 7, 12), attributes))
    kernel = {"kernel": integers([4, 7]), "layout": StringAttr("nhwc")}
    y = net._call("pool_avg", [y], (2, 1, 1, 12), kernel)
    net.output("y", net.linear(net.reshape(y, (2, 12)), 5, "head"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert [step.kernel for step in program.artifact.steps] == ["conv2d", "gather", "linear"]
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.995


def test_groups_and_dilation():
    net = ModelBuilder("groups", seed=22)
    x = net.relu(net.conv2d(net.input("x", (1, 40, 9, 11)), 48, 1, "first"))
    w = net.drawn("w", (48, 1, 3, 3), 0.3)
    attributes = {
        "padding": integers([2, 2, 2, 2]), "dilations": integers([2, 2]),
        "groups": _integer(48),
    }  # fmt: skip
    net.output("y", net._call("conv2d", [x, w], (1, 48, 9, 11), attributes))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert [step.kernel for step in program.artifact.steps] == ["conv2d", "conv2d"]
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.995


def _integer(value):
    from xdsl.dialects.builtin import IntegerAttr, i64

    return IntegerAttr(value, i64)


def test_layers_for_the_host_on_request():
    """A layer in the middle goes to the host, with its reason; the others stay."""
    model = imported("ragged")
    options = CompileOptions(host=("conv2",))
    program = compile_model(model, load_profile("atlas-v1"), options)
    reasons = [r for part in program.parts if isinstance(part, HostPart) for r in part.reasons]
    assert "conv2: asked for" in reasons
    assert "conv3" in {step.name for step in program.artifact.steps}
    assert verify(program, original=model).ok


def test_computed_filters_are_the_hosts():
    """Filters that are computed have no kernel; the host says so."""
    net = ModelBuilder("computed", seed=23)
    x, w = net.input("x", (1, 8, 6, 6)), net.input("w", (4, 8, 3, 3))
    net.output("y", net._call("conv2d", [x, w], (1, 4, 4, 4)))
    program = compile_model(net.build(), load_profile("atlas-v1"))
    reasons = [r for part in program.parts if isinstance(part, HostPart) for r in part.reasons]
    assert reasons == ["conv2d: a convolution whose filters are computed"]


def tiny(head: str = "mean"):
    """One convolution, and a product on means or pixels."""
    net = ModelBuilder("tiny", seed=24)
    x = net.relu(net.conv2d(net.input("x", (2, 3, 5, 4)), 20, 3, "conv", padding=1))
    x = global_average(net, x) if head == "mean" else net.reshape(x, (2, 400))
    net.output("y", net.linear(x, 7, "head"))
    return net.build()


@pytest.mark.parametrize("head", ["mean", "flat"])
def test_kept_layers(head):
    """Products behind images can be kept precise."""
    options = CompileOptions(keep=("head",))
    program = compile_model(tiny(head), load_profile("atlas-v1"), options)
    assert program.artifact.steps[-1].options["precise"] == (
        "both" if head == "mean" else "weights"
    )
    assert verify(program, per_layer=True, original=tiny(head)).ok


def test_convolutions_cannot_be_kept():
    with pytest.raises(TilewrightError, match="conv cannot be kept") as error:
        compile_model(tiny(), load_profile("atlas-v1"), CompileOptions(keep=("conv",)))
    assert error.value.code == "TW1709"


def test_scales_per_tensor():
    program = compile_model(tiny(), load_profile("atlas-v1"), CompileOptions(scales="tensor"))
    row = program.artifact.regions["conv.scale"].layout.unpack(
        program.artifact.weights["conv.scale"].tobytes()
    )
    assert len(np.unique(row.astype(np.float32))) == 1
    assert verify(program, original=tiny()).ok


def test_channels_beyond_the_last_are_not_taken_for_zeros():
    """A sigmoid of nothing is a half: pixels side by side then go by way of the host."""
    net = ModelBuilder("half", seed=25)
    x = net.conv2d(net.input("x", (2, 3, 5, 4)), 40, 1, "conv")
    x = net.reshape(net.unary("elementwise_sigmoid", x), (2, 800))
    net.output("y", net.linear(x, 7, "head"))
    program = compile_model(net.build(), load_profile("atlas-v1"))
    assert verify(program, per_layer=True).ok
    assert "gather" not in {step.kernel for step in program.artifact.steps}


def test_a_small_memory():
    """Images that do not all fit stay where there is room."""
    net = ModelBuilder("small", seed=26)
    x = net.gelu(net.conv2d(net.input("x", (3, 16, 7, 15)), 67, 2, "first", padding=1))
    x = net.relu(pooled(net, "pool_avg", x, 2, 2, (1, 1, 0, 0)))
    net.output("y", pooled(net, "pool_max", x, 2, 2, (1, 1, 1, 1)))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v0"))
    assert len(program.parts) == 2
    assert verify(program, per_layer=True, original=model).ok


@pytest.mark.parametrize(("size", "batch"), [(32, 1), (37, 2), (48, 1)])
def test_many_strides_on_small_images(size, batch):
    """Images whose phases would have a pixel each are stored anew between strides; of two layers
    the one with fewer channels."""
    net = ModelBuilder("strides", seed=27)
    x = net.relu(net.conv2d(net.input("x", (batch, 3, size, size)), 12, 3, "stem", 2, 1))
    for k in range(3):
        wide = net.relu(net.conv2d(x, 40, 1, f"expand{k}"))
        short = net.conv2d(x, 20, 1, f"short{k}", 2)
        x = net.relu(net.conv2d(wide, 20, 3, f"conv{k}", 2, 1) + short)
    net.output("y", x)
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    steps = [step for step in program.artifact.steps if step.kernel == "resample"]
    assert steps and len(program.parts) == 2
    assert {step.options["image"]["channels"] for step in steps} <= {12, 20}
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.985


def test_filters_of_one_number_are_known():
    """Weights that folding made all alike: a norm whose factor is zero in front of a sum."""
    net = ModelBuilder("alike", seed=28)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 9, 9)), 12, 3, "stem", padding=1))
    y = net.conv2d(x, 12, 3, "conv", padding=1)
    net.output("y", x + (y * 0.0 + 0.5))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert len(program.parts) == 2
    assert verify(program, per_layer=True, original=model).ok


# --- bundles ------------------------------------------------------------------------------------


def test_a_bundle_keeps_how_images_are_stored(tmp_path):
    model = compiled("residual")
    path = tmp_path / "residual.twb"
    save(model, path)
    again = load(path)
    assert again.artifact.regions == model.artifact.regions
    x = np.random.default_rng(5).standard_normal((1, 8, 17, 15)).astype(np.float32)
    first, second = (Session(one).run(x=x) for one in (model, again))
    for name in first:
        assert np.array_equal(first[name], second[name])


ARRANGEMENTS = [
    Image(19, 23, 16, (2, 1), border=(1, 2), batch=2, first=True),
    Image(4, 5, 6, fill="lowest", spare=1),
    Filters(3, 3, 64, 96, groups=2),
    Filters(1, 1, 27, 16, taken=(3, 3, 3, 16)),
    Channels(70),
    Diagonals(3, 2, 40),
    Means(3, 40),
    unfolded_columns(Image(9, 8, 3), Window(7, 7, 2, 3), Image(5, 4, 20))[0],
    Unfolded(Image(8, 8, 3), Window(3, 3, padding=1), Image(8, 8, 20)),
]


@pytest.mark.parametrize("arrangement", ARRANGEMENTS, ids=lambda a: type(a).__name__)
def test_arrangements_are_read_as_written(arrangement):
    assert read(json.loads(json.dumps(written(arrangement)))) == arrangement


def broken_manifests():
    """(change, what is said about it)"""
    image = "elementwise_relu"
    yield lambda r: r[image]["arrangement"].update(height=40), "does not make"
    yield lambda r: r[image]["arrangement"].update(kind="pickle"), "no known kind"
    yield lambda r: r[image]["arrangement"].update(height=-1), "no number"
    yield lambda r: r[image]["arrangement"].update(height=10**12), "no number"
    yield lambda r: r[image]["arrangement"].update(pitch=0), "without a pitch"
    yield lambda r: r[image]["arrangement"].update(more=1), "other fields"
    yield lambda r: r[image]["arrangement"].update(fill="ones"), "fill is not"
    yield lambda r: r[image]["arrangement"].update(first=1), "first is not"
    yield lambda r: r[image]["arrangement"].update(border=[1]), "1 numbers for border"
    yield lambda r: r[image].update(arrangement=7), "no known kind"
    yield lambda r: r[image].update(arrangement=written(Window(3, 3))), "no known kind"
    unfolded = "x.unfolded"
    yield lambda r: r[unfolded]["arrangement"]["source"].update(height=90), "another image"
    yield lambda r: r[unfolded]["arrangement"].update(source=written(Window(1, 1))), "another kind"


@pytest.mark.parametrize("change", list(broken_manifests()), ids=lambda row: str(row[1])[:24])
def test_a_broken_arrangement_is_refused(change):
    document = json.loads(json.dumps(contents_of(compiled("residual").artifact)))
    edit, message = change
    edit(document["regions"])
    with pytest.raises(TilewrightError, match=message) as caught_error:
        read_contents(Table(document, "it", Location("residual.twb")))
    assert caught_error.value.code == "TW3104"


# --- broken on purpose --------------------------------------------------------------------------


def test_a_shifted_image_is_caught():
    model = compiled("ragged")
    region = model.artifact.regions["x.unfolded"]
    assert caught(with_regions(model, **{"x.unfolded": region.address + 32 * 8192})) == "differs"


@pytest.mark.parametrize("part", ["scale", "bias"])
def test_swapped_rows_are_caught(part):
    """Scales and biases of two layers with as many filters."""
    model = compiled("residual")
    first, second = (model.artifact.regions[f"{layer}.{part}"] for layer in ("a", "b"))
    assert first.layout == second.layout
    swapped = {first.name: second.address, second.name: first.address}
    assert caught(with_regions(model, **swapped)) == "differs"
