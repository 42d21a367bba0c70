"""Blocks of real models: the same results after every pass, and fast enough to be of use."""

from __future__ import annotations

import numpy as np
import pytest
from blocks import FOLDER, read_block
from rounding_bounds import attention_blocks
from running import floats

from tilewright.dialects.context import make_context
from tilewright.extensions import PIPELINES
from tilewright.reference.compare import compare
from tilewright.reference.executor import run
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

CONVERSION = ["unwrap-iree", "canonicalize", "convert-linalg-to-npu-kernel"]


@pytest.mark.parametrize(
    ("name", "pipeline"),
    [
        ("expert_block_cross", PIPELINES["atlas"]),
        ("text_block_bf16.optimised", CONVERSION),
        ("text_block_interleaved", CONVERSION),
        ("smollm2_block", CONVERSION),
    ],
)
def test_blocks_keep_their_results(name: str, pipeline: list[str]) -> None:
    context = make_context()
    block = read_block(FOLDER / f"{name}.mlir", context)
    expected = run(block.module, block.inputs, weights=block.weights)
    assert all(np.isfinite(floats(e)).all() for e in expected)
    before = str(block.module)
    for pass_ in (p for entry in pipeline for p in parse_pipeline(entry)):
        run_passes(block.module, [pass_], context)
        if (after := str(block.module)) == before:
            continue
        before = after
        actual = run(block.module, block.inputs, weights=block.weights)
        for a, e in zip(actual, expected, strict=True):
            result = compare(a, e, attention_blocks(floats(e)))
            assert result.within, f"{name} after {pass_.name}: {result}"
