"""The phases of the whole-model compiler as passes: `tilewright opt` can start and stop at each.

`tilewright compile` runs the same functions with what a machine says (`model/prepare.py`); here
options say it. Weights that a phase makes are named in the text; `output` keeps their content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass, SSAValue, TensorType, func
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.model.calibrate import example_inputs
from tilewright.model.capture import Graph, Node, capture
from tilewright.model.fold_layers import fold_layers, unfold_layers
from tilewright.model.formats import CodeRules, Codes, Floats, Format, Product
from tilewright.model.fuse import fuse_epilogues, unfuse
from tilewright.model.options import CompileOptions
from tilewright.model.partition import main_of, marked, partition
from tilewright.model.parts import HOST_REASON
from tilewright.model.places import places
from tilewright.model.quantise import quantise
from tilewright.model.ranges import RangeRule
from tilewright.model.smooth import smooth
from tilewright.transforms.fold_constants import read_weights


def _imported(module: ModuleOp, weights: dict[str, np.ndarray] | None = None) -> Imported:
    """A module as a model; inputs and outputs are named as in the text, or numbered."""
    main = main_of(module)
    last = main.body.block.last_op
    assert isinstance(last, func.ReturnOp)
    inputs = [_spec(v, v.name_hint or f"input{n}") for n, v in enumerate(main.body.block.args)]
    outputs = [_spec(v, f"output{n}" if n else "output") for n, v in enumerate(last.operands)]
    return Imported(module, weights or {}, tuple(inputs), tuple(outputs), "text")


def _spec(value: SSAValue, name: str) -> TensorSpec:
    assert isinstance(value.type, TensorType)
    return TensorSpec(name, tuple(value.type.get_shape()), str(value.type.element_type))


def _install(op: ModuleOp, made: ModuleOp) -> None:
    """Put the content of another module in place of a module's own."""
    block = op.body.block
    for old in reversed(list(block.ops)):
        old.detach()
        old.erase(safe_erase=False)
    for new in list(made.body.block.ops):
        new.detach()
        block.add_op(new)


@dataclass(frozen=True)
class PartitionModel(ModulePass):
    """Cut @main into functions of the host and of the device.

    before: operations, some with tw.host = "a reason"
    after:  @main calls @host_0, @device_0, … with the reasons as attributes of the host's
    """

    name = "partition-model"

    host: tuple[str, ...] = field(
        default=(), metadata={"meaning": "families of kernels that the host runs too"}
    )
    layers: tuple[str, ...] = field(
        default=(), metadata={"meaning": "layers that the host runs on request"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        model = _imported(op)
        graph = capture(model, contents=False)

        def supports(node: Node) -> str | None:
            return f"no kernel for {node.family}" if node.family in self.host else None

        reasons = {
            node.op: reason
            for node, reason in places(graph, supports, CompileOptions(host=self.layers)).items()
            if HOST_REASON not in node.op.attributes
        }
        _install(op, partition(marked(model, reasons)).module)


@dataclass(frozen=True)
class SmoothModel(ModulePass):
    """Move ranges of activations into the weights that multiply them, by powers of two.

    before: %n = rms_norm(%x, %g);    %y = npu_kernel.matmul %n, %w
    after:  %n = rms_norm(%x, %g/s);  %y = npu_kernel.matmul %n, %w*s, a scale for each channel of %n

    The function stays the same, to the last bit. Ranges come from example inputs drawn from a seed.
    """

    name = "smooth-model"

    alpha: float = field(
        default=0.5, metadata={"meaning": "how much of a range moves, from 0 to 1"}
    )
    seed: int = field(default=0, metadata={"meaning": "of the inputs that ranges are taken from"})
    source: str = field(
        default="", metadata={"meaning": "safetensors file with the weights the module names"}
    )
    output: str = field(
        default="", metadata={"meaning": "safetensors file for the weights it names afterwards"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        CompileOptions(smooth=self.alpha)  # says what is wrong with it
        model = _imported(op, dict(read_weights(self.source)) if self.source else {})
        found = smooth(model, [example_inputs(model, self.seed)], self.alpha)
        if self.output:
            found.model.save_weights(self.output)
        _install(op, found.model.module)


@dataclass(frozen=True)
class QuantiseModel(ModulePass):
    """Give the operations of @main the numbers they compute in.

    before: %y = npu_kernel.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
    after:  quantise, matmul of 8-bit codes into i32, rescale; scales are in the types

    Ranges come from example inputs drawn from a seed.
    """

    name = "quantise-model"

    weights: Literal["i8", "ternary"] = "i8"
    activations: Literal["tensor", "row"] = "tensor"
    result: Literal["auto", "codes", "floats"] = "auto"
    floats: Literal["f32", "f16", "bf16"] = "f32"
    codes: bool = field(
        default=False, metadata={"meaning": "other operations compute on codes where they can"}
    )
    tables: bool = field(default=False, metadata={"meaning": "functions of a code are tables"})
    symmetric: bool = field(default=True, metadata={"meaning": "no zero points"})
    arithmetic: Literal["float", "fixed"] = "float"
    method: Literal["multiply", "divide"] = "multiply"
    ranges: str = field(
        default="max",
        metadata={"meaning": "max, mse, percentile or percentile:P, see compiling.md"},
    )
    seed: int = field(default=0, metadata={"meaning": "of the inputs that ranges are taken from"})
    source: str = field(
        default="", metadata={"meaning": "safetensors file with the weights the module names"}
    )
    output: str = field(
        default="", metadata={"meaning": "safetensors file for the weights it names afterwards"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        model = _imported(op, dict(read_weights(self.source)) if self.source else {})
        graph = capture(model)
        host = {
            node: reason.data  # type: ignore[attr-defined]
            for node in graph.nodes
            if (reason := node.op.attributes.get(HOST_REASON)) is not None
        }
        rules = CodeRules(self.symmetric, self.arithmetic, self.method)
        samples = [example_inputs(model, self.seed)]
        rule = RangeRule.parse(self.ranges)
        found = quantise(model, graph, host, self._format, rules, samples, rule=rule)
        if self.output:
            found.model.save_weights(self.output)
        _install(op, marked(found.model, found.reasons).module)

    def _format(self, node: Node, graph: Graph) -> Format:
        if node.family in ("matmul", "conv2d"):
            return Product(self.weights, self.activations, self.result, self.floats)
        if self.codes:
            return Codes(self.floats, self.tables)
        return Floats(self.floats, "f32")


def _functions(module: ModuleOp) -> list[func.FuncOp]:
    return [f for f in module.ops if isinstance(f, func.FuncOp) and f.body.blocks]


@dataclass(frozen=True)
class FuseEpilogues(ModulePass):
    """Make what follows a kernel element by element a part of it.

    before: matmul, elementwise_add, rescale, elementwise_relu
    after:  npu_kernel.fused "npu_uk_matmul" epilogue [elementwise_add, rescale, elementwise_relu]
    """

    name = "fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            fuse_epilogues(function)


@dataclass(frozen=True)
class UnfuseEpilogues(ModulePass):
    """Write fused kernels as the operations they stand for.

    before: npu_kernel.fused "npu_uk_matmul" epilogue [elementwise_add]
    after:  npu_kernel.matmul, npu_kernel.ukernel_generic "npu_uk_elementwise_add"
    """

    name = "unfuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            unfuse(function)


@dataclass(frozen=True)
class FoldLayers(ModulePass):
    """Write identical layers once, as a loop over their weights.

    before: 16 times the same operations with other weights
    after:  npu_kernel.layers 16 iter(%h = %x) weights(%w = "layers.*.weight") { … }
    """

    name = "fold-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            fold_layers(function)


@dataclass(frozen=True)
class UnfoldLayers(ModulePass):
    """Write the iterations of layer loops out.

    before: npu_kernel.layers 16 …
    after:  the body 16 times, with the weights of each iteration
    """

    name = "unfold-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in _functions(op):
            unfold_layers(function)
