"""Helpers: run MLIR text on arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.reference import dtypes
from tilewright.reference.executor import run
from tilewright.reference.program import Semantics


def execute(text: str, *inputs: Any, **options: Any) -> list[np.ndarray]:
    """The results of the text's only function (or @main)."""
    module = parse_text(text, "test.mlir")
    verify_module(module)
    return run(module, list(inputs), **options)


def stepwise() -> Semantics:
    return Semantics(accumulate="stepwise")


def array(values: Any, name: str) -> np.ndarray:
    """Values as a stored array of an element type named as in MLIR."""
    if name in dtypes.FLOATS:
        return dtypes.stored(np.asarray(values, dtype=np.float64), dtypes.FLOATS[name])
    if name == "i1":
        return np.asarray(values, dtype=np.bool_)
    return np.asarray(values).astype(dtypes.integer(int(re.sub(r"\D", "", name))).storage)


def floats(values: np.ndarray) -> np.ndarray:
    """A stored array as float64."""
    return dtypes.working(values, dtypes.of_array(values)).astype(np.float64)


def unary(operation: str, source: str, target: str | None = None) -> str:
    """A function of one scalar operation on a tensor of four."""
    target = target or source
    arrow = f"{source} to {target}" if target != source else source
    return f"""
func.func @main(%a: tensor<4x{source}>) -> tensor<4x{target}> {{
  %e = tensor.empty() : tensor<4x{target}>
  %r = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%a : tensor<4x{source}>) outs(%e : tensor<4x{target}>) {{
  ^bb0(%x: {source}, %o: {target}):
    %y = {operation} %x : {arrow}
    linalg.yield %y : {target}
  }} -> tensor<4x{target}>
  return %r : tensor<4x{target}>
}}"""


def binary(operation: str, source: str, target: str | None = None) -> str:
    """As `unary` with two operands."""
    target = target or source
    return f"""
func.func @main(%a: tensor<4x{source}>, %b: tensor<4x{source}>) -> tensor<4x{target}> {{
  %e = tensor.empty() : tensor<4x{target}>
  %r = linalg.map ins(%a, %b : tensor<4x{source}>, tensor<4x{source}>) outs(%e : tensor<4x{target}>)
    (%x: {source}, %z: {source}, %o: {target}) {{
      %y = {operation} %x, %z : {source}
      linalg.yield %y : {target}
    }}
  return %r : tensor<4x{target}>
}}"""
