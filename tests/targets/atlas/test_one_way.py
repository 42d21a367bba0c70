"""The same product by `opt`, by the tile language and as a model: one code generator, like cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.compiling import compile as compile_model
from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.passes.text_isa import text_program
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa
from tilewright.transforms.pass_pipeline import named_pipeline, run_passes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "architecture.md"


def product(m: int, k: int, n: int) -> str:
    a, b, c = f"tensor<{m}x{k}xf8E4M3FN>", f"tensor<{k}x{n}xf8E4M3FN>", f"tensor<{m}x{n}xbf16>"
    return f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %zero = arith.constant 0.0 : bf16
      %init = tensor.empty() : {c}
      %fill = linalg.fill ins(%zero : bf16) outs(%init : {c}) -> {c}
      %0 = linalg.matmul ins(%a, %b : {a}, {b}) outs(%fill : {c}) -> {c}
      return %0 : {c}
    }}"""


def by_opt(text: str, target: str) -> int:
    module = parse_text(text)
    run_passes(module, named_pipeline(f"{target}-native"), make_context())
    machine = make_machine(load_profile(target), Policy(), None)
    machine.load(parse_text_isa(text_program(module)))
    outcome = machine.run()
    assert outcome.fault is None
    return outcome.cycles


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_three_ways_are_one(target: str, tmp_path) -> None:
    """128x128x128 in fp8: within 5 % of each other."""
    text = product(128, 128, 128)
    source = tmp_path / "product.mlir"
    source.write_text(text)
    ways = {
        "opt": by_opt(text, target),
        "tile language": entry("matmul").kernel.compile(target=target, M=128, K=128, N=128).cycles,
        "model": compile_model(str(source), target=target).cycles,
    }
    assert max(ways.values()) <= 1.05 * min(ways.values()), ways
    page = PAGE.read_text()
    assert all(f"{cycles:,}" in page for cycles in ways.values()), ways


@pytest.mark.parametrize("sizes", [(72, 96, 160), (32, 256, 64), (97, 40, 33)])
@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_products_of_other_sizes(target: str, sizes: tuple[int, int, int]) -> None:
    """`opt` cuts products as the tile language does, also where blocks are ragged."""
    m, k, n = sizes
    kernel = entry("matmul").kernel.compile(target=target, M=m, K=k, N=n)
    assert by_opt(product(m, k, n), target) <= 1.05 * kernel.cycles
