"""Text that someone broke is read and converted, or refused with one error; nothing else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import verify_module
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir import read_mlir
from tilewright.transforms.convert_linalg_to_npu_kernel import ConvertLinalgToNPUKernel

LIT = Path(__file__).parents[1] / "filecheck" / "transforms"
TOKEN = re.compile(r"[%#@^]?[\w.]+|[^\s\w]")
TYPES = ["f32", "bf16", "i8", "i64", "f64", "i1", "f16", "i3", "index", "f8E4M3FN"]
EXCHANGES = [
    ("addf", "subf"), ("mulf", "addf"), ("maximumf", "addf"), ("d0", "d1"), ("d1", "d0"),
    ('"parallel"', '"reduction"'), ('"reduction"', '"parallel"'), ("extf", "truncf"),
    ("= [1, 0]", "= [0, 1]"), ("dim(0)", "dim(5)"), ("dense<1>", "dense<2>"), ("0.0", "1.0"),
    ("%x", "%y"), ("[1, 1]", "[2, 1]"),
]  # fmt: skip


def functions() -> list[str]:
    """The functions of the conversion's lit files, each with the maps it names."""
    found = []
    for path in sorted(LIT.glob("convert_linalg_to_npu_kernel*.mlir")):
        lines = [x for x in path.read_text().splitlines() if not x.lstrip().startswith("//")]
        maps = "\n".join(line for line in lines if line.startswith("#"))
        rest = "\n".join(line for line in lines if not line.startswith("#"))
        found += [f"{maps}\n{part}" for part in re.split(r"\n(?=func\.func|util\.func)", rest)[1:]]
    return found


def broken(text: str, choose: random.Random) -> str:
    """The text with a size, a type, an op or a word changed."""
    kind = choose.randrange(5)
    if kind == 0:
        size = choose.choice(re.findall(r"(?<=[<x])\d+(?=x)", text) or ["4"])
        other = choose.choice(["1", "2", "0", "?", "33"])
        return re.sub(rf"(?<=[<x\[ ,]){size}(?=[x\],])", other, text)
    if kind == 1:
        old, new = choose.choice(TYPES), choose.choice(TYPES)
        return re.sub(rf"(?<=[x ]){old}\b", new, text)
    if kind == 2:
        old, new = choose.choice(EXCHANGES)
        return text.replace(old, new, choose.choice([1, -1]))
    words = list(TOKEN.finditer(text))
    word, other = choose.choice(words), choose.choice(words)
    return text[: word.start()] + (other[0] if kind == 3 else "") + text[word.end() :]


@pytest.mark.parametrize("seed", range(4))
def test_broken_text_never_ends_in_anything_but_an_error(seed: int) -> None:
    choose = random.Random(seed)
    texts = functions()
    assert len(texts) > 50
    outcomes = {"converted": 0, "refused": 0}
    for _ in range(100):
        text = broken(choose.choice(texts), choose) + "\n"
        try:
            module = read_mlir(text)
            unmapped = choose.choice(["error", "host"])
            ConvertLinalgToNPUKernel(unmapped=unmapped).apply(make_context(), module)
            verify_module(module)
            outcomes["converted"] += 1
        except TilewrightError as error:
            assert re.fullmatch(r"TW\d{4}", error.code)
            assert error.location is not None and error.location.line >= 1
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10
