"""linalg's convolutions and poolings: ops that slide a window over an image.

The notation is that of `linalg_named` with one addition: `h+y` is the row `h * stride + y *
dilation`, with the stride and dilation of that image dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from tilewright.dialects.linalg_named import Adder, NamedOp, multiply_accumulate
from tilewright.dialects.linalg_structured import PARALLEL, REDUCTION, body_region, convert_element
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    DenseIntElementsAttr,
    IteratorTypeAttr,
    Region,
    SSAValue,
    VerifyException,
    arith,
    irdl_op_definition,
    opt_prop_def,
)


class WindowOp(NamedOp):
    """A named op with strides and dilations, one number per image dimension (default 1)."""

    SPEC: ClassVar[str]
    strides = opt_prop_def(DenseIntElementsAttr)
    dilations = opt_prop_def(DenseIntElementsAttr)

    def steps(self, key: str) -> tuple[int, ...]:
        """The strides or dilations as numbers."""
        count = self.SPEC.count("+")
        given = self.properties.get(key)
        if given is None:
            return (1,) * count
        numbers = tuple(int(n) for n in cast(DenseIntElementsAttr, given).get_values())
        return numbers * count if len(numbers) == 1 else numbers

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        loops, rest = self.SPEC.split(":")
        operands, result = rest.split("->")
        position = {letter: AffineDimExpr(i) for i, letter in enumerate(loops.strip())}
        pairs = iter(zip(self.steps("strides"), self.steps("dilations"), strict=True))
        maps = []
        for group in (*operands.split(","), result):
            expressions: list[AffineExpr] = []
            for term in group.split():
                if "+" in term:
                    stride, dilation = next(pairs)
                    outer, inner = (position[letter] for letter in term.split("+"))
                    expressions.append(
                        (outer if stride == 1 else outer * stride)
                        + (inner if dilation == 1 else inner * dilation)
                    )
                else:
                    expressions.append(position[term])
            maps.append(AffineMapAttr(AffineMap(len(position), 0, tuple(expressions))))
        return ArrayAttr(maps)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        loops, rest = self.SPEC.split(":")
        result = rest.split("->")[1]
        return ArrayAttr(PARALLEL if x in result else REDUCTION for x in loops.strip())

    def verify_(self) -> None:
        count = self.SPEC.count("+")
        for key in ("strides", "dilations"):
            if len(self.steps(key)) != count:
                raise VerifyException(f"expected {count} {key}")
            if min(self.steps(key)) < 1:
                raise VerifyException(f"expected {key} of 1 or more, but got {self.steps(key)}")
        super().verify_()


class ConvolutionOp(WindowOp):
    """result += image * filter, in the result's type."""

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return multiply_accumulate(add, unsigned, *arguments)


@irdl_op_definition
class Conv1DNcwFcwOp(ConvolutionOp):
    name = "linalg.conv_1d_ncw_fcw"
    SPEC: ClassVar[str] = "nfwcx: n c w+x, f c x -> n f w"


@irdl_op_definition
class Conv1DNwcWcfOp(ConvolutionOp):
    name = "linalg.conv_1d_nwc_wcf"
    SPEC: ClassVar[str] = "nwfxc: n w+x c, x c f -> n w f"


@irdl_op_definition
class Conv2DOp(ConvolutionOp):
    name = "linalg.conv_2d"
    SPEC: ClassVar[str] = "hwyx: h+y w+x, y x -> h w"


@irdl_op_definition
class Conv2DNchwFchwOp(ConvolutionOp):
    name = "linalg.conv_2d_nchw_fchw"
    SPEC: ClassVar[str] = "nfhwcyx: n c h+y w+x, f c y x -> n f h w"


@irdl_op_definition
class Conv2DNhwcHwcfOp(ConvolutionOp):
    name = "linalg.conv_2d_nhwc_hwcf"
    SPEC: ClassVar[str] = "nhwfyxc: n h+y w+x c, y x c f -> n h w f"


@irdl_op_definition
class Conv2DNhwcFhwcOp(ConvolutionOp):
    name = "linalg.conv_2d_nhwc_fhwc"
    SPEC: ClassVar[str] = "nhwfyxc: n h+y w+x c, f y x c -> n h w f"


@irdl_op_definition
class Conv2DNgchwFgchwOp(ConvolutionOp):
    name = "linalg.conv_2d_ngchw_fgchw"
    SPEC: ClassVar[str] = "ngfhwcyx: n g c h+y w+x, f g c y x -> n g f h w"


@irdl_op_definition
class Conv2DNgchwGfchwOp(ConvolutionOp):
    name = "linalg.conv_2d_ngchw_gfchw"
    SPEC: ClassVar[str] = "ngfhwcyx: n g c h+y w+x, g f c y x -> n g f h w"


@irdl_op_definition
class Conv2DNhwgcGfhwcOp(ConvolutionOp):
    name = "linalg.conv_2d_nhwgc_gfhwc"
    SPEC: ClassVar[str] = "nhwgfyxc: n h+y w+x g c, g f y x c -> n h w g f"


@irdl_op_definition
class DepthwiseConv2DNchwChwOp(ConvolutionOp):
    name = "linalg.depthwise_conv_2d_nchw_chw"
    SPEC: ClassVar[str] = "nhwcyx: n c h+y w+x, c y x -> n c h w"


@irdl_op_definition
class DepthwiseConv2DNhwcHwcOp(ConvolutionOp):
    name = "linalg.depthwise_conv_2d_nhwc_hwc"
    SPEC: ClassVar[str] = "nhwcyx: n h+y w+x c, y x c -> n h w c"


class PoolingOp(WindowOp):
    """Fold a window of the image; the second operand only gives the window's shape."""

    PAYLOAD: ClassVar[tuple]

    @classmethod
    def fixed_body(
        cls,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        properties: dict[str, Attribute],
    ) -> Region:
        def build(add: Adder, element: SSAValue, window: SSAValue, out: SSAValue) -> SSAValue:
            value = convert_element(add, element, out.type)
            return add(cls.PAYLOAD[0 if isinstance(out.type, AnyFloat) else 1](out, value))

        return body_region((*inputs, *outputs), build)


@irdl_op_definition
class PoolingNchwSumOp(PoolingOp):
    name = "linalg.pooling_nchw_sum"
    SPEC: ClassVar[str] = "nchwyx: n c h+y w+x, y x -> n c h w"
    PAYLOAD: ClassVar[tuple] = (arith.AddfOp, arith.AddiOp)


@irdl_op_definition
class PoolingNchwMaxOp(PoolingOp):
    name = "linalg.pooling_nchw_max"
    SPEC: ClassVar[str] = "nchwyx: n c h+y w+x, y x -> n c h w"
    PAYLOAD: ClassVar[tuple] = (arith.MaximumfOp, arith.MaxSIOp)


@irdl_op_definition
class PoolingNhwcSumOp(PoolingOp):
    name = "linalg.pooling_nhwc_sum"
    SPEC: ClassVar[str] = "nhwcyx: n h+y w+x c, y x -> n h w c"
    PAYLOAD: ClassVar[tuple] = (arith.AddfOp, arith.AddiOp)


@irdl_op_definition
class PoolingNhwcMaxOp(PoolingOp):
    name = "linalg.pooling_nhwc_max"
    SPEC: ClassVar[str] = "nhwcyx: n h+y w+x c, y x -> n h w c"
    PAYLOAD: ClassVar[tuple] = (arith.MaximumfOp, arith.MaxSIOp)


@irdl_op_definition
class PoolingNhwcMinOp(PoolingOp):
    name = "linalg.pooling_nhwc_min"
    SPEC: ClassVar[str] = "nhwcyx: n h+y w+x c, y x -> n h w c"
    PAYLOAD: ClassVar[tuple] = (arith.MinimumfOp, arith.MinSIOp)


@irdl_op_definition
class PoolingNcwSumOp(PoolingOp):
    name = "linalg.pooling_ncw_sum"
    SPEC: ClassVar[str] = "ncwx: n c w+x, x -> n c w"
    PAYLOAD: ClassVar[tuple] = (arith.AddfOp, arith.AddiOp)


@irdl_op_definition
class PoolingNcwMaxOp(PoolingOp):
    name = "linalg.pooling_ncw_max"
    SPEC: ClassVar[str] = "ncwx: n c w+x, x -> n c w"
    PAYLOAD: ClassVar[tuple] = (arith.MaximumfOp, arith.MaxSIOp)
