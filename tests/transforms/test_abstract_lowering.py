"""The abstract instruction stream: every family of the machine has one, and transfers balance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.dialects.context import make_context
from tilewright.dialects.encoded_families import ENCODED
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.parsing import parse_file, parse_text, verify_module
from tilewright.targets.atlas.dialect.npu_isa import COMPUTE, DmaInstruction, DmaWaitOp
from tilewright.targets.atlas.passes.abstract_recipes import RECIPES
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

BLOCKS = Path(__file__).parents[1] / "data" / "mlir"


def test_every_family_on_the_machine_has_a_sequence() -> None:
    wanted = {family.name for family in FAMILIES.values() if family.runs_on == "npu"}
    assert wanted - ENCODED == set(RECIPES)


@pytest.mark.parametrize(
    "name", ["vision_block", "text_block_bf16.optimised", "expert_block_cross"]
)
def test_whole_blocks_become_instructions(name: str) -> None:
    module = parse_file(str(BLOCKS / f"{name}.mlir"))
    passes = (
        "unwrap-iree,canonicalize,convert-linalg-to-npu-kernel,convert-npu-kernel-to-schedule,"
        "convert-npu-schedule-to-isa"
    )
    run_passes(module, parse_pipeline(passes), make_context())
    names = [op.name for op in module.walk()]
    assert not any(n.startswith(("npu_kernel.", "npu_schedule.", "linalg.")) for n in names)
    assert names.count("npu_isa.matmul_mxu0") >= 7
    transfers = sum(isinstance(op, DmaInstruction) for op in module.walk())
    assert transfers == sum(isinstance(op, DmaWaitOp) for op in module.walk())
    again = parse_text(str(module))
    verify_module(again)
    assert str(again) == str(module)


@pytest.mark.parametrize("name", COMPUTE)
def test_instructions_print_with_and_without_tensors(name: str) -> None:
    fields = COMPUTE[name].FIELDS
    operands = ", ".join(["%a"] * (len(fields) - 1))
    types = ", ".join(["tensor<4xbf16>"] * (len(fields) - 1)) or "()"
    numbers = ", ".join(str(i) for i in range(len(fields)))
    keys = ", ".join(f"{field}={i}" for i, field in enumerate(fields))
    text = f"""builtin.module {{
  func.func @f(%a: tensor<4xbf16>) {{
    %0 = npu_isa.{name} {operands}{" " if operands else ""}regs=({numbers}) : {types} -> tensor<4xbf16>
    npu_isa.{name} {keys}
    func.return
  }}
}}"""
    module = parse_text(text)
    verify_module(module)
    assert str(module) == text
