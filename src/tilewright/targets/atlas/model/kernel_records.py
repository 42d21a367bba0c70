"""The kernels of whole models: one record each.

A record says how a kernel is made for a set of options, what it computes bit for bit, how much work
that is, and whether it works on images; a kernel is added by adding a row.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.targets.atlas.model import (
    kernels,
    kernels_attention,
    kernels_attention_linear,
    kernels_heads,
    kernels_images,
    kernels_linear,
    kernels_recurrent,
    kernels_rows,
    references,
    references_images,
    references_recurrent,
    work,
    work_images,
)
from tilewright.targets.atlas.model.work import Costs, Shapes, Work
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.kernel import Kernel

Options = Mapping[str, Any]


@dataclass(frozen=True)
class KernelRecord:
    """A kernel of whole models.

    make: from options to parameters and a body (of an image kernel: to the kernel itself).
    reference: what it computes, on codes. work: what no program for it can do without.
    """

    name: str
    meaning: str
    make: Callable[[Options], Any]
    reference: references.Reference
    work: Callable[..., Any]
    over_images: bool = False

    def build(self, options: Options) -> Kernel:
        """The kernel for these options (JSON values)."""
        if self.over_images:
            return _built_over_images(self.name, json.dumps(options, sort_keys=True))
        return _built(self.name, tuple(sorted((k, _frozen(v)) for k, v in options.items())))

    def work_of(self, profile: Profile, options: Options, shapes: Shapes) -> Work:
        """The work of one call on tensors of these shapes."""
        costs = Costs(profile)
        if self.over_images:
            return Work(**self.work(options, costs.function))
        return self.work(costs, options, shapes)


_RECORDS = (
    KernelRecord(
        "norm", "layer or RMS norm of rows", kernels.norm, references.norm, work.norm_work
    ),
    KernelRecord(
        "softmax", "softmax of rows", kernels.softmax, references.softmax, work.softmax_work
    ),
    KernelRecord(
        "reduce",
        "sums and extremes along a dimension",
        kernels_rows.reduce,
        references.reduce,
        work.reduce_work,
    ),
    KernelRecord(
        "pointwise",
        "a chain of operations element by element",
        kernels.pointwise,
        references.pointwise,
        work.pointwise_work,
    ),
    KernelRecord("copy", "a tensor elsewhere", kernels.copy, references.copy, work.copy_work),
    KernelRecord(
        "move",
        "rows elsewhere, in another order",
        kernels_rows.move,
        references.move,
        work.copy_work,
    ),
    KernelRecord(
        "quantise",
        "bf16 to fp8 with a scale",
        kernels.quantise,
        references.quantise,
        work.quantise_work,
    ),
    KernelRecord(
        "residue",
        "what rounding to fp8 leaves out",
        kernels.residue,
        references.residue,
        work.residue_work,
    ),
    KernelRecord(
        "split_heads",
        "columns as heads",
        kernels_heads.split_heads,
        references.split_heads,
        work.split_heads_work,
    ),
    KernelRecord(
        "from_heads",
        "heads of attention as bf16 matrices",
        kernels_heads.from_heads,
        references.from_heads,
        work.from_heads_work,
    ),
    KernelRecord(
        "linear",
        "a product with weights and its epilogue",
        kernels_linear.linear,
        references.linear,
        work.linear_work,
    ),
    KernelRecord(
        "product",
        "a product of two activations",
        kernels_linear.product,
        references.product_of_two,
        work.product_of_two_work,
    ),
    KernelRecord(
        "gated",
        "two products, one gating the other",
        kernels_linear.gated,
        references.gated,
        work.gated_work,
    ),
    KernelRecord(
        "project",
        "a product into heads, with RoPE",
        kernels_heads.project,
        references.project,
        work.project_work,
    ),
    KernelRecord(
        "attention",
        "attention of heads",
        kernels_attention.attention,
        references.attention_heads,
        work.attention_work,
    ),
    KernelRecord(
        "attention_linear",
        "attention of heads, and a product of what they found with weights",
        kernels_attention_linear.attention_linear,
        references.attention_linear,
        work.attention_linear_work,
    ),
    KernelRecord(
        "recurrent",
        "all steps of a recurrent layer",
        kernels_recurrent.recurrent,
        references_recurrent.recurrent,
        work.recurrent_work,
    ),
    KernelRecord(
        "conv2d",
        "a convolution with its epilogue",
        kernels_images.conv2d,
        references_images.conv2d,
        work_images.conv2d,
        over_images=True,
    ),
    KernelRecord(
        "chain",
        "convolutions in a row, one of every channel among them",
        kernels_images.chain,
        references_images.chain,
        work_images.chain,
        over_images=True,
    ),
    KernelRecord(
        "pool",
        "largest or mean of windows",
        kernels_images.pool,
        references_images.pool,
        work_images.pool,
        over_images=True,
    ),
    KernelRecord(
        "gather",
        "an image from parts of others",
        kernels_images.gather,
        references_images.gather,
        work_images.gather,
        over_images=True,
    ),
    KernelRecord(
        "combine",
        "images element by element",
        kernels_images.combine,
        references_images.combine,
        work_images.combine,
        over_images=True,
    ),
    KernelRecord(
        "mean",
        "the mean of all pixels, as an image of one",
        kernels_images.mean,
        references_images.mean,
        work_images.mean,
        over_images=True,
    ),
    KernelRecord(
        "image_norm",
        "the norm of the channels of every pixel",
        kernels_images.image_norm,
        references_images.image_norm,
        work_images.image_norm,
        over_images=True,
    ),
    KernelRecord(
        "gate",
        "images times a number per channel",
        kernels_images.gate,
        references_images.gate,
        work_images.gate,
        over_images=True,
    ),
    KernelRecord(
        "join",
        "channels of images side by side",
        kernels_images.join,
        references_images.join,
        work_images.join,
        over_images=True,
    ),
    KernelRecord(
        "resample",
        "an image of the pixels of another",
        kernels_images.resample,
        references_images.resample,
        work_images.resample,
        over_images=True,
    ),
)
RECORDS: dict[str, KernelRecord] = {record.name: record for record in _RECORDS}
REFERENCES = {name: record.reference for name, record in RECORDS.items()}


def build(name: str, options: Options) -> Kernel:
    """The kernel `name` for these options (JSON values)."""
    return RECORDS[name].build(options)


def work_of(profile: Profile, kernel: str, options: Options, shapes: Shapes) -> Work:
    """The work of one call; none that is known of if the kernel is not one of these, which leaves a
    bound a bound."""
    record = RECORDS.get(kernel)
    return Work() if record is None else record.work_of(profile, options, shapes)


def over_images(kernel: str) -> bool:
    return kernel in RECORDS and RECORDS[kernel].over_images


@cache
def _built_over_images(name: str, options: str) -> Kernel:
    return RECORDS[name].make(json.loads(options))


@cache
def _built(name: str, options: tuple[tuple[str, Any], ...]) -> Kernel:
    specs, body = RECORDS[name].make(dict(options))

    def run(**tensors: Any) -> None:
        body(tensors)

    run.__name__ = name
    run.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=spec)
            for n, spec in specs.items()
        ]
    )
    return Kernel(run)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
