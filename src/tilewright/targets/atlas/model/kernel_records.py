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

from tilewright.targets.atlas.model import kernel_options as options
from tilewright.targets.atlas.model import kernel_options_images as of_images
from tilewright.targets.atlas.model import (
    kernels,
    kernels_attention,
    kernels_attention_linear,
    kernels_heads,
    kernels_images,
    kernels_linear,
    kernels_recurrent,
    kernels_rows,
    latencies,
    latencies_images,
    references,
    references_images,
    references_recurrent,
    work,
    work_images,
)
from tilewright.targets.atlas.model.clock import Clock, Ready
from tilewright.targets.atlas.model.typed_options import given
from tilewright.targets.atlas.model.work import Costs, Shapes, Work
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.kernel import Kernel

Options = Mapping[str, Any]


@dataclass(frozen=True)
class KernelRecord:
    """A kernel of whole models.

    options: the class of its options, of which the following get all.
    make: from options to parameters and a body (of an image kernel: to the kernel itself).
    reference: what it computes, on codes. work: what no program for it can do without. latency: how long
    its result takes at least from its operands.
    """

    name: str
    meaning: str
    options: type
    make: Callable[[Any], Any]
    reference: Callable[[Profile, Any, references.Operands], dict[str, references.Codes]]
    work: Callable[..., Any]
    latency: Callable[[Clock, Any, Shapes, Mapping[str, Ready]], Ready]
    over_images: bool = False

    def given(self, options: Options) -> Any:
        """All options: those given, checked, and what the others are by default."""
        return given(self.options, options)

    def build(self, options: Options) -> Kernel:
        """The kernel for these options (JSON values)."""
        return _built(self.name, json.dumps(options, sort_keys=True))

    def compute(
        self, profile: Profile, options: Options, operands: references.Operands
    ) -> dict[str, references.Codes]:
        """What it makes of operands, by its reference."""
        return self.reference(profile, self.given(options), operands)

    def work_of(self, profile: Profile, options: Options, shapes: Shapes) -> Work:
        """The work of one call on tensors of these shapes."""
        costs, every = Costs(profile), self.given(options)
        if self.over_images:
            return Work(**self.work(every, costs.function))
        return self.work(costs, every, shapes)


_RECORDS = (
    KernelRecord(
        "norm", "layer or RMS norm of rows", options.NormOptions,
        kernels.norm, references.norm, work.norm_work, latencies.norm,
    ),
    KernelRecord(
        "softmax", "softmax of rows", options.SoftmaxOptions,
        kernels.softmax, references.softmax, work.softmax_work, latencies.softmax,
    ),
    KernelRecord(
        "reduce", "sums and extremes along a dimension", options.ReduceOptions,
        kernels_rows.reduce, references.reduce, work.reduce_work, latencies.reduce,
    ),
    KernelRecord(
        "pointwise", "a chain of operations element by element", options.PointwiseOptions,
        kernels.pointwise, references.pointwise, work.pointwise_work, latencies.pointwise,
    ),
    KernelRecord(
        "copy", "a tensor elsewhere", options.CopyOptions,
        kernels.copy, references.copy, work.copy_work, latencies.copy,
    ),
    KernelRecord(
        "move", "rows elsewhere, in another order", options.MoveOptions,
        kernels_rows.move, references.move, work.copy_work, latencies.copy,
    ),
    KernelRecord(
        "quantise", "bf16 to fp8 with a scale", options.QuantiseOptions,
        kernels.quantise, references.quantise, work.quantise_work, latencies.quantise,
    ),
    KernelRecord(
        "residue", "what rounding to fp8 leaves out", options.ResidueOptions,
        kernels.residue, references.residue, work.residue_work, latencies.residue,
    ),
    KernelRecord(
        "split_heads", "columns as heads", options.SplitHeadsOptions,
        kernels_heads.split_heads, references.split_heads, work.split_heads_work, latencies.split_heads,
    ),
    KernelRecord(
        "from_heads", "heads of attention as bf16 matrices", options.FromHeadsOptions,
        kernels_heads.from_heads, references.from_heads, work.from_heads_work, latencies.from_heads,
    ),
    KernelRecord(
        "linear", "a product with weights and its epilogue", options.LinearOptions,
        kernels_linear.linear, references.linear, work.linear_work, latencies.linear,
    ),
    KernelRecord(
        "product", "a product of two activations", options.ProductOptions,
        kernels_linear.product, references.product_of_two, work.product_of_two_work, latencies.product,
    ),
    KernelRecord(
        "gated", "two products, one gating the other", options.GatedOptions,
        kernels_linear.gated, references.gated, work.gated_work, latencies.gated,
    ),
    KernelRecord(
        "project", "a product into heads, with RoPE", options.ProjectOptions,
        kernels_heads.project, references.project, work.project_work, latencies.project,
    ),
    KernelRecord(
        "attention", "attention of heads", options.AttentionOptions,
        kernels_attention.attention, references.attention_heads, work.attention_work, latencies.attention,
    ),
    KernelRecord(
        "attention_linear", "attention of heads, and a product of what they found with weights",
        options.AttentionLinearOptions, kernels_attention_linear.attention_linear,
        references.attention_linear, work.attention_linear_work, latencies.attention_linear,
    ),
    KernelRecord(
        "recurrent", "all steps of a recurrent layer", options.RecurrentOptions,
        kernels_recurrent.recurrent, references_recurrent.recurrent, work.recurrent_work, latencies.recurrent,
    ),
    KernelRecord(
        "conv2d", "a convolution with its epilogue", of_images.ConvolutionOptions,
        kernels_images.conv2d, references_images.conv2d, work_images.conv2d,
        latencies_images.conv2d, over_images=True,
    ),
    KernelRecord(
        "chain", "convolutions in a row, one of every channel among them", of_images.ChainOptions,
        kernels_images.chain, references_images.chain, work_images.chain,
        latencies_images.chain, over_images=True,
    ),
    KernelRecord(
        "pool", "largest or mean of windows", of_images.PoolOptions,
        kernels_images.pool, references_images.pool, work_images.pool,
        latencies_images.pool, over_images=True,
    ),
    KernelRecord(
        "gather", "an image from parts of others", of_images.GatherOptions,
        kernels_images.gather, references_images.gather, work_images.gather,
        latencies_images.gather, over_images=True,
    ),
    KernelRecord(
        "combine", "images element by element", of_images.CombineOptions,
        kernels_images.combine, references_images.combine, work_images.combine,
        latencies_images.combine, over_images=True,
    ),
    KernelRecord(
        "mean", "the mean of all pixels, as an image of one", of_images.MeanOptions,
        kernels_images.mean, references_images.mean, work_images.mean,
        latencies_images.mean, over_images=True,
    ),
    KernelRecord(
        "image_norm", "the norm of the channels of every pixel", of_images.ImageNormOptions,
        kernels_images.image_norm, references_images.image_norm, work_images.image_norm,
        latencies_images.image_norm, over_images=True,
    ),
    KernelRecord(
        "gate", "images times a number per channel", of_images.GateOptions,
        kernels_images.gate, references_images.gate, work_images.gate,
        latencies_images.gate, over_images=True,
    ),
    KernelRecord(
        "join", "channels of images side by side", of_images.JoinOptions,
        kernels_images.join, references_images.join, work_images.join,
        latencies_images.join, over_images=True,
    ),
    KernelRecord(
        "resample", "an image of the pixels of another", of_images.ResampleOptions,
        kernels_images.resample, references_images.resample, work_images.resample,
        latencies_images.resample, over_images=True,
    ),
)  # fmt: skip
RECORDS: dict[str, KernelRecord] = {record.name: record for record in _RECORDS}
REFERENCES: dict[str, references.Reference] = {
    name: record.compute for name, record in RECORDS.items()
}


def build(name: str, options: Options) -> Kernel:
    """The kernel `name` for these options (JSON values)."""
    return RECORDS[name].build(options)


def work_of(profile: Profile, kernel: str, options: Options, shapes: Shapes) -> Work:
    """The work of one call; none that is known of if the kernel is not one of these, which leaves a
    bound a bound."""
    record = RECORDS.get(kernel)
    return Work() if record is None else record.work_of(profile, options, shapes)


def latency_of(
    clock: Clock, kernel: str, options: Options, shapes: Shapes, moments: Mapping[str, Ready]
) -> Ready:
    """When the result of one call can be there; of a kernel that is not one of these nothing is known."""
    record = RECORDS.get(kernel)
    return None if record is None else record.latency(clock, record.given(options), shapes, moments)


def over_images(kernel: str) -> bool:
    return kernel in RECORDS and RECORDS[kernel].over_images


@cache
def _built(name: str, options: str) -> Kernel:
    record = RECORDS[name]
    made = record.make(record.given(json.loads(options)))
    if record.over_images:
        return made
    specs, body = made

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
