"""The family table: lookup by symbol, roles of operands, what calls must satisfy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.dialects import kernel_syntax
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.kernel_symbols import (
    DTYPE_SUFFIXES,
    family_of,
    kernel_call,
    split_symbol,
    symbol_for,
)
from tilewright.dialects.npu_kernel import MatmulOp
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    FloatAttr,
    StringAttr,
    TensorType,
    bf16,
    f32,
)
from tilewright.errors import TilewrightError

names = [name for f in FAMILIES.values() for name in (f.name, *f.aliases)]


@given(st.sampled_from(names), st.lists(st.sampled_from(sorted(DTYPE_SUFFIXES)), max_size=4))
def test_every_family_is_found_by_its_symbol(name: str, suffix: list[str]) -> None:
    found = split_symbol("_".join(["npu_uk", name, *suffix]))
    assert found is not None
    family, dtypes = found
    assert name in (family.name, *family.aliases)
    assert list(dtypes) == suffix


@given(st.sampled_from(names), st.text("abcxyz_0", min_size=1, max_size=5))
def test_other_endings_are_no_symbol(name: str, ending: str) -> None:
    symbol = f"npu_uk_{name}{ending}"
    found = split_symbol(symbol)
    if found is not None:
        family, dtypes = found
        known = {"npu_uk_" + "_".join([n, *dtypes]) for n in (family.name, *family.aliases)}
        assert symbol in known


def test_the_longest_family_wins() -> None:
    assert family_of("npu_uk_matmul_acc_first").name == "matmul_acc_first"  # type: ignore
    assert family_of("npu_uk_matmul_bf16_bf16_f32").name == "matmul"  # type: ignore
    assert family_of("npu_uk_attention_acc_mid").state == "attention"  # type: ignore
    assert family_of("npu_uk_attention").name == "gemma_attention"  # type: ignore
    assert family_of("matmul") is None
    assert symbol_for("matmul", bf16, f32) == "npu_uk_matmul_bf16_f32"


def test_roles_name_an_operand_after_a_missing_one() -> None:
    x, b = TensorType(bf16, [4, 8]), TensorType(bf16, [8])
    call = kernel_call(
        "npu_uk_layer_norm",
        [x, b],
        {
            "roles": ArrayAttr([StringAttr("x"), StringAttr("bias")]),
            "epsilon": FloatAttr(1e-5, f32),
        },
        x,
    )
    assert call is not None
    assert call.role_names() == ("x", "bias")
    assert call.operands_by_role(["X", "B"]) == {"x": "X", "bias": "B"}
    assert call.axis(2) == 1


def test_scalars_take_the_place_of_operands() -> None:
    x = TensorType(bf16, [4])
    call = kernel_call("npu_uk_elementwise_sub", [x], {"scalar_lhs": FloatAttr(1.0, bf16)}, x)
    assert call is not None
    assert call.role_names() == ("rhs",)
    assert call.value("scalar_lhs") == 1.0


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "marks", "expected"),
    [
        ("1x32", "960x32", "1x960", "", (False, True)),
        ("32x32", "32x32", "32x32", "", (False, False)),
        ("4x64x8", "4x64x16", "4x8x16", "{transpose_lhs}", (True, False)),
        ("4x8x64", "64x16", "4x8x16", "", (False, False)),
    ],
)
def test_how_a_matmul_reads_its_operands(lhs, rhs, result, marks, expected) -> None:
    types = [f"tensor<{shape}xbf16>" for shape in (lhs, rhs, result)]
    module = parse_text(
        f"""func.func @f(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{
          %0 = npu_kernel.matmul %a, %b {marks} : {types[0]}, {types[1]} -> {types[2]}
          return %0 : {types[2]}
        }}"""
    )
    verify_module(module)
    (matmul,) = [op for op in module.walk() if isinstance(op, MatmulOp)]
    assert matmul.transposes() == expected


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('"npu_uk_reduction_sum"(%a) {axes = array<i64: 2>} : T -> T', "TW1206"),
        ('"npu_uk_reduction_sum"(%a) : T -> T', "TW1204"),
        ('"npu_uk_compare"(%a, %a) {predicate = "eq"} : T, T -> T', "TW1205"),
        ('"npu_uk_compare"(%a, %a) {predicate = "about"} : T, T -> T', "TW1204"),
        ('"npu_uk_transpose"(%a) {permutation = array<i64: 0, 0>} : T -> T', "TW1206"),
        (
            '"npu_uk_slice"(%a) {offsets = array<i64: 1, 0>, sizes = array<i64: 4, 4>} : T -> T',
            "TW1203",
        ),
        ('"npu_uk_concat"(%a, %a) {axis = 0 : i64} : T, T -> T', "TW1203"),
        ('"npu_uk_pad"(%a) {low = array<i64: 1>, high = array<i64: 1>} : T -> T', "TW1206"),
        ('"npu_uk_fill"() : () -> T', "TW1204"),
        ('"npu_uk_rope"(%a, %a, %a) {style = "spiral"} : T, T, T -> T', "TW1204"),
        ('"npu_uk_conv2d"(%a, %a) : T, T -> T', "TW1206"),
        ('"npu_uk_attention"(%a, %a, %a) {kv_group = 2 : i64} : T, T, T -> T', "TW1203"),
        ('"npu_uk_gather"(%a, %a) {axis = 0 : i64} : T, T -> T', "TW1205"),
        ('"npu_uk_dequant"(%a) {block = 32 : i64} : T -> T', "TW1202"),
        ('"npu_uk_layer_norm"(%a) {roles = ["y"], epsilon = 1.0 : f32} : T -> T', "TW1202"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, code: str) -> None:
    type_ = "tensor<4x4xbf16>"
    text = f"""func.func @f(%a: {type_}) {{
      %0 = npu_kernel.ukernel_generic {call.replace("T", type_).replace("array<i64", "array<i64")}
      return
    }}"""
    with pytest.raises(TilewrightError) as caught:
        verify_module(parse_text(text, "f.mlir"))
    assert caught.value.code == code
    assert str(caught.value.location).startswith("f.mlir:2:")


def test_calls_are_checked_whatever_was_checked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is remembered by the identity of types that may come and go."""
    monkeypatch.setattr(kernel_syntax, "MOST_CHECKED", 3)
    text = "func.func @f(%a : tensor<{n}xf32>) {{ npu_kernel.ukernel_generic {call} func.return }}"
    for number in range(1, 40):
        right = f'"npu_uk_elementwise_add"(%a, %a) : tensor<{number}xf32>, tensor<{number}xf32> -> tensor<{number}xf32>'
        verify_module(parse_text(text.format(n=number, call=right)))
        with pytest.raises(TilewrightError, match="TW12"):
            wrong = right.replace(f"-> tensor<{number}xf32>", f"-> tensor<{number + 1}xf32>")
            verify_module(parse_text(text.format(n=number, call=wrong)))
        assert len(kernel_syntax._CHECKED) <= 3
