"""Kernels over images against their references: bits, borders, no lint findings."""

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import to_codes


def codes(random, shape, dtype="fp8"):
    return to_codes(random.integers(-4, 5, shape).astype(np.float64), dtype)


def inputs(layer, random):
    specs = layer.kernel.specs
    return [codes(random, specs[n].arrangement.shape, specs[n].dtype) for n in layer.kernel.inputs]


def stored(compiled, arrays):
    """The result as it lies in DRAM, in the shape it is stored in."""
    compiled.run(*arrays)
    device = compiled._device(None)
    for name, array in zip(compiled.inputs, arrays, strict=True):
        device.write("dram", compiled.bases[name], compiled.layouts[name].pack(array))
    device.run()
    layout = compiled.layouts["out"]
    raw = device.read("dram", compiled.bases["out"], layout.bytes)
    bare = type(layout)(layout.shape, layout.dtype, layout.order)
    return bare.unpack(raw)


def check(layer, reference, profile, random):
    """Bits as the reference has them, the border as the image wants it, and no lint findings."""
    arrays = inputs(layer, random)
    try:
        compiled = layer.kernel.compile(profile)
    except TilewrightError as error:
        # Many phases of many channels are too much for the small memory of the first machine.
        assert profile == "atlas-v0" and error.code in ("TW1454", "TW1638", "TW1674")
        return
    kind = np.uint8 if compiled.layouts["out"].dtype == "fp8" else np.uint16
    got = compiled.run(*arrays).view(kind)
    want = reference.exact(load_profile(profile), *arrays)
    assert np.array_equal(canonical(got), canonical(want))
    assert not compiled.lint().findings
    out = getattr(layer, "out", None)
    if out is not None and out.around and out.dtype == "fp8":
        whole = stored(compiled, arrays)[..., : out.channels].view(np.uint8)
        assert np.array_equal(whole & 0x7F, out.arranged(got)[..., : out.channels] & 0x7F)
