"""Buffers and transfers of npu_schedule: inserted, executed, checked, compiled; broken ones found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.dialects.context import make_context
from tilewright.dialects.npu_schedule import AllocOp, FreeOp, WaitOp
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.xdsl_api import IntegerAttr, i64
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run
from tilewright.targets.atlas.passes.text_isa import text_program
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

TILED = "tile-npu-kernel-to-schedule,convert-npu-kernel-to-schedule,canonicalize,cse"
INSERTED = f"{TILED},npu-insert-transfers"
TEXT = """
func.func @main(%a: tensor<64x96xf8E4M3FN>, %b: tensor<96x64xf8E4M3FN>, %c: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = npu_kernel.matmul %a, %b : tensor<64x96xf8E4M3FN>, tensor<96x64xf8E4M3FN> -> tensor<64x64xbf16>
  %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%0, %c) : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %1 : tensor<64x64xbf16>
}"""


def lowered(passes: str):
    module = parse_text(TEXT)
    run_passes(module, parse_pipeline(passes), make_context())
    return module


def verify(module) -> None:
    run_passes(module, parse_pipeline("npu-verify-buffers"), make_context())


def test_transfers_change_nothing() -> None:
    """The executor, for which bytes are undefined until the wait, gives the same numbers."""
    random = np.random.default_rng(0)
    shapes = (((64, 96), ml_dtypes.float8_e4m3fn), ((96, 64), ml_dtypes.float8_e4m3fn),
              ((64, 64), ml_dtypes.bfloat16))  # fmt: skip
    inputs = [random.normal(size=shape).astype(dtype) for shape, dtype in shapes]
    module = lowered(INSERTED)
    verify(module)
    (want,), (have,) = run(lowered(TILED), inputs), run(module, inputs)
    np.testing.assert_array_equal(have.view(np.uint16), want.view(np.uint16))
    (again,) = run(parse_text(str(module)), inputs)
    np.testing.assert_array_equal(again.view(np.uint16), want.view(np.uint16))


def test_the_code_generator_reads_them() -> None:
    """The same program with transfers written down and without."""
    target = "convert-npu-schedule-to-isa{target=atlas-v0}"
    programs = [text_program(lowered(f"{passes},{target}")) for passes in (TILED, INSERTED)]
    assert programs[0] == programs[1]


@pytest.mark.parametrize(
    ("kind", "codes"), [(WaitOp, {"TW1351", "TW1353"}), (FreeOp, {"TW1354", "TW1355"})]
)
def test_every_missing_operation_is_found(kind: type, codes: set[str]) -> None:
    count = sum(isinstance(op, kind) for op in lowered(INSERTED).walk())
    assert count > 8
    for number in range(count):
        module = lowered(INSERTED)
        broken = [op for op in module.walk() if isinstance(op, kind)][number]
        broken.detach()
        broken.erase()
        with pytest.raises(TilewrightError) as caught:
            verify(module)
        assert caught.value.code in codes


def test_buffers_that_overlap_are_found() -> None:
    found = 0
    for number in range(sum(isinstance(op, AllocOp) for op in lowered(INSERTED).walk())):
        module = lowered(INSERTED)
        alloc = [op for op in module.walk() if isinstance(op, AllocOp)][number]
        address = alloc.attributes["address"]
        assert isinstance(address, IntegerAttr)
        if not address.value.data:
            continue
        alloc.attributes["address"] = IntegerAttr(address.value.data - 512, i64)
        with pytest.raises(TilewrightError) as caught:
            verify(module)
        assert caught.value.code == "TW1354"
        found += 1
    assert found


def test_waits_belong_to_the_body_of_their_transfer() -> None:
    """A second wait, and one inside of a loop for a transfer before it."""
    tile, buffer = "tensor<32x32xbf16>", '!npu_schedule.buffer<tensor<32x32xbf16>, "vmem">'
    twice = f"""func.func @main(%a: {tile}) -> {tile} {{
      %b = npu_schedule.alloc : {buffer}
      %k = npu_schedule.dma_load %a into %b : {tile}, {buffer}
      npu_schedule.wait %k
      npu_schedule.wait %k
      %t = npu_schedule.read %b : {buffer} -> {tile}
      npu_schedule.free %b : {buffer}
      return %t : {tile}
    }}"""
    looped = twice.replace(
        "npu_schedule.wait %k\n      npu_schedule.wait %k",
        "%c0 = arith.constant 0 : index\n %c1 = arith.constant 1 : index\n"
        "scf.for %i = %c0 to %c1 step %c1 {\n npu_schedule.wait %k\n }",
    )
    for text in (twice, looped):
        with pytest.raises(TilewrightError, match="TW1352"):
            verify(parse_text(text))


def test_a_buffer_holds_nothing_before_its_load() -> None:
    tile, buffer = "tensor<32x32xbf16>", '!npu_schedule.buffer<tensor<32x32xbf16>, "vmem">'
    text = f"""func.func @main() -> {tile} {{
      %b = npu_schedule.alloc : {buffer}
      %t = npu_schedule.read %b : {buffer} -> {tile}
      npu_schedule.free %b : {buffer}
      return %t : {tile}
    }}"""
    with pytest.raises(TilewrightError, match="TW1350"):
        verify(parse_text(text))
