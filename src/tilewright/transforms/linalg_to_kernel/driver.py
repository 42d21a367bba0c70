"""Converting whole functions: each op to its converter, the new block beside the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.linalg_ext import (
    AttentionOp,
    ConvolutionOp,
    PoolingOp,
    SoftmaxOp,
    StructuredOp,
    TransposeOp,
)
from tilewright.dialects.locations import location_of, name_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AffineMap,
    Block,
    IntegerAttr,
    ModuleOp,
    Operation,
    Region,
    StringAttr,
    TensorType,
    UnregisteredOp,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.transforms.linalg_to_kernel import movement
from tilewright.transforms.linalg_to_kernel.attention import convert_attention
from tilewright.transforms.linalg_to_kernel.bodies import convert_elementwise
from tilewright.transforms.linalg_to_kernel.chains import recognise_chains
from tilewright.transforms.linalg_to_kernel.contractions import convert_contraction, find_product
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Settings,
    Unmapped,
    check_element,
    check_static,
    is_dynamic,
)
from tilewright.transforms.linalg_to_kernel.quantised import convert_quantised_matmul
from tilewright.transforms.linalg_to_kernel.reductions import convert_reduction
from tilewright.transforms.linalg_to_kernel.scalar_ops import PENDING
from tilewright.transforms.linalg_to_kernel.tensor_arithmetic import convert_tensor_arithmetic
from tilewright.transforms.linalg_to_kernel.windows import convert_convolution, convert_pooling

# Ops that are no tensor computation: they stay, with their operands renewed.
STAYING_DIALECTS = ("func", "scf", "cf", "npu_kernel", "npu_schedule", "npu_isa", "builtin")
STAYING_OPS = {
    "arith.constant",
    "tensor.empty",
    "tensor.from_elements",
    "tensor.extract",
    "tensor.dim",
    "tensor.yield",
}

TENSOR_OPS: dict[str, Callable[[Emitter, Operation], None]] = {
    "tensor.extract_slice": movement.convert_slice,
    "tensor.insert_slice": movement.convert_insert_slice,
    "tensor.concat": movement.convert_concat,
    "tensor.pad": movement.convert_pad,
    "tensor.collapse_shape": movement.convert_reshape,
    "tensor.expand_shape": movement.convert_reshape,
    "tensor.reshape": movement.convert_reshape,
    "tensor.cast": movement.convert_reshape,
    "tensor.splat": movement.convert_splat,
}  # type: ignore[assignment]

HOST_ATTRIBUTE = "npu.host"


@dataclass
class Conversion:
    """What a module becomes: new regions by function, and where everything came from."""

    regions: list[tuple[Operation, Region]] = field(default_factory=list)
    sources: dict[Operation, tuple[Operation, ...]] = field(default_factory=dict)
    problems: list[tuple[Operation, Unmapped]] = field(default_factory=list)
    compute_ops: list[Operation] = field(default_factory=list)

    def install(self) -> None:
        """Put the new regions in the place of the old ones."""
        for op, region in self.regions:
            old = op.detach_region(op.regions[0])
            op.add_region(region)
            old.drop_all_references()
            old.erase()


def is_tensor_compute(op: Operation) -> bool:
    """Whether an op computes or moves tensor elements, and so needs a kernel or the host.

    Of an op of an unknown dialect nobody can say, so it counts, whatever types it has.
    """
    if isinstance(op, StructuredOp | SoftmaxOp | AttentionOp | UnregisteredOp):
        return True
    if op.name in TENSOR_OPS:
        return not (op.name.endswith("_slice") and movement.has_dynamic_place(op))
    if op.name in STAYING_OPS or name_of(op).split(".")[0] in STAYING_DIALECTS:
        return False
    return any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def convert_module(module: ModuleOp, settings: Settings, collect: bool = False) -> Conversion:
    """The conversion of every function of a module, which stays as it is.

    The first op without a mapping is an error, unless problems are collected or such ops are to
    stay on the host.
    """
    result = Conversion()
    for op in module.walk():
        if op.name == "util.func":
            raise TilewrightError(
                "TW1229",
                "util.func: functions in IREE's wrapping have to be unwrapped first",
                location_of(op),
                "run unwrap-iree before this pass",
            )
        if op.name == "func.func" and op.regions[0].blocks:
            emitter = Emitter(settings=settings, sources=result.sources)
            converter = Converter(emitter, result, collect)
            region = converter.region(op.regions[0])
            result.regions.append((op, region))
            for block in region.blocks:
                remove_dead(block)
                recognise_chains(block, result.sources, settings)
                remove_dead(block)
            if not collect and settings.unmapped == "error":
                _check_signature(op)
            _check_nothing_pending(region, result, collect)
            _check_intents(region, collect)
    return result


def _check_signature(function: Operation) -> None:
    """Refuse dynamic tensors that are only handed through; ops on them were refused before."""
    for block in function.regions[0].blocks:
        for kind, values in (("argument", block.args), ("result", block.last_op.operands)):  # type: ignore[union-attr]
            for index, value in enumerate(values):
                if is_dynamic(value.type):
                    raise TilewrightError(
                        "TW1220",
                        f"{name_of(function)}: {kind} {index} has the dynamic shape {value.type}",
                        location_of(function),
                        "export the model with fixed sizes",
                    )


def _check_intents(region: Region, collect: bool) -> None:
    """Refuse intents that do not fit together: tensor ops of the source may reach too far."""
    for op in region.walk():
        if isinstance(op, UKernelGenericOp | MatmulOp) and not collect:
            op.verify_()


@dataclass
class Converter:
    """Walks one function."""

    emitter: Emitter
    result: Conversion
    collect: bool

    def region(self, old: Region) -> Region:
        """The converted copy of a region."""
        new = Region([Block(arg_types=[a.type for a in block.args]) for block in old.blocks])
        blocks = dict(zip(old.blocks, new.blocks, strict=True))
        for source, target in blocks.items():
            for before, after in zip(source.args, target.args, strict=True):
                self.emitter.values[before] = after
                after.name_hint = before.name_hint
        for source, target in blocks.items():
            outer, self.emitter = self.emitter, self.emitter.inside(target)
            for op in source.ops:
                self.op(op, blocks)
            self.emitter = outer
        return new

    def op(self, op: Operation, blocks: dict[Block, Block]) -> None:
        emitter = self.emitter
        emitter.source = op
        if not is_tensor_compute(op):
            self._keep(op, blocks)
            return
        self.result.compute_ops.append(op)
        try:
            check_static(op)
            convert_op(emitter, op)
            for before in op.results:
                after = emitter.values[before]
                if after.name_hint is None and isinstance(after.owner, Operation):
                    after.name_hint = before.name_hint
        except Unmapped as problem:
            self._unmapped(op, problem)

    def _keep(self, op: Operation, blocks: dict[Block, Block]) -> Operation:
        """A copy of an op that needs no kernel; its regions are converted too."""
        emitter = self.emitter
        new = op.clone_without_regions(emitter.values, dict(blocks))
        for region in list(new.regions):
            new.detach_region(region)
        emitter.block.add_op(new)
        new.location = op.location
        for region in op.regions:
            new.add_region(self.region(region))
        return new

    def _unmapped(self, op: Operation, problem: Unmapped) -> None:
        on_host = self.emitter.settings.unmapped == "host"
        if not on_host and not self.collect:
            raise TilewrightError(
                problem.code,
                f"{name_of(op)} has no kernel: {problem.reason}",
                location_of(op),
                problem.hint,
            )
        self.result.problems.append((op, problem))
        new = op.clone(self.emitter.values)
        new.location = op.location
        self.emitter.block.add_op(new)
        self.emitter.sources[new] = (op,)
        new.attributes[HOST_ATTRIBUTE] = StringAttr(problem.reason)


def convert_op(emitter: Emitter, op: Operation) -> None:
    """Emit the intents of one op, or raise Unmapped."""
    if isinstance(op, AttentionOp):
        convert_attention(emitter, op)
    elif isinstance(op, SoftmaxOp):
        convert_softmax(emitter, op)
    elif isinstance(op, StructuredOp):
        convert_structured(emitter, op)
    elif op.name in TENSOR_OPS:
        check_element(tensor_type(op.results[0]).element_type)
        TENSOR_OPS[op.name](emitter, op)
    elif op.name.split(".")[0] in ("arith", "math"):
        convert_tensor_arithmetic(emitter, op)
    else:
        raise Unmapped(
            "TW1221",
            "it is an op this compiler does not know",
            "lower it to linalg, arith, math or tensor ops first",
        )


def convert_structured(emitter: Emitter, op: StructuredOp) -> None:
    if len(op.results) != len(op.outputs) or not op.results:
        raise Unmapped("TW1224", "it works on buffers", "convert tensors, before bufferisation")
    if isinstance(op, TransposeOp):
        check_element(tensor_type(op.results[0]).element_type)
        movement.convert_transpose(emitter, op)
    elif isinstance(op, ConvolutionOp):
        convert_convolution(emitter, op)
    elif isinstance(op, PoolingOp):
        convert_pooling(emitter, op)
    elif op.name.startswith("linalg.quantized_"):
        convert_quantised_matmul(emitter, op)
    elif (extract := movement.find_gather(op)) is not None:
        movement.convert_gather(emitter, op, extract)
    elif "reduction" not in op.iterators:
        convert_elementwise(emitter, op)
    elif (product := find_product(op)) is not None and _is_contraction(op):
        convert_contraction(emitter, op, product)
    else:
        convert_reduction(emitter, op)


def _is_contraction(op: StructuredOp) -> bool:
    """Whether both factors are summed over a loop they share."""
    left, right, out = (_positions(m) for m in op.operand_maps)
    return bool((left & right) - out)


def _positions(map_: AffineMap) -> set[int]:
    return {e.position for e in map_.results if hasattr(e, "position")}  # type: ignore[attr-defined]


def convert_softmax(emitter: Emitter, op: SoftmaxOp) -> None:
    """before: linalg.softmax dimension(2); after: ukernel "npu_uk_softmax" {axis = 2}"""
    value = emitter.value(op.input)
    check_element(tensor_type(value).element_type)
    target = tensor_type(op.output).element_type
    if tensor_type(value).element_type != target:
        raise Unmapped("TW1222", "input and output types differ", "cast before or after")
    axis = IntegerAttr(op.dimension.value.data, i64)
    result = TensorType(target, shape_of(value))
    emitter.values[op.res[0]] = emitter.call("softmax", [value], result, {"axis": axis})


def remove_dead(block: Block) -> None:
    """Drop ops without effect whose results nobody reads."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                remove_dead(inner)
        removable = isinstance(op, MatmulOp | UKernelGenericOp) or op.name.split(".")[0] in (
            "arith",
            "math",
            "tensor",
        )
        if removable and not op.regions and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _check_nothing_pending(region: Region, result: Conversion, collect: bool) -> None:
    """Steps that only chains can finish must be gone."""
    for op in region.walk():
        if isinstance(op, UKernelGenericOp) and PENDING in op.symbol.data:
            step = op.symbol.data.split(PENDING)[1].replace("_", " ")
            source = result.sources[op][0]
            problem = Unmapped(
                "TW1225",
                f"its body needs {step}, which only block-scaled decoding has",
                "decode the weights when the model is exported",
            )
            if not collect:
                raise TilewrightError(
                    problem.code,
                    f"{name_of(source)} has no kernel: {problem.reason}",
                    location_of(source),
                    problem.hint,
                )
            result.problems.append((source, problem))
