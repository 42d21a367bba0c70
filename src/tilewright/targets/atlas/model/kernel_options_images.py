"""The options of the kernels of whole models over images. Images and windows are tables, as
`targets/atlas/kernels/arrangements.py` writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.arrangements import read
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.kernel_options import Factor, Norm, Result
from tilewright.targets.atlas.model.typed_options import Numbered, Option, needed

Table = dict[str, Any]
Stored = TypeVar("Stored", Image, Window)
Source = Annotated[Table, Option("the image that is read")]
Target = Annotated[Table, Option("the image that is made")]
Activation = Literal[
    "none", "relu", "relu6", "gelu", "silu", "sigmoid", "tanh", "hardsigmoid", "hardswish"
]


def stored_image(value: Table, first: bool | None = None) -> Image:
    """The image of an option; `first` says anew whether arrays have their channels first."""
    image = _arrangement(value, Image)
    return image if first is None else replace(image, first=first)


def stored_window(value: Table) -> Window:
    """The window of an option."""
    return _arrangement(value, Window)


def _arrangement(value: Table, kind: type[Stored]) -> Stored:
    try:
        found = read(value)
    except ValueError as error:
        raise TilewrightError("TW1717", f"an option {error}") from None
    if not isinstance(found, kind):
        raise TilewrightError(
            "TW1717", f"an option is {value['kind']}, not {kind.__name__.lower()}"
        )
    return found


Share = Annotated[float, Option("what an image that is added is multiplied by", 1.0)]


class ConvolutionOptions(TypedDict):
    """Of `conv2d`."""

    image: Source
    out: Target
    window: Annotated[Table, Option("height, width, stride, padding and dilation")]
    filters: Annotated[int, Option("their number")]
    groups: Annotated[int, Option("groups of channels that have filters of their own")]
    bias: Annotated[bool, Option("a number per filter is added")]
    scale: Annotated[bool, Option("the result of every filter is multiplied by a number")]
    activation: Annotated[Activation, Option("of the result")]
    factor: Factor
    unfolded: Annotated[
        bool | Literal["columns", "around"],
        Option(
            "the host stores the image window by window, or their columns, or with a border around"
        ),
    ]
    diagonal: Annotated[
        bool | Literal["ones"],
        Option(
            "of filters for single channels: stored as a row per tap, and made to tiles on chip; of a "
            "window of one pixel all can be ones",
            False,
        ),
    ]
    images: Annotated[
        list[Table],
        Option("what is read as one image, side by side; nothing if that is an image itself", []),
    ]
    enlarged: Annotated[
        list[list[int]], Option("how often pixels of each are repeated, down and across", [])
    ]
    added: Annotated[Table | None, Option("an image that is added before the activation", None)]
    share: Share
    gate: Annotated[
        Table | None,
        Option("an image of one pixel that multiplies the filters of its channels", None),
    ]
    deep: Annotated[
        int,
        Option(
            "tiles of channels that are added up, of all taps, before others, with sums on the chip; 0: "
            "all channels of a tap before the next",
            0,
        ),
    ]
    pool: Annotated[
        Table | None,
        Option(
            "the window of largest numbers of `out`, which are the kernel's result instead", None
        ),
    ]
    pooled: Annotated[Table | None, Option("the image of these", None)]
    kept: Annotated[bool, Option("`out` is stored beside what is pooled, as `out_image`", True)]


def needed_pixels(o: ConvolutionOptions) -> Image:
    """The part of a convolution's image that something is made of: all, but where only what is pooled
    of it leaves the kernel."""
    image = stored_image(o["out"])
    if o["pool"] is None or o["kept"]:
        return image
    window, out = stored_window(o["pool"]), stored_image(needed(o["pooled"], "pooled"))
    rows, columns = out.height * window.height, out.width * window.width
    return replace(image, height=min(image.height, rows), width=min(image.width, columns), pitch=0)


class ChainOptions(TypedDict):
    """Of `chain`."""

    image: Source
    out: Target
    parts: Annotated[list[ConvolutionOptions], Option("the convolutions, one after the other")]
    factors: Annotated[dict[int, float], Numbered("factor", "of the convolution of that number")]
    share: Share
    rows: Annotated[
        int,
        Option(
            "of a phase in a band, of convolutions none of which is depthwise; 0: bands of whole tiles "
            "around a depthwise one",
            0,
        ),
    ]


def parts_of(o: ChainOptions) -> list[ConvolutionOptions]:
    """The convolutions of a chain, each with its numbers."""
    return [
        {**part, "factor": o["factors"].get(k, 1.0), "share": o["share"]}
        for k, part in enumerate(o["parts"])
    ]


class PoolOptions(TypedDict):
    """Of `pool`."""

    image: Source
    out: Target
    window: Annotated[Table, Option("height, width, stride, padding and dilation")]
    kind: Annotated[str, Option('"max" for the largest number of a window, else its mean')]
    nonnegative: Annotated[bool, Option("no number is less than 0: zeros can be padding")]
    counting: Annotated[bool, Option("padding counts in means")]


class GatherOptions(TypedDict):
    """Of `gather`."""

    image: Source
    kind: Annotated[
        Literal["mean", "flat"], Option("the mean of all pixels, or all of them side by side")
    ]
    out: Result
    factor: Factor


class CombineOptions(TypedDict):
    """Of `combine`."""

    image: Source
    out: Target
    activation: Annotated[Activation, Option("of the sum")]
    two: Annotated[bool, Option("there is a second image")]
    first: Annotated[float, Option("what the first image is multiplied by", 1.0)]
    second: Annotated[float, Option("what the second one is multiplied by", 1.0)]
    factor: Factor


class ResampleOptions(TypedDict):
    """Of `resample`."""

    image: Source
    out: Target
    rows: Annotated[list[int] | None, Option("which rows, -1 for one of zeros; else all", None)]
    columns: Annotated[list[int] | None, Option("which columns, in the same way", None)]


class MeanOptions(TypedDict):
    """Of `mean`."""

    image: Source
    out: Target
    factor: Factor


def mean_of(o: MeanOptions) -> GatherOptions:
    """The same means as rows."""
    return {"image": o["image"], "kind": "mean", "out": "fp8", "factor": o["factor"]}


class ImageNormOptions(TypedDict):
    """Of `image_norm`."""

    image: Source
    out: Target
    kind: Annotated[Norm, Option("which norm")]
    epsilon: Annotated[float, Option("what is added to the mean square", 0.0)]
    weight: Annotated[bool, Option("channels are multiplied by the numbers `weight`")]
    bias: Annotated[bool, Option("the numbers `bias` are added")]
    factor: Factor


class GateOptions(TypedDict):
    """Of `gate`."""

    image: Source
    gate: Annotated[Table, Option("the image of one pixel that has the numbers of channels")]
    out: Target
    factor: Factor


class JoinOptions(TypedDict):
    """Of `join`."""

    image: Source
    out: Target
    images: Annotated[list[Table], Option("all images that are read")]
    starts: Annotated[list[int], Option("the first channel of each that is taken")]
    scales: Annotated[dict[int, float], Numbered("scale", "what the image is multiplied by")]
