"""The options of the kernels of whole models, over rows and matrices; `kernel_options_images.py` has those over images.

A launch may leave out what has a default; makers, references and counts of work get all of them
(`typed_options.given`). `tilewright kernels options` prints them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal, TypedDict, get_args

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.model.typed_options import Option

Function = Literal[
    "neg", "gelu_tanh", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh", "sin",
    "cos", "relu", "sigmoid", "square", "cube", "silu",
]  # fmt: skip
Operation = Literal[Function, "add", "sub", "mul", "div", "max", "min"]
Format = Literal["fp8", "bf16"]
Result = Annotated[Format, Option("the format of the result")]
Factor = Annotated[float, Option("what the result is multiplied by", 1.0)]
Guarded = Annotated[
    bool, Option("what lies beyond edges stays finite, for products that read it", True)
]
Passes = Annotated[
    bool,
    Option("rows that are too long for the chip are read once for every pass over them", False),
]
Norm = Literal["rms", "layer"]
Pair = tuple[int, int]
Step = tuple[Operation, str, list[str | float]]
Program = Annotated[
    list[Step],
    Option(
        "(operation, result, arguments) one after the other; arguments are names of operands and "
        "earlier results, or numbers"
    ),
]
Together = Annotated[
    int | None,
    Option(
        "so many columns of tiles (for `project`: heads) side by side for two tiles of rows", None
    ),
]
Stacked = Annotated[
    bool,
    Option(
        "matrices of a batch are one to the kernel, each with its padding below the one before",
        False,
    ),
]
Matrices = Annotated[
    int, Option("with rows: so many matrices of a batch together, not one after the other", 1, 1)
]
Resident = Annotated[
    bool, Option("all weights are brought to the chip first; then rows pass by them", False)
]
Scaled = Annotated[bool, Option("columns of the product are multiplied by the row `scale`", False)]
Biased = Annotated[bool, Option("a row `bias` is added to the product", False)]
Rotation = Annotated[
    Literal["shared", "batch"] | None,
    Option(
        "heads are rotated by tables `cos` and `sin`, shared or of every matrix of a batch", None
    ),
]
Heads = Annotated[
    Literal["heads", "columns", "values"],
    Option(
        'how heads are kept: "heads" and "values" are [B, H, M, D], "columns" is [B, H, D, M] in '
        "panels, as attention wants keys"
    ),
]


def check_program(program: list[Step], operands: Container[str]) -> None:
    """An error if an operation has other arguments than one or two that are known by then."""
    known: set[str] = set()
    for operation, result, arguments in program:
        if len(arguments) != (1 if operation in get_args(Function) else 2):
            raise TilewrightError(
                "TW1717", f"{result} is {operation} of {len(arguments)} arguments"
            )
        for name in arguments:
            if isinstance(name, str) and name not in known and name not in operands:
                raise TilewrightError("TW1717", f"{result} is made of {name}, which is not known")
        known.add(result)


class NormOptions(TypedDict):
    """Of `norm`."""

    kind: Annotated[Norm, Option("which norm")]
    epsilon: Annotated[float, Option("what is added to the mean square")]
    out: Result
    factor: Factor
    guarded: Guarded
    passes: Passes
    weight: Annotated[bool, Option("columns are multiplied by the row `weight`", False)]
    bias: Annotated[bool, Option("the row `bias` is added", False)]
    stacked: Stacked


class SoftmaxOptions(TypedDict):
    """Of `softmax`."""

    passes: Passes


class ReduceOptions(TypedDict):
    """Of `reduce`."""

    kind: Annotated[Literal["sum", "mean", "max", "min"], Option("what is made of many numbers")]
    along: Annotated[
        Literal["row", "lines", "column", "batch"],
        Option(
            'which numbers: of a row, as [B, M, 1]; "lines" the same as [G, R, M], each matrix a row, '
            "B = G * R; of a column, as [G, R, K]; of the batch, as [P * S, M, K]"
        ),
    ]
    lines: Annotated[int, Option("R, the matrices of a group", 1)]
    split: Annotated[
        tuple[int, int, int] | None, Option("(P, Q, S) of a batch of P * Q * S matrices", None)
    ]
    passes: Passes


class PointwiseOptions(TypedDict):
    """Of `pointwise`."""

    inputs: Annotated[list[tuple[str, str]], Option("name of every operand and how it is spread")]
    program: Program
    out: Result
    guarded: Guarded
    split: Annotated[Pair | None, Option("(P, Q) of a batch of P * Q matrices", None)]
    shape: Annotated[
        list[int] | None, Option("of the result, where that of the operands says less", None)
    ]


class CopyOptions(TypedDict):
    """Of `copy`."""

    rank: Annotated[int, Option("the number of dimensions", least=2, most=4)]
    dtype: Annotated[Format, Option("the format of operand and result")]
    order: Annotated[Literal["tiles", "panels"], Option("that of its tiles", "tiles")]


class MoveOptions(TypedDict):
    """Of `move`."""

    count: Annotated[int, Option("the number of operands", least=1, most=4096)]
    pieces: Annotated[
        list[tuple[int, Pair, Pair, int, Pair, Pair, int, int]],
        Option(
            "(number of the operand, its first matrix and how far the next one is, the same of the "
            "result, how many, the tile down and across where it starts in the operand, the same in "
            "the result, its rows and columns)"
        ),
    ]
    dtype: Annotated[Format, Option("the format of operands and result", "bf16")]


class QuantiseOptions(TypedDict):
    """Of `quantise`."""

    factor: Factor
    edges: Annotated[
        Literal["rows", "columns"] | None, Option("what has zeros beyond its last one", None)
    ]


class ResidueOptions(TypedDict):
    """Of `residue`."""

    factor: Annotated[float, Option("what x is multiplied by", 1.0)]


class SplitHeadsOptions(TypedDict):
    """Of `split_heads`."""

    heads: Annotated[int, Option("their number", least=1)]
    out: Heads
    factor: Factor
    rope: Rotation


class FromHeadsOptions(TypedDict):
    """Of `from_heads`."""

    width: Annotated[int, Option("columns of the result")]
    factor: Factor


class LinearOptions(TypedDict):
    """Of `linear`."""

    out: Result
    scale: Scaled
    bias: Biased
    activation: Annotated[Function | None, Option("applied to the product", None)]
    factor: Factor
    residual: Annotated[bool, Option("`residual` is added at the end", False)]
    precise: Annotated[
        Literal["weights", "both"] | None,
        Option(
            'what rounding to fp8 left out comes on top: "weights" adds a @ w_low / 16, "both" also '
            "a_low @ w / 16",
            None,
        ),
    ]
    heads: Annotated[
        bool,
        Option(
            "a is [B, H, M, D], the result of attention; w has the rows of heads one after the other",
            False,
        ),
    ]
    rows: Annotated[
        int | None,
        Option(
            "all panels of w pass by for one block of so many rows after the other, not all rows for "
            "one panel after the other",
            None,
        ),
    ]
    depth: Annotated[
        int | None,
        Option(
            "with rows: sums of a block stay on chip, so many elements of the contraction at a time; "
            "w is not in panels",
            None,
        ),
    ]
    matrices: Matrices
    stacked: Stacked
    resident: Resident
    together: Together
    blocks: Annotated[
        bool,
        Option(
            "w is in tiles and passes by in blocks, or a does, whichever the machine does sooner",
            False,
        ),
    ]


class ProductOptions(TypedDict):
    """Of `product`."""

    left: Annotated[Literal["plain", "transposed"], Option("how a is stored")]
    right: Annotated[Literal["plain", "transposed"], Option("how b is stored")]
    out: Result
    factor: Factor
    shared: Annotated[
        Literal["a", "b"] | None, Option("the operand that is the same for all of a batch", None)
    ]
    rows: Annotated[int | None, Option("as of linear", None)]
    blocks: Annotated[
        bool, Option("b passes by in blocks, or a does, whichever the machine does sooner", False)
    ]


class GatedOptions(TypedDict):
    """Of `gated`."""

    scale: Annotated[bool, Option("rows `scale_gate`, `scale_up` multiply the products", False)]
    bias: Annotated[bool, Option("rows `bias_gate`, `bias_up` are added", False)]
    activation: Annotated[Function, Option("of the gate", "silu")]
    rows: Annotated[
        int | None, Option("all weights for one part of so many rows after the other", None)
    ]
    norm: Annotated[Norm | None, Option("with rows: a is bf16 and normed on its way", None)]
    epsilon: Annotated[float, Option("of that norm", 0.0)]
    norm_factor: Annotated[float, Option("what the normed rows are multiplied by", 1.0)]
    together: Together
    stacked: Stacked


def norm_of(o: GatedOptions) -> NormOptions:
    """The norm in front of a gated product."""
    assert o["norm"] is not None
    return NormOptions(
        kind=o["norm"], epsilon=o["epsilon"], out="fp8", factor=o["norm_factor"],
        weight=False, bias=False, guarded=True, passes=False, stacked=False,
    )  # fmt: skip


class ProjectOptions(TypedDict):
    """Of `project`."""

    out: Heads
    scale: Scaled
    bias: Biased
    norm: Annotated[float | None, Option("epsilon of an rms norm of each head, times `gain`", None)]
    shift: Annotated[bool, Option("`shift` is added to normed heads", False)]
    width: Annotated[int, Option("columns of a normed head that are not padding", 0)]
    rope: Rotation
    rotated: Annotated[
        int | None, Option("the columns of a head that are rotated, if more follow", None)
    ]
    rows: Annotated[int | None, Option("as of gated", None)]
    matrices: Matrices
    resident: Resident
    together: Together


class AttentionOptions(TypedDict):
    """Of `attention`."""

    mask: Annotated[
        Literal["causal", "full", "key"] | None,
        Option(
            'hides keys: "causal" those behind a query, of the last source; "full" adds `mask` '
            '[M, N] to scores, "key" adds [N]',
            None,
        ),
    ]
    batch: Annotated[bool, Option("the mask has a batch", False)]
    per_head: Annotated[bool, Option("a full mask has a matrix for every head", False)]
    parts: Annotated[
        int, Option("sources of keys: kt1, v1, mask1, … behind kt, v, mask", 1, 1, 256)
    ]
    out: Annotated[Format, Option("the format of the result", "fp8")]
    written_out: Annotated[
        bool,
        Option(
            "every block of queries has code of its own under a causal mask, also where that is long",
            False,
        ),
    ]
    keys: Annotated[
        int | None,
        Option("so many tiles of keys at a time; maximum, sum and result are carried along", None),
    ]
    span: Annotated[
        int | None, Option("with keys: the same for so many tiles of queries side by side", None)
    ]
    sharing: Annotated[
        int, Option("with span and a causal mask: so many heads of a group side by side", 1, 1, 256)
    ]
    by_rows: Annotated[
        bool,
        Option(
            "all heads for one block of queries after the other: rows of a mask pass by once", False
        ),
    ]


class AttentionLinearOptions(AttentionOptions):
    """Of `attention_linear`: of attention, and of the product of its heads with weights."""

    out: Result
    scale: Scaled
    bias: Biased
    activation: Annotated[Function | None, Option("applied to the product", None)]
    factor: Factor
    residual: Annotated[bool, Option("`residual` is added at the end", False)]
    rows: Annotated[int | None, Option("as of linear", None)]
    heads_on_chip: Annotated[
        bool, Option("what attention finds stays on chip until the product takes it", False)
    ]


def attention_of(o: AttentionLinearOptions) -> AttentionOptions:
    """The attention in front of a product."""
    return AttentionOptions(
        mask=o["mask"], batch=o["batch"], per_head=o["per_head"], parts=o["parts"],
        out="fp8", written_out=o["written_out"], keys=o["keys"], span=o["span"], sharing=o["sharing"],
        by_rows=o["by_rows"],
    )  # fmt: skip


def linear_of(o: AttentionLinearOptions) -> LinearOptions:
    """The product behind attention."""
    return LinearOptions(
        out=o["out"], scale=o["scale"], bias=o["bias"], activation=o["activation"],
        factor=o["factor"], residual=o["residual"], precise=None, heads=True, rows=o["rows"],
        depth=None, resident=False, stacked=False, together=None, blocks=False, matrices=1,
    )  # fmt: skip


class RecurrentOptions(TypedDict):
    """Of `recurrent`."""

    program: Program
    next: Annotated[list[str], Option("the results that are the states of the next step")]
    kept: Annotated[int, Option("so many of the first states are results", least=1, most=256)]
    factor: Annotated[float, Option("what the first state is multiplied by, for fp8", 1.0)]
    bias: Annotated[list[int], Option("gates of the product that have a bias", ())]
    rows: Annotated[bool, Option("operations read `rows`", False)]
    backward: Annotated[bool, Option("from the last step to the first", False)]
