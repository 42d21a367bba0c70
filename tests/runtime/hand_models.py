"""Compiled models put together by hand from library kernels, and references of their kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hand_made import AtlasModel, compiled, kernel_step, on_device, set_parts
from tilewright.targets.artifact import HostPart, LayerLoop, Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.codegen.compile_kernel import trace
from tilewright.targets.atlas.codegen.from_schedule import Placed, tile_program
from tilewright.targets.atlas.codegen.lower_nest import ConstantPool, lower
from tilewright.targets.atlas.kernels import references
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program
from tilewright.tile.layouts import Layout

V1 = load_profile("atlas-v1")
ROWS, INNER, COLUMNS = 50, 64, 70


def place(kernel: Any, layouts: dict[str, Layout], bases: dict[str, int], profile: Profile = V1):
    """The program of a library kernel with its tensors at given places."""
    tracer = trace(kernel, profile, layouts)
    placed = [Placed(layouts[name], bases[name]) for name in tracer.arguments]
    statements = tile_program(tracer.function, placed)
    pool = ConstantPool(1 << 24)
    program = lower(statements, profile, pool).compile("test")
    assert not pool.values
    return program


def join(programs: list[Program]) -> Program:
    return Program(
        np.concatenate([p.opcodes for p in programs]),
        np.concatenate([p.operands for p in programs]),
        np.concatenate([p.lines for p in programs]) * 0,
    )


def mlp(segments: int = 1, seed: int = 0, profile: Profile = V1) -> AtlasModel:
    """y = fp8(x) @ w + b, in one segment of code or in two."""
    random = np.random.default_rng(seed)
    layouts = {
        "x": Layout((ROWS, INNER), "fp8"),
        "w": Layout((INNER, COLUMNS), "fp8", "panels"),
        "h": Layout((ROWS, COLUMNS), "bf16"),
        "b": Layout((ROWS, COLUMNS), "bf16"),
        "y": Layout((ROWS, COLUMNS), "bf16"),
    }
    bases, end = {}, 0
    for name, layout in layouts.items():
        bases[name], end = end, end + layout.bytes
    first = place(
        entry("gemm").kernel,
        {"a": layouts["x"], "b": layouts["w"], "out": layouts["h"]},
        {"a": bases["x"], "b": bases["w"], "out": bases["h"]},
        profile,
    )
    second = place(
        entry("elementwise_add").kernel,
        {"a": layouts["h"], "b": layouts["b"], "out": layouts["y"]},
        {"a": bases["h"], "b": bases["b"], "out": bases["y"]},
        profile,
    )
    kinds = {"x": "input", "w": "weight", "h": "activation", "b": "constant", "y": "output"}
    lives = {"x": (0, 0), "w": (0, 0), "h": (0, 1), "b": (1, 1), "y": (1, 1)}
    regions = {
        name: Region(name, "dram", bases[name], layouts[name], kinds[name], *lives[name])  # pyright: ignore
        for name in layouts
    }
    w = layouts["w"].pack(random.normal(size=(INNER, COLUMNS)))
    b = layouts["b"].pack(random.normal(size=(ROWS, COLUMNS)))
    ends = (len(first), len(first) + len(second)) if segments == 1 else (len(first), len(second))
    steps = [
        kernel_step("fc", "gemm", {"a": "x", "b": "w", "out": "h"}, {}, 0, 0, ends[0], ("linear",)),
        kernel_step(
            "bias", "add", {"a": "h", "b": "b", "out": "y"}, {"kind": "row"}, segments - 1,
            ends[0] if segments == 1 else 0, ends[1], ("add",), 0, 17,
        ),
    ]  # fmt: skip
    return compiled(
        name="mlp",
        profile=profile,
        segments=[join([first, second])] if segments == 1 else [join([first]), join([second])],
        regions=regions,
        steps=steps,
        loops=[],
        ports={
            "x": Port("x", (ROWS, INNER), "f32", "x"),
            "y": Port("y", (1, ROWS, COLUMNS), "f32", "y"),
        },
        inputs=("x",),
        outputs=("y",),
        parts=[on_device(tuple(range(segments)), ("x",), ("y",))],
        weights={"w": np.frombuffer(w, np.uint8), "b": np.frombuffer(b, np.uint8)},
        provenance={"compiler": "test", "options": {"fuse": True}},
        phases={"linalg": "// one\n", "npu kernel": "// two\n"},
        quantisation={"fc": {"format": "fp8", "scale": 1.0}},
        timing={"import": 0.25},
    )


def mlp_expected(model: AtlasModel, x: np.ndarray) -> np.ndarray:
    """What the model computes, in bit patterns."""
    operands = {"a": fp8_codes(x), "b": weight(model, "w")}
    h = REFERENCES["gemm"](model.artifact.profile, {}, operands)["out"]
    return REFERENCES["add"](model.artifact.profile, {}, {"a": h, "b": weight(model, "b")})["out"]


def fp8_codes(x: np.ndarray) -> np.ndarray:
    clipped = np.clip(x.astype(np.float64), -448, 448)
    return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def weight(model: AtlasModel, name: str) -> np.ndarray:
    layout = model.artifact.regions[name].layout
    codes = layout.unpack(model.artifact.weights[name].tobytes())
    return codes.view(np.uint16 if layout.dtype == "bf16" else np.uint8)


LOOP = """
    li x1, 2048
    li x2, {h}
    li x3, {w}
    li x4, 0
    li x5, 0x1000
    li x6, {count}
again:
    dma.load.ch0 x4, x2, x1
    dma.load.ch1 x5, x3, x1
    dma.wait.ch0
    dma.wait.ch1
    vload m0, 0(x4)
    delay 40
    vload m1, 32(x4)
    delay 40
    vload m2, 0(x5)
    delay 40
    vload m3, 32(x5)
    delay 40
    vadd.bf16 m4, m0, m2
    delay 70
    vstore m4, 0(x4)
    delay 40
    vstore m5, 32(x4)
    delay 40
    dma.store.ch0 x2, x4, x1
    dma.wait.ch0
    add x3, x3, x1
    addi x6, x6, -1
    bne x6, x0, again
    nop
    nop
"""


# The same, but every round leaves before its result has arrived; the next one waits for it.
EAGER = (
    LOOP.replace("    dma.wait.ch0\n    add x3", "    add x3").replace(
        "again:\n", "again:\n    dma.wait.ch0\n"
    )
    + "    dma.wait.ch0\n"
)


def looped(count: int = 3, text: str = LOOP) -> AtlasModel:
    """h = h + w[i], round by round; h is what goes in and what comes out."""
    layout = Layout((20, 32), "bf16")
    at = 0x10000
    program = assemble(text.format(h=0, w=at, count=count), V1)
    program.lines[:] = 0
    random = np.random.default_rng(1)
    packed = [layout.pack(random.normal(size=layout.shape)) for _ in range(count)]
    regions = {
        "h": Region("h", "dram", 0, layout, "activation", 0, 0),
        "w": Region("w", "dram", at, layout, "weight", 0, 0, count, 2048),
    }
    first = program.labels["again"]
    return compiled(
        name="loop",
        profile=V1,
        segments=[program],
        regions=regions,
        steps=[
            kernel_step("add", "add", {"a": "h", "b": "w", "out": "h"}, {}, 0, first, len(program))
        ],
        loops=[LayerLoop(count, 0, 1, tuple(f"layers.{i}" for i in range(count)))],
        ports={
            "x": Port("x", (20, 32), "bf16", "h"),
            "y": Port("y", (20, 32), "bf16", "h"),
        },
        inputs=("x",),
        outputs=("y",),
        parts=[on_device((0,), ("x",), ("y",))],
        weights={"w": np.frombuffer(b"".join(packed), np.uint8)},
        state={"x": "y"},
    )


START = """
    li x3, {w}
    li x9, 0x8000
    sw x3, 0(x9)
    delay 4
"""
ROUND = (
    LOOP.replace("    li x3, {w}\n", "    li x9, 0x8000\n    lw x3, 0(x9)\n    delay 4\n")
    .replace("    addi x6, x6, -1\n    bne x6, x0, again\n", "    sw x3, 0(x9)\n")
    .replace("    nop\n", "    delay 4\n")
)


def streamed(count: int = 3) -> AtlasModel:
    """The same in pieces: the code of a round is loaded for every round."""
    model = looped(count)
    model.artifact.segments = [
        assemble(t.format(h=0, w=0x10000, count=0), V1) for t in (START, ROUND)
    ]
    for program in model.artifact.segments:
        program.lines[:] = 0
    model.artifact.steps = [
        kernel_step(
            "start", "nothing", {"out": "place"}, {}, 0, 0, len(model.artifact.segments[0])
        ),
        kernel_step(
            "layers.0.add",
            "add",
            {"a": "h", "b": "w", "out": "h"},
            {},
            1,
            model.artifact.segments[1].labels["again"],
            len(model.artifact.segments[1]),
        ),
    ]
    model.artifact.regions = {
        "h": Region("h", "dram", 0, model.artifact.regions["h"].layout, "activation", 0, 1),
        "w": Region(
            "w", "dram", 0x10000, model.artifact.regions["w"].layout, "weight", 1, 1, count, 2048
        ),
        "place": Region("place", "vmem", 0x8000, Layout((32, 32), "fp8"), "activation", 0, 1),
    }
    model.artifact.loops = [LayerLoop(count, 1, 2, tuple(f"layers.{i}" for i in range(count)))]
    set_parts(model, [on_device((0, *[1] * count), ("x",), ("y",))])
    return model


HOST = """
func.func @before(%x: tensor<50x64xf32>) -> tensor<50x64xf32> {
  %two = arith.constant dense<2.0> : tensor<50x64xf32>
  %r = arith.mulf %x, %two : tensor<50x64xf32>
  func.return %r : tensor<50x64xf32>
}
func.func @after(%y: tensor<1x50x70xf32>) -> tensor<1x50x70xf32> {
  %w = arith.constant dense_resource<shift> : tensor<1x50x70xf32>
  %r = arith.addf %y, %w : tensor<1x50x70xf32>
  func.return %r : tensor<1x50x70xf32>
}
"""


def hosted() -> AtlasModel:
    """z = 2 x through the device's y = x @ w + b, then + shift, both ends on the host."""
    model = mlp(2)
    model.ports |= {
        "x2": Port("x2", (ROWS, INNER), "f32", "x"),
        "z": Port("z", (1, ROWS, COLUMNS), "f32"),
        "x": Port("x", (ROWS, INNER), "f32"),
    }
    model.host_module = HOST
    shift = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(1, ROWS, COLUMNS)
    model.host_weights = {"shift": shift, "flag": np.array([True, False])}
    model.outputs = ("z",)
    parts = [
        HostPart("before", ("x",), ("x2",), ("scaling an image",)),
        on_device((0,), ("x2",), ()),
        on_device((1,), (), ("y",)),
        HostPart("after", ("y",), ("z",)),
    ]
    set_parts(model, parts)
    return model


def _gemm(profile: Profile, options: dict[str, Any], operands: dict[str, np.ndarray]):
    return {"out": references.product(operands["a"], operands["b"])}


def _add(profile: Profile, options: dict[str, Any], operands: dict[str, np.ndarray]):
    from tilewright.reference import arithmetic

    return {"out": arithmetic.add(operands["a"], operands["b"])}


REFERENCES = {"gemm": _gemm, "add": _add, "nothing": lambda profile, options, operands: {}}


def bf16_codes(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(ml_dtypes.bfloat16).view(np.uint16)
