"""How much each kernel of a whole model has to do, counted from its formula.

Counts are of 32x32 tiles and parts of them: a tile of which a tensor has only some elements counts
as these, for a program may put rows of several such tiles into one register. They say what the
result needs, not what a program does: nothing is loaded, spread, masked or computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tilewright.targets.atlas.model.kernel_options import (
    AttentionLinearOptions,
    AttentionOptions,
    CopyOptions,
    FromHeadsOptions,
    GatedOptions,
    LinearOptions,
    NormOptions,
    PointwiseOptions,
    ProductOptions,
    ProjectOptions,
    QuantiseOptions,
    RecurrentOptions,
    ReduceOptions,
    ResidueOptions,
    SoftmaxOptions,
    SplitHeadsOptions,
    attention_of,
    linear_of,
    norm_of,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Work:
    """Operations by kind."""

    products: float = 0  # of two tiles, on a matrix unit
    sums: float = 0  # tiles of results that leave a matrix unit
    operand_tiles: float = 0  # of the smaller operand of each product
    tiles: float = 0  # element by element on bf16 tiles
    columns: float = 0  # the same on one number per row
    # To fp8, and transposes of fp8 tiles; not from fp8, which an accumulator does on the way.
    casts: float = 0
    row_sums: float = 0
    row_extremes: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))

    def times(self, count: float) -> Work:
        return Work(*(getattr(self, f.name) * count for f in fields(Work)))


def _tiles(extent: int) -> float:
    return extent / SIDE


def _joins(extent: int) -> float:
    """Tiles that are joined to a first one, element by element."""
    return max(0.0, _tiles(extent) - 1)


def _grid(shape: tuple[int, ...]) -> float:
    """Tiles of a tensor."""
    return math.prod(shape) / SIDE**2


class Costs:
    """Instructions of element-wise functions."""

    def __init__(self, profile: Profile) -> None:
        cube = 1 if "square_cube" in profile.features else 2
        self.unary = {
            "abs": 2, "log": 2, "rsqrt": 2, "sigmoid": 4, "silu": 5, "gelu_tanh": 7 + cube,
            "cube": cube,
        }  # fmt: skip

    def function(self, name: str) -> int:
        return self.unary.get(name, 1)


def _product(rows: int, deep: int, columns: int, batch: int = 1, sides: int = 1) -> Work:
    """a [rows, deep] @ w [deep, columns] for a batch of a and several w."""
    m, k, n = batch * _tiles(rows), _tiles(deep), sides * _tiles(columns)
    # An instruction has one tile of each operand and of the sums, however little of it is used.
    products = max(m * k * n, m * k, k * n, m * n)
    return Work(products=products, sums=m * n, operand_tiles=k * min(m, n))


def norm_work(costs: Costs, o: NormOptions, shapes: Shapes) -> Work:
    batch, rows, width = shapes["x"]
    wide, blocks = _tiles(width), batch * _tiles(rows)
    layer = o["kind"] == "layer"
    # squares, their sum, the product with the scale; then what the options add
    joins = _joins(width)
    tiles = wide + joins + wide + wide * (bool(o["weight"]) + bool(o["bias"]))
    columns = 4 + (o["factor"] != 1.0)
    if layer:
        tiles, columns = tiles + joins + wide, columns + 1
    casts = wide if o["out"] == "fp8" else 0
    return Work(tiles=tiles, columns=columns, casts=casts, row_sums=1 + layer).times(blocks)


def softmax_work(costs: Costs, o: SoftmaxOptions, shapes: Shapes) -> Work:
    batch, rows, width = shapes["x"]
    wide = _tiles(width)
    tiles = 2 * _joins(width) + 3 * wide
    one = Work(tiles=tiles, columns=1, row_sums=1, row_extremes=1)
    return one.times(batch * _tiles(rows))


def reduce_work(costs: Costs, o: ReduceOptions, shapes: Shapes) -> Work:
    batch, rows, width = shapes["x"]
    mean, total = o["kind"] == "mean", o["kind"] in ("sum", "mean")
    if o["along"] == "batch":
        joined = _grid(shapes["x"]) - _grid(shapes["out"])
        return Work(tiles=joined + (_grid(shapes["out"]) if mean else 0))
    if o["along"] == "column":  # the rows of a last tile are joined too, by one instruction more
        return Work(tiles=_joins(rows) * _tiles(width) * batch)
    one = Work(
        tiles=_joins(width),
        columns=int(mean),
        row_sums=int(total),
        row_extremes=int(not total),
    )
    return one.times(batch * _tiles(rows))


def pointwise_work(costs: Costs, o: PointwiseOptions, shapes: Shapes) -> Work:
    """Operations on what is not broadcast; what is needs computing only once."""
    full = {name for name, kind in o["inputs"] if kind == "full"}
    count = 0
    for operation, result, arguments in o["program"]:
        if any(isinstance(a, str) and a in full for a in arguments):
            full.add(result)
            ops = costs.function(operation) if len(arguments) == 1 else 1
            if operation == "div" and isinstance(arguments[1], str) and arguments[1] in full:
                ops = 2
            count += ops
    tiles = _grid(shapes["out"])
    return Work(tiles=count, casts=int(o["out"] == "fp8")).times(tiles)


def copy_work(costs: Costs, o: CopyOptions, shapes: Shapes) -> Work:
    return Work()


def quantise_work(costs: Costs, o: QuantiseOptions, shapes: Shapes) -> Work:
    return _multiplied_and_cast(o["factor"], shapes)


def _multiplied_and_cast(factor: float, shapes: Shapes) -> Work:
    return Work(tiles=int(factor != 1.0), casts=1).times(_grid(shapes["x"]))


def residue_work(costs: Costs, o: ResidueOptions, shapes: Shapes) -> Work:
    scaled = o["factor"] != 1.0
    return Work(tiles=2 + scaled, casts=1).times(_grid(shapes["x"]))


def split_heads_work(costs: Costs, o: SplitHeadsOptions, shapes: Shapes) -> Work:
    tiles = _grid(shapes["out"])
    turned = tiles if o["out"] == "columns" else 0
    rotated = 3 * tiles if o["rope"] else 0
    return _multiplied_and_cast(o["factor"], shapes) + Work(tiles=rotated, casts=turned)


def from_heads_work(costs: Costs, o: FromHeadsOptions, shapes: Shapes) -> Work:
    """An accumulator makes bf16 of fp8 on the way."""
    return Work(tiles=int(o["factor"] != 1.0)).times(_grid(shapes["out"]))


def linear_work(costs: Costs, o: LinearOptions, shapes: Shapes) -> Work:
    batch, rows, columns = shapes["out"]
    tiles = bool(o["scale"]) + bool(o["bias"]) + bool(o["residual"])
    tiles += o["factor"] != 1.0
    if o["activation"]:
        tiles += costs.function(o["activation"])
    after = Work(tiles=tiles, casts=int(o["out"] == "fp8")).times(_grid(shapes["out"]))
    product = _product(rows, shapes["w"][0], columns, batch)
    if o["precise"]:
        # The second sum has twice the products if both operands are corrected, and joins the first.
        more = product.times(2) if o["precise"] == "both" else product
        product += Work(more.products, product.sums, more.operand_tiles, tiles=2 * product.sums)
    return product + after


def product_of_two_work(costs: Costs, o: ProductOptions, shapes: Shapes) -> Work:
    batch, rows, columns = shapes["out"]
    scaled = o["factor"] != 1.0
    after = Work(tiles=int(scaled), casts=int(o["out"] == "fp8")).times(_grid(shapes["out"]))
    deep = shapes["a"][-1 if o["left"] == "plain" else -2]
    return _product(rows, deep, columns, 1).times(batch) + after


def recurrent_work(costs: Costs, o: RecurrentOptions, shapes: Shapes) -> Work:
    """A product in every step, which has to wait for the step before, and the gates of all steps."""
    steps, batch, _ = shapes["x"]
    gates, deep, width = shapes["w"]
    grid = _grid((steps, batch, width))
    tiles = gates + len(o["bias"] or ())
    constant = {
        name for _, _, arguments in o["program"] for name in arguments if str(name)[0] == "r"
    }
    for operation, result, arguments in o["program"]:
        if all(not isinstance(a, str) or a in constant for a in arguments):
            constant.add(result)
        else:
            tiles += costs.function(operation) if len(arguments) == 1 else 1
    after = Work(tiles=tiles, casts=1).times(grid)
    return _product(batch, deep, gates * width).times(steps) + after


def gated_work(costs: Costs, o: GatedOptions, shapes: Shapes) -> Work:
    batch, rows, columns = shapes["out"]
    side = bool(o["scale"]) + bool(o["bias"])
    tiles = 2 * side + costs.function(o["activation"]) + 1
    after = Work(tiles=tiles, casts=1).times(_grid(shapes["out"]))
    work = _product(rows, shapes["w_gate"][0], columns, batch, 2) + after
    if o["norm"]:
        work += norm_work(costs, norm_of(o), {"x": shapes["a"]})
    return work


def project_work(costs: Costs, o: ProjectOptions, shapes: Shapes) -> Work:
    batch, rows, deep = shapes["a"]
    heads, _, width = shapes["w"]
    tiles = bool(o["scale"]) + bool(o["bias"]) + (3 if o["rope"] else 0)
    casts = 2 if o["out"] == "columns" else 1
    blocks = batch * heads * _tiles(rows)
    after = Work(tiles=tiles, casts=casts).times(blocks * _tiles(width))
    if o["norm"]:
        whole = _tiles(o["width"])
        joins = _joins(o["width"])
        one = Work(tiles=3 * whole + joins + whole * bool(o["shift"]), columns=4, row_sums=1)
        after += one.times(blocks)
    return _product(rows, deep, width, batch, heads) + after


def attention_work(costs: Costs, o: AttentionOptions, shapes: Shapes) -> Work:
    """Keys that a query does not see are left out, for they change nothing."""
    batch, heads, rows, deep = shapes["q"]
    width, mask, groups = shapes["v"][-1], o["mask"], shapes["kt"][1]
    *others, keys = (shapes[f"v{k}"][-2] for k in ("", *range(1, o["parts"])))
    before = sum(others)  # a causal mask is for the last keys
    blind = keys < rows if mask == "causal" else mask is not None  # a query may see nothing
    seen = [keys + before] * rows
    if mask == "causal":  # a matrix unit starts from it
        seen = [max(0, min(keys, row + 1 + keys - rows)) + before for row in range(rows)]
    looking = sum(1 for count in seen if count) / SIDE  # blocks of queries that see something
    pairs = sum(seen) / SIDE**2
    joined = sum(max(0, count - SIDE) for count in seen) / SIDE**2
    masked = pairs if mask in ("full", "key") else 0
    inner, wide, most = _tiles(deep), _tiles(width), max(seen) / SIDE
    one = Work(
        # The last ones sum up weights.
        products=max(pairs * (inner + wide + 1 / SIDE), pairs + looking * wide),
        sums=pairs + looking * (wide + 1 / SIDE),
        tiles=joined + 2 * pairs + looking * wide + masked,
        columns=looking * (1 + (4 if blind else 0)),
        casts=pairs + looking * wide * (o["out"] == "fp8"),
        row_extremes=looking,
    )
    # All queries of a group share its keys and values.
    shared = inner * min(looking * heads / groups, most) + most * min(looking, wide)
    return one.times(batch * heads) + Work(operand_tiles=shared * batch * groups)


def attention_linear_work(costs: Costs, o: AttentionLinearOptions, shapes: Shapes) -> Work:
    return attention_work(costs, attention_of(o), shapes) + linear_work(costs, linear_of(o), shapes)
