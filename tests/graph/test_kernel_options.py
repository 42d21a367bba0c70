"""Options of the kernels of whole models: what is taken, what is meant, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.kernel_options import Function
from tilewright.targets.atlas.model.kernel_options_images import Activation
from tilewright.targets.atlas.model.kernel_options_page import render
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.kernels import UNARY
from tilewright.targets.atlas.model.references_steps import UNARY as UNARY_REFERENCES
from tilewright.targets.atlas.model.typed_options import fields_of
from tilewright.targets.atlas.model.ways import Way

PAGE = Path(__file__).parents[2] / "docs" / "kernel-options.md"


def test_the_page_is_current() -> None:
    """When this fails: tilewright kernels options > docs/kernel-options.md"""
    assert PAGE.read_text() == render()


def test_functions_are_those_of_kernels_and_references() -> None:
    assert set(get_args(Function)) == set(UNARY) == set(UNARY_REFERENCES)
    assert set(get_args(Activation)) == set(ACTIVATIONS)


def test_options_that_are_left_out_have_their_defaults() -> None:
    found = RECORDS["norm"].given({"kind": "rms", "epsilon": 1e-6, "out": "fp8", "weight": True})
    assert found == {
        "kind": "rms", "epsilon": 1e-6, "out": "fp8", "factor": 1.0, "weight": True, "bias": False,
        "guarded": True, "passes": False, "stacked": False,
    }  # fmt: skip
    assert RECORDS["gated"].given({})["activation"] == "silu"
    assert RECORDS["linear"].given({"out": "bf16", "activation": None})["activation"] is None
    pieces = [[0, (1, 2), (0, 1), 2, (1, 0), (0, 0), 64, 20]]
    assert RECORDS["move"].given({"count": 1, "pieces": pieces})["dtype"] == "bf16"


def convolution(**more: Any) -> dict[str, Any]:
    image = written(Image(8, 8, 32))
    return {
        "image": image, "out": image, "window": written(Window(3, 3)), "filters": 32, "groups": 1,
        "bias": True, "scale": True, "activation": "relu", "unfolded": False, **more,
    }  # fmt: skip


def test_numbered_options_are_found_by_their_numbers() -> None:
    image = written(Image(8, 8, 32))
    parts = [convolution(), convolution(diagonal="ones")]
    options = {"image": image, "out": image, "parts": parts, "factor1": 0.5, "factor10": 2.0}
    found = RECORDS["chain"].given(options)
    assert found["factors"] == {1: 0.5, 10: 2.0}
    assert [part["diagonal"] for part in found["parts"]] == [False, "ones"]
    assert [part["factor"] for part in found["parts"]] == [1.0, 1.0]
    for name in ("factor", "factor01", "factor-1", "factor²", "factorx"):
        with pytest.raises(TilewrightError, match=f"no option {name}"):
            RECORDS["chain"].given({"image": image, "out": image, "parts": [], name: 1.0})


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("norm", {"kind": "rms", "out": "fp8"}, "epsilon is missing"),
        ("norm", {"kind": "l2", "epsilon": 1e-6, "out": "fp8"}, "kind is 'l2', wanted: \"rms\""),
        ("norm", {"kind": "rms", "epsilon": "0", "out": "fp8"}, "epsilon is '0', wanted: number"),
        ("softmax", {"axis": 1}, "no option axis"),
        ("linear", {"out": "bf16", "rows": True}, "rows is True, wanted: integer or nothing"),
        ("linear", {"out": "bf16", "rows": 32.0}, "rows is 32.0"),
        ("linear", {"out": "bf16", "scale": 1}, "scale is 1, wanted: true or false"),
        ("linear", {"out": "bf16", "activation": "gelu"}, "activation is 'gelu'"),
        ("pointwise", {"inputs": [["x"]], "program": [], "out": "bf16"}, "inputs is"),
        ("pointwise", {"inputs": [], "program": [["add", "y", [None]]], "out": "bf16"}, "program is"),
        ("pointwise", {"inputs": "x", "program": [], "out": "bf16"}, "inputs is 'x'"),
        ("reduce", {"kind": "sum", "along": "batch", "split": [1, 2]}, "split is"),
        ("recurrent", {"program": [], "next": ["s0"], "kept": 1, "bias": None}, "bias is None"),
        ("conv2d", convolution(window=3), "window is 3, wanted: table"),
        ("chain", {"image": {}, "out": {}, "parts": [{"image": {}}]}, "out is missing"),
        ("join", {"image": {}, "out": {}, "images": [], "starts": [0], "scale0": "x"}, "scale0 is"),
    ],
)  # fmt: skip
def test_what_is_no_option_is_refused(kernel: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TilewrightError, match="option") as caught:
        RECORDS[kernel].given(options)
    assert caught.value.code == "TW1717" and message in caught.value.message


@pytest.mark.parametrize("change", [{"kind": ["image"]}, {"kind": "disc"}, {"border": 1}])
def test_images_that_are_none(change: dict[str, Any]) -> None:
    image = {**written(Image(8, 8, 32)), **change}
    with pytest.raises(TilewrightError, match="an option has an arrangement"):
        RECORDS["conv2d"].build(convolution(image=image))


def test_images_that_are_joined_have_a_first_channel_each() -> None:
    image = written(Image(8, 8, 32))
    options = {"image": image, "out": image, "images": [image], "starts": [0, 0]}
    with pytest.raises(TilewrightError, match="1 images with 2 starts"):
        RECORDS["join"].build(options)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (["add", "y", ["x", "z"]], "y is made of z, which is not known"),
        (["add", "y", ["x", "y"]], "y is made of y, which is not known"),
        (["add", "y", ["x"]], "y is add of 1 arguments"),
        (["silu", "y", ["x", 1.0]], "y is silu of 2 arguments"),
        (["cosh", "y", ["x"]], "the option program is 'cosh'"),
    ],
)
def test_programs_of_operations_that_cannot_be(step: list[Any], message: str) -> None:
    options = {"inputs": [["x", "full"]], "program": [["exp", "x1", ["x"]], step], "out": "bf16"}
    with pytest.raises(TilewrightError, match=message):
        RECORDS["pointwise"].build(options)


def test_options_that_others_need() -> None:
    options = {"kind": "sum", "along": "batch"}
    kernel = RECORDS["reduce"].build(options)
    with pytest.raises(TilewrightError, match="split is missing"):
        kernel.compile("atlas-v1", x=(4, 32, 32), out=(2, 32, 32))


def test_ways_are_options_of_kernels() -> None:
    """What planning reads and writes for calls of any kernel, some kernel takes, of that type."""
    taken: dict[str, set[Any]] = {}
    for record in RECORDS.values():
        for field in fields_of(record.options):
            taken.setdefault(field.name, set()).update(_alternatives(field.type))
    for name, type_ in get_type_hints(Way).items():
        assert _alternatives(type_) <= taken[name], name


def _alternatives(type_: Any) -> set[Any]:
    """What a type is made of: those of a union, the words of a literal, else itself."""
    parts = get_args(type_)
    return {one for part in parts for one in _alternatives(part)} if parts else {type_}
