"""Convolution and pooling over images, in any size, stride, padding, dilation and grouping."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from image_checks import check, codes, inputs

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen import compile_kernel
from tilewright.targets.atlas.kernels import convolution, image_blocks
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS, conv2d, result_of_unfolded
from tilewright.targets.atlas.kernels.image_operands import Filters, Unfolded
from tilewright.targets.atlas.kernels.images import Image, Window, prepared, result_image
from tilewright.targets.atlas.kernels.pooling import (
    add_images,
    average_pool,
    global_average_pool,
    max_pool,
)
from tilewright.targets.atlas.profile import load_profile

PROFILES = ("atlas-v0", "atlas-v1")
GENERATED = settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))


def some_window(random, most=4):
    top, left, bottom, right = (int(n) for n in random.integers(0, 3, 4))
    return Window(
        int(random.integers(1, most)), int(random.integers(1, most)),
        (int(random.integers(1, 3)), int(random.integers(1, 3))),
        (top, left, bottom, right),
        (int(random.integers(1, 3)), int(random.integers(1, 3))),
    )  # fmt: skip


def some_image(random, window, channels, **more):
    more = {"phases": tuple(s * int(random.integers(1, 3)) for s in window.steps), **more}
    height, width = (int(n) for n in random.integers(5, 16, 2))
    batch = None if random.random() < 0.7 else 2
    return prepared(Image(height, width, channels, batch=batch, **more), window)


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_images_that_are_added_to_sums(seed, profile):
    """With a border of their own, whatever it holds, before the activation."""
    random = np.random.default_rng(seed)
    window = some_window(random)
    image = some_image(random, window, int(random.integers(2, 80)))
    filters = int(random.integers(2, 80))
    out = result_image(image, window, filters)
    more = replace(out, border=(3, out.border[1]), fill=str(random.choice(["zero", "lowest"])))
    layer = conv2d(
        image, filters, window, bias=bool(random.random() < 0.5), out=out, added=more,
        scale=bool(random.random() < 0.5), activation=str(random.choice(list(ACTIVATIONS))),
        share=float(random.choice([1.0, 0.25, 4.0, 0.3])),
    )  # fmt: skip
    check(layer, references.conv2d(layer), profile, random)


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_filters_times_a_gate(seed, profile):
    """Filters times a number for every channel, of each image its own."""
    random = np.random.default_rng(seed)
    image = some_image(random, Window(1, 1), int(random.integers(2, 110)))
    gate = Image(1, 1, image.channels, batch=image.batch, border=(int(random.integers(3)), 0))
    layer = conv2d(
        image, int(random.integers(2, 110)), Window(1, 1), bias=bool(random.random() < 0.5),
        scale=bool(random.random() < 0.5), gate=gate,
    )  # fmt: skip
    check(layer, references.conv2d(layer), profile, random)


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_depthwise_filters_as_rows(seed, profile):
    """Rows of filters become diagonal tiles on the chip, with the signs of all zeros as without."""
    random = np.random.default_rng(seed)
    window = some_window(random)
    channels = int(random.integers(2, 80))
    image = some_image(random, window, channels)
    layer = conv2d(
        image, channels, window, groups=channels, bias=bool(random.random() < 0.5),
        scale=bool(random.random() < 0.5), activation=str(random.choice(list(ACTIVATIONS))),
        diagonal=True,
    )  # fmt: skip
    check(layer, references.conv2d(layer), profile, random)


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_columns_unfolded_by_the_host(seed, profile):
    """A window's columns as channels, its rows as taps."""
    random = np.random.default_rng(seed)
    window = some_window(random, most=6)
    channels, filters = int(random.integers(1, 8)), int(random.integers(1, 50))
    height, width = (int(n) for n in random.integers(11, 20, 2))
    image = Image(height, width, channels, batch=2)
    made = result_of_unfolded(image, window)
    phases = tuple(int(n) for n in random.integers(1, 3, 2))
    out = replace(made, channels=filters, phases=phases, border=(1, 1), pitch=0, spare=1)
    layer = conv2d(image, filters, window, activation="relu", unfolded="columns", out=out)
    check(layer, references.conv2d(layer, "columns"), profile, random)


def test_only_depthwise_filters_are_rows():
    with pytest.raises(TilewrightError) as error:
        conv2d(Image(8, 8, 8), 16, Window(1, 1), groups=8, diagonal=True)
    assert error.value.code == "TW1675"


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_random_convolutions(seed, profile):
    random = np.random.default_rng(seed)
    window = some_window(random)
    groups = int(random.choice([1, 1, 2, 3]))
    channels, filters = (int(n) * groups for n in random.integers(1, 50, 2))
    image = some_image(random, window, channels)
    layer = conv2d(
        image, filters, window, groups=groups, bias=bool(random.random() < 0.7),
        scale=bool(random.random() < 0.3), activation=str(random.choice(list(ACTIVATIONS))),
    )  # fmt: skip
    check(layer, references.conv2d(layer), profile, random)


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_random_poolings(seed, profile):
    random = np.random.default_rng(seed)
    window = some_window(random)
    channels = int(random.integers(1, 70))
    if random.random() < 0.5:
        layer = max_pool(some_image(random, window, channels, fill="lowest"), window)
        check(layer, references.max_pool(layer), profile, random)
    else:
        counting = bool(random.random() < 0.5)
        image = some_image(random, window, channels)
        layer = average_pool(image, window, count_padding=counting)
        check(layer, references.average_pool(layer, counting), profile, random)


@pytest.mark.parametrize("profile", PROFILES)
def test_rows_in_a_loop(profile, monkeypatch):
    """With short bodies rows are a loop of the program, with a rest, in one and several phases."""
    monkeypatch.setattr(image_blocks, "BODY", 60)
    random = np.random.default_rng(1)
    for phases, height in ((1, 13), (2, 18)):
        image = prepared(Image(height, 61, 32, phases), Window(2, 2, padding=1))
        layer = conv2d(image, 33, Window(2, 2, padding=1), activation="silu")
        assert "scf.for" in layer.kernel.ir(target=profile)
        check(layer, references.conv2d(layer), profile, random)


def test_too_much_code_is_made_shorter(monkeypatch):
    """Where instruction memory would not hold a kernel, all iterations of a loop are alike."""
    monkeypatch.setattr(image_blocks, "BODY", 30)
    window = Window(3, 3, padding=1)
    layer = conv2d(prepared(Image(30, 31, 64), window), 64, window)
    usual = len(layer.kernel.compile("atlas-v1").program)
    words = load_profile("atlas-v1").imem_bytes // compile_kernel.WORD
    monkeypatch.setattr(compile_kernel, "FOLLOWING", words - usual + 1)
    assert len(layer.kernel.compile("atlas-v1").program) < usual
    check(layer, references.conv2d(layer), "atlas-v1", np.random.default_rng(1))


@given(st.integers(0, 1 << 30))
@GENERATED
def test_masks_of_scales_and_terms(seed):
    """What is no pixel is zero because its scales and terms are, whatever the sums are there."""
    random = np.random.default_rng(seed)
    window = some_window(random, 3)
    deep = bool(random.random() < 0.4)
    channels, filters = (int(n) for n in random.integers(2, 70, 2))
    image = some_image(random, window, channels)
    layer = conv2d(
        image, channels if deep else filters, window, groups=channels if deep else 1,
        diagonal=deep, scale=True, activation=str(random.choice(convolution.SIGNED)),
        factor=float(random.choice([1.0, 0.75, 4.0])),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REPEATED", "OFTEN"):
            patch.setattr(convolution, name, 0.01)
        check(layer, references.conv2d(layer), "atlas-v1", random)


@pytest.mark.parametrize("profile", PROFILES)
def test_depthwise_over_several_panels(profile):
    random = np.random.default_rng(2)
    image = prepared(Image(14, 14, 96), Window(3, 3, padding=1))
    layer = conv2d(image, 96, Window(3, 3, padding=1), groups=96)
    check(layer, references.conv2d(layer), profile, random)


@pytest.mark.parametrize("profile", PROFILES)
def test_phases_in_groups_where_all_have_no_room(profile, monkeypatch):
    window = Window(3, 3, 1, 1)
    wide = prepared(Image(224, 224, 256, phases=8), window)
    plan = conv2d(wide, 32, window).plan
    assert plan is not None
    chosen, groups = plan.cut(load_profile("atlas-v1"))
    assert chosen.tiles == 1 and len(groups) > 1 and all(len(one) < 64 for one in groups)
    image = prepared(Image(9, 7, 40, phases=(2, 4)), window)
    every = list(convolution._groups(image))
    assert [len(one) for one in every] == [1, 2, 4, 8]
    for groups in every:
        assert sorted(phase for one in groups for phase in one) == image.each_phase()
    monkeypatch.setattr(convolution, "_groups", lambda out: iter(every[2:]))
    layer = conv2d(image, 20, window, activation="relu")
    check(layer, references.conv2d(layer), profile, np.random.default_rng(3))


def test_results_in_bf16():
    random = np.random.default_rng(3)
    image = prepared(Image(9, 9, 40), Window(3, 3, padding=1))
    out = result_image(image, Window(3, 3, padding=1), 20, dtype="bf16")
    layer = conv2d(image, 20, Window(3, 3, padding=1), out=out)
    check(layer, references.conv2d(layer), "atlas-v1", random)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_whole_network(profile):
    """conv, pool, depthwise, residual sum, mean and linear, each taking what the last one stored."""
    random = np.random.default_rng(4)
    machine = load_profile(profile)
    window, whole = Window(3, 3, padding=1), Window(1, 1)
    first = prepared(Image(16, 16, 3, phases=4, batch=2), window)
    one = conv2d(first, 32, window, activation="relu")
    two = max_pool(one.out, Window(3, 3, 2, padding=1), nonnegative=True)
    three = conv2d(two.out, 32, window, groups=32)
    four = conv2d(three.out, 32, whole, activation="none")
    five = add_images(two.out, "relu")
    assert four.out == two.out
    six = global_average_pool(average_pool(five.image, Window(2, 2, 2)).out)
    seven = average_pool(five.image, Window(2, 2, 2))

    x = codes(random, first.shape)
    memory = run_stored(one, profile, [x, *inputs(one, random)[1:]], {})
    want = references.conv2d(one).exact(machine, *memory.given)
    for layer, reference, sources in (
        (two, references.max_pool(two), ["one"]),
        (three, references.conv2d(three), ["two"]),
        (four, references.conv2d(four), ["three"]),
        (five, references.add_images(five), ["two", "four"]),
        (seven, references.average_pool(seven), ["five"]),
        (six, references.global_average_pool(six), ["seven"]),
    ):
        own = inputs(layer, random)[len(sources) :]
        memory.run(layer, profile, sources, own)
        want = reference.exact(machine, *memory.given)
        assert np.array_equal(canonical(memory.last), canonical(want)), sources


class run_stored:
    """Programs one after the other; each reads the bytes that earlier ones left in DRAM."""

    names = ("one", "two", "three", "four", "five", "seven", "six")

    def __init__(self, layer, profile, arrays, _):
        self.raw, self.values = {}, {}
        self._run(layer, profile, arrays, {})

    def run(self, layer, profile, sources, own):
        arrays = [self.values[s] for s in sources] + own
        bytes_of = {n: self.raw[s] for n, s in zip(layer.kernel.inputs, sources, strict=False)}
        self._run(layer, profile, arrays, bytes_of)

    def _run(self, layer, profile, arrays, bytes_of):
        compiled = layer.kernel.compile(profile)
        device = compiled._device(None)
        for name, array in zip(compiled.inputs, arrays, strict=True):
            raw = bytes_of.get(name) or compiled.layouts[name].pack(array)
            device.write("dram", compiled.bases[name], raw)
        assert device.run().fault is None
        layout = compiled.layouts["out"]
        name = self.names[len(self.raw)]
        self.raw[name] = device.read("dram", compiled.bases["out"], layout.bytes)
        self.last = self.values[name] = layout.unpack(self.raw[name]).view(np.uint8)
        self.given = arrays


def test_eager_runs_give_the_same_bits():
    random = np.random.default_rng(5)
    image = prepared(Image(7, 9, 20, 2), Window(3, 2, 2, padding=(1, 0, 0, 1)))
    layer = conv2d(image, 10, Window(3, 2, 2, padding=(1, 0, 0, 1)), activation="gelu")
    arrays = inputs(layer, random)
    for profile in PROFILES:
        compiled = layer.kernel(*arrays, target=profile)
        assert compiled.tobytes() == layer.kernel.eager(*arrays, profile=profile).tobytes()


def test_an_image_is_read_once():
    """All taps of a window and all filters share what is in VMEM."""
    image = prepared(Image(8, 8, 32), Window(3, 3, padding=1))
    layer = conv2d(image, 64, Window(3, 3, padding=1), bias=False)
    compiled = layer.kernel.compile("atlas-v1")
    compiled.run(*inputs(layer, np.random.default_rng(0)))
    masks = compiled.statistics.dma_loaded - (image.pixels * 32 + 9 * 2 * 1024)
    assert -64 * 32 <= masks <= 6 * 1024


@pytest.mark.parametrize(
    "image",
    [
        Image(5, 7, 3),
        Image(5, 7, 40, 2, (1, 2)),
        Image(6, 6, 33, (1, 3), (2, 1), fill="lowest", batch=3),
    ],
    ids=str,
)
def test_storing_and_back(image):
    array = np.random.default_rng(0).integers(0, 127, image.shape).astype(np.uint8)
    whole = image.arranged(array)
    assert whole.shape == image.stored and np.array_equal(image.restored(whole), array)
    outside = 0xFE if image.fill == "lowest" else 0
    counted = (whole[..., : image.channels] != outside).sum()
    assert counted == (array != outside).sum()


def test_where_a_pixel_is():
    """Row 3, column 4 of an image in two phases: phase (1, 0), row 1, column 2."""
    image = Image(6, 8, 1, 2, (1, 1), pitch=8)
    array = np.zeros(image.shape, np.uint8)
    array[3, 4] = 7
    assert np.argwhere(image.arranged(array)).tolist() == [[0, 1, 0, image.lead + 8 + 2, 0]]


def test_filters_of_groups():
    filters = Filters(1, 1, 96, 64, 2)
    assert [filters.tiles(t) for t in (0, 1)] == [(0, 1), (1, 2)]
    w = np.arange(1, 1 + 48 * 64).reshape(filters.shape)
    assert np.array_equal(filters.restored(filters.arranged(w)), w)


def test_an_unfolded_image_is_not_read_back():
    image = Image(4, 4, 3)
    with pytest.raises(TilewrightError):
        Unfolded(image, Window(1, 1), image).restored(np.zeros(image.stored))


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (lambda: Image(0, 3, 3), "TW1670", "0x3x3"),
        (lambda: Image(4, 9, 3, border=(0, 2), pitch=10), "TW1670", "a pitch of 10"),
        (lambda: Image(4, 9, 3, fill="one"), "TW1670", "'one'"),
        (lambda: Window(0, 3), "TW1671", "no window"),
        (lambda: conv2d(Image(4, 4, 3), 8, Window(7, 7)), "TW1671", "7x7"),
        (lambda: conv2d(Image(4, 4, 3), 8, Window(1, 1, 2)), "TW1672", "stride (2, 2)"),
        (lambda: conv2d(Image(4, 4, 3), 8, Window(3, 3, padding=1)), "TW1672", "1 rows"),
        (lambda: conv2d(Image(4, 8, 3), 8, Window(2, 2)), "TW1672", "pixels beyond the image"),
        (lambda: conv2d(Image(4, 4, 6), 8, Window(1, 1), groups=4), "TW1673", "4 groups"),
        (lambda: conv2d(Image(4, 4, 6), 8, Window(1, 1), activation="cos"), "TW1675", "'cos'"),
        (
            lambda: conv2d(Image(4, 4, 6), 8, Window(1, 1), out=Image(4, 5, 8)),
            "TW1672",
            "not 4x5x8",
        ),
        (
            lambda: max_pool(Image(4, 4, 6, border=(1, 1)), Window(3, 3, padding=1)),
            "TW1676",
            "border of zeros",
        ),
        (
            lambda: conv2d(Image(16, 16, 4096), 32, Window(1, 1)).kernel.compile("atlas-v0"),
            "TW1638",
            "MiB",
        ),
    ],
)
def test_mistakes(make, code, words):
    with pytest.raises(TilewrightError) as caught:
        make()
    assert caught.value.code == code and words in caught.value.message


def test_a_window_must_stay_inside():
    @tw.kernel
    def windows(x: tw.fp8["M", 32].panels(), out: tw.bf16["M", 32]):
        for m in tw.grid(out.M):
            out[m, :] = tw.to_bf16(x[m + 1, :])

    with pytest.raises(TilewrightError) as caught:
        windows.compile("atlas-v1", x=(64, 32))
    assert caught.value.code == "TW1604"


def test_only_rows_of_panels_can_be_shifted():
    @tw.kernel
    def bad(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(out.M):
            out[m, :] = x[m + 1, :]

    with pytest.raises(TilewrightError, match="cannot be read between tiles") as caught:
        bad.compile("atlas-v1", x=(64, 32))
    assert caught.value.code == "TW1639"
