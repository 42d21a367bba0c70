"""StableHLO and CHLO as text: the operations JAX prints, in custom and generic form.

These definitions only read. `frontend/stablehlo.py` turns the operations into kernel intents; what
they mean stands there. Structured attributes (`#stablehlo.dot<…>`) are kept as the text between the
angle brackets, and the custom form of an operation gives the same text, so that there is one way to
read them.

Error code: TW6201 an operation of the dialect that has no mapping.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from tilewright.dialects import stablehlo_syntax as syntax
from tilewright.dialects.xdsl_api import (
    Attribute,
    Dialect,
    DictionaryAttr,
    IRDLOperation,
    IsTerminator,
    Parser,
    irdl_op_definition,
    opt_prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from tilewright.errors import TilewrightError


class HLOOp(IRDLOperation):
    """Any operands, results and regions; the importer checks what it reads."""

    arguments = var_operand_def()
    outcomes = var_result_def()
    bodies = var_region_def()

    SYNTAX: ClassVar[Callable[[Parser], tuple[Any, ...]]]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands, results, properties, regions = cls.SYNTAX(parser)
        return cls.create(
            operands=operands, result_types=results, properties=properties, regions=regions
        )

    def get(self, name: str) -> Attribute | None:
        """An attribute wherever the text had it."""
        for place in (self.properties, self.attributes):
            if name in place:
                return place[name]
        inner = self.properties.get("composite_attributes")
        return inner.data.get(name) if isinstance(inner, DictionaryAttr) else None


# ------------------------------------------------------------------------------------- the table

_PLAIN = [
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "complex",
    "convert",
    "cosine",
    "count_leading_zeros",
    "divide",
    "dynamic_update_slice",
    "exponential",
    "exponential_minus_one",
    "floor",
    "get_tuple_element",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "optimization_barrier",
    "or",
    "popcnt",
    "power",
    "real",
    "remainder",
    "reshape",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "tuple",
    "xor",
]
_CHLO_PLAIN = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "next_after",
    "polygamma",
    "sinh",
    "square",
    "tan",
    "zeta",
]

# Name -> (custom form, properties in generic form).
_SHAPED: dict[str, tuple[Callable[[Parser], tuple[Any, ...]], str]] = {
    "constant": (syntax.constant, "value"),
    "iota": (syntax.iota, "iota_dimension"),
    "compare": (syntax.compare, "comparison_direction compare_type"),
    "broadcast_in_dim": (
        syntax.with_array("dims", "broadcast_dimensions"),
        "broadcast_dimensions",
    ),
    "transpose": (syntax.with_array("dims", "permutation"), "permutation"),
    "reverse": (syntax.with_array("dims", "dimensions"), "dimensions"),
    "slice": (syntax.slice_, "start_indices limit_indices strides"),
    "dynamic_slice": (syntax.with_array("sizes", "slice_sizes"), "slice_sizes"),
    "concatenate": (syntax.with_number("dim", "dimension"), "dimension"),
    "pad": (syntax.pad, "edge_padding_low edge_padding_high interior_padding"),
    "dot_general": (syntax.dot_general, "dot_dimension_numbers precision_config algorithm"),
    "convolution": (
        syntax.convolution,
        "dimension_numbers window_strides padding lhs_dilation rhs_dilation window_reversal "
        "feature_group_count batch_group_count precision_config",
    ),
    "reduce": (syntax.reduce, "dimensions"),
    "reduce_window": (
        syntax.only_generic,
        "window_dimensions window_strides base_dilations window_dilations padding",
    ),
    "gather": (syntax.only_generic, "dimension_numbers slice_sizes indices_are_sorted"),
    "scatter": (
        syntax.only_generic,
        "scatter_dimension_numbers indices_are_sorted unique_indices",
    ),
    "sort": (syntax.only_generic, "dimension is_stable"),
    "case": (syntax.only_generic, ""),
    "if": (syntax.only_generic, ""),
    "while": (syntax.while_, ""),
    "reduce_precision": (syntax.reduce_precision, "format exponent_bits mantissa_bits"),
    "batch_norm_inference": (syntax.only_generic, "epsilon feature_index"),
    "custom_call": (
        syntax.custom_call,
        "call_target_name has_side_effect backend_config api_version called_computations "
        "operand_layouts result_layouts output_operand_aliases",
    ),
    "composite": (syntax.composite, "name composite_attributes decomposition version"),
    "return": (syntax.return_, ""),
}

# Known to the dialect, unknown to the importer; in custom form they cannot even be read.
UNSUPPORTED = [
    "after_all",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "batch_norm_grad",
    "batch_norm_training",
    "broadcast",
    "cholesky",
    "collective_broadcast",
    "collective_permute",
    "create_token",
    "cross-replica-sum",
    "dot",
    "dynamic_broadcast_in_dim",
    "dynamic_conv",
    "dynamic_gather",
    "dynamic_iota",
    "dynamic_pad",
    "dynamic_reshape",
    "einsum",
    "fft",
    "get_dimension_size",
    "infeed",
    "map",
    "outfeed",
    "partition_id",
    "real_dynamic_slice",
    "recv",
    "reduce_scatter",
    "replica_id",
    "rng",
    "rng_bit_generator",
    "select_and_scatter",
    "send",
    "set_dimension_size",
    "torch_index_select",
    "triangular_solve",
    "unary_einsum",
    "uniform_dequantize",
    "uniform_quantize",
]


def no_mapping(name: str) -> TilewrightError:
    """The error for an operation that has no kernel and no composition of kernels."""
    reason = "depends on data" if name.split(".")[-1].startswith(("dynamic_", "real_dyn")) else ""
    if reason:
        return TilewrightError(
            "TW6201",
            f"{name} has no mapping: its shape {reason}",
            hint="lower the function with fixed shapes",
        )
    return TilewrightError(
        "TW6201",
        f"{name} has no mapping",
        hint="write the function with other operations, or compute this part outside the model",
    )


def _refused(name: str) -> Callable[[Parser], tuple[Any, ...]]:
    def parse(parser: Parser) -> tuple[Any, ...]:
        raise no_mapping(name)

    return parse


def _define(name: str, form: Callable[[Parser], tuple[Any, ...]], properties: str) -> type[HLOOp]:
    fields: dict[str, Any] = {"name": name, "SYNTAX": staticmethod(form), "__doc__": name}
    for word in properties.split():
        fields[f"{word}_" if word == "name" else word] = opt_prop_def(prop_name=word)
    if name.endswith(".return"):
        fields["traits"] = traits_def(IsTerminator())
    title = "".join(part.title() for part in name.replace(".", "_").split("_"))
    return irdl_op_definition(type(f"{title}Op", (HLOOp,), fields))


BY_NAME: dict[str, type[HLOOp]] = {}
for _word in _PLAIN:
    BY_NAME[f"stablehlo.{_word}"] = _define(f"stablehlo.{_word}", syntax.plain, "result_accuracy")
for _word, (_form, _properties) in _SHAPED.items():
    BY_NAME[f"stablehlo.{_word}"] = _define(f"stablehlo.{_word}", _form, _properties)
for _word in UNSUPPORTED:
    BY_NAME[f"stablehlo.{_word}"] = _define(
        f"stablehlo.{_word}", _refused(f"stablehlo.{_word}"), ""
    )
for _word in _CHLO_PLAIN:
    BY_NAME[f"chlo.{_word}"] = _define(f"chlo.{_word}", syntax.plain, "")
BY_NAME["chlo.top_k"] = _define("chlo.top_k", syntax.top_k, "k")

StableHLO = Dialect("stablehlo", [op for n, op in BY_NAME.items() if n.startswith("stablehlo.")])
CHLO = Dialect("chlo", [op for n, op in BY_NAME.items() if n.startswith("chlo.")])
