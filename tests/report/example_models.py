"""Compiled models made by hand, with a run and a verification, for tests of the report."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from hand_made import AtlasModel, compiled, kernel_step, on_device
from tilewright.report.model_report import (
    AccuracyFigures,
    CallFigures,
    Errors,
    LayerErrors,
    RunFigures,
)
from tilewright.targets.artifact import HostPart, LayerLoop, Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region, Step
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.tile.layouts import Layout
from tilewright.trace.model import Activity

UNITS = ("SCALAR", "MXU0", "MXU1", "VPU", "DMA", "LSU")
TOKENS, HIDDEN, KEYS, WIDE = 64, 576, 192, 1536
# Name, kernel, weight's shape, VMEM operands in and out, share of (MXU0, MXU1, VPU, LSU, DMA).
BLOCK = (
    ("input_norm", "rmsnorm", (HIDDEN,), (0, 0, 0.81, 0.42, 0.35)),
    ("self_attn.q_proj", "matmul", (HIDDEN, HIDDEN), (0.31, 0.82, 0.12, 0.4, 0.93)),
    ("self_attn.k_proj", "matmul", (HIDDEN, KEYS), (0.28, 0.74, 0.1, 0.38, 0.9)),
    ("self_attn.v_proj", "matmul", (HIDDEN, KEYS), (0.28, 0.74, 0.1, 0.38, 0.9)),
    ("self_attn.rotary_emb", "rope", (TOKENS, 64), (0, 0, 0.64, 0.6, 0.22)),
    ("self_attn", "attention", None, (0.22, 0.58, 0.77, 0.51, 0.08)),
    ("self_attn.o_proj", "matmul_residual", (HIDDEN, HIDDEN), (0.3, 0.8, 0.15, 0.41, 0.95)),
    ("post_attention_norm", "rmsnorm", (HIDDEN,), (0, 0, 0.3, 0.21, 0.12)),
    ("mlp.gate_up_proj", "gated_matmul", (HIDDEN, 2 * WIDE), (0.33, 0.88, 0.3, 0.45, 0.97)),
    ("mlp.down_proj", "matmul_residual", (WIDE, HIDDEN), (0.32, 0.86, 0.1, 0.43, 0.98)),
)
WORDS = 90  # of each step


def _program(steps: int) -> Program:
    rows = []
    for step in range(steps):
        rows += [Instruction.of("addi", 1, 0, step % 100)] * 3
        rows += [Instruction.of("addi", 2, 1, 4)] * (WORDS - 4)
        rows += [Instruction.of("bne", 1, 2, -4 * 8)]
    program = Program.from_instructions(rows, "model")
    program.labels.update({f"step{n}": n * WORDS for n in range(steps)})
    return program


def _align(value: int) -> int:
    return -(-value // 1024) * 1024


def _weight(kernel: str, shape: tuple[int, ...]) -> Layout:
    return Layout(shape, "fp8" if len(shape) == 2 and kernel != "rope" else "bf16")


def transformer(turns: int = 16) -> AtlasModel:
    """A decoder of `turns` equal layers, ten steps each, after a cast and before a last norm."""
    steps: list[Step] = [kernel_step("embedding.cast", "cast", {"x": "tokens", "y": "hidden"}, {})]
    regions: dict[str, Region] = {}
    top = 0
    last = len(BLOCK) + 1

    def place(region: Region) -> None:
        nonlocal top
        regions[region.name] = replace(region, address=top)
        top = _align(top + region.bytes)

    hidden = Layout((TOKENS, HIDDEN), "bf16")
    place(Region("tokens", "dram", 0, hidden, "input", 0, 0))
    place(Region("result", "dram", 0, hidden, "output", last, last))
    # The weights of one layer lie together, layer after layer.
    stride = sum(_align(_weight(kernel, shape).bytes) for _, kernel, shape, _ in BLOCK if shape)
    within = 0
    for number, (name, kernel, shape, _) in enumerate(BLOCK, 1):
        operands = {"x": f"{name}.in", "y": f"{name}.out"}
        macs = 0
        if shape is not None:
            layout = _weight(kernel, shape)
            weight = Region(
                f"layers.*.{name}.weight", "dram", top + within, layout, "weight", 0, last, turns,
                stride,
            )  # fmt: skip
            regions[weight.name] = weight
            within += _align(layout.bytes)
            operands["w"] = weight.name
            macs = TOKENS * shape[0] * shape[1] if len(shape) == 2 and kernel != "rope" else 0
        if kernel == "attention":
            macs = 2 * TOKENS * TOKENS * HIDDEN
        steps.append(
            kernel_step(
                f"layers.*.{name}",
                kernel,
                operands,
                {"tile": 32},
                0,
                number * WORDS,
                (number + 1) * WORDS,
                (f"model.layers.0.{name}",),
                macs,
                _bound(number, turns),
            )
        )
    top += stride * turns
    steps[0] = replace(steps[0], end_word=WORDS, bound=9_000, sources=("model.embed_tokens",))
    steps.append(
        kernel_step("norm", "rmsnorm", {"x": "hidden", "y": "result"}, {}, 0, last * WORDS,
             (last + 1) * WORDS, ("model.norm",), 0, 12_000)
    )  # fmt: skip
    place(Region("norm.weight", "dram", 0, Layout((HIDDEN,), "bf16"), "weight", 0, last))
    place(Region("causal_mask", "dram", 0, Layout((TOKENS, TOKENS), "bf16"), "constant", 0, last))
    for name, first, end, shape, address in (
        ("hidden", 0, last, (TOKENS, HIDDEN), 0),
        ("normed", 1, 4, (TOKENS, HIDDEN), 0x12000),
        ("query", 2, 6, (TOKENS, HIDDEN), 0x24000),
        ("key", 3, 6, (TOKENS, KEYS), 0x36000),
        ("value", 4, 6, (TOKENS, KEYS), 0x3C000),
        ("attended", 6, 7, (TOKENS, HIDDEN), 0x12000),
        ("normed2", 8, 9, (TOKENS, HIDDEN), 0x12000),
        ("gated", 9, 10, (TOKENS, WIDE), 0x24000),
    ):
        regions[name] = Region(
            name, "vmem", address, Layout(shape, "bf16"), "activation", first, end
        )
    ir = "\n".join(
        f"  %{n} = npu_kernel.matmul %{n - 1}, %w{n} : tensor<64x576xbf16>" for n in range(1, 900)
    )
    return compiled(
        name="smollm2-16",
        profile=load_profile("atlas-v1"),
        segments=[_program(len(steps))],
        regions=regions,
        steps=steps,
        loops=[LayerLoop(turns, 1, 1 + len(BLOCK), tuple(f"layers.{n}" for n in range(turns)))],
        ports={
            "input_ids": Port("input_ids", (1, TOKENS), "i64"),
            "embedded": Port("embedded", (1, TOKENS, HIDDEN), "bf16", "tokens"),
            "logits": Port("logits", (1, TOKENS, HIDDEN), "f32", "result"),
        },
        inputs=("input_ids",),
        outputs=("logits",),
        parts=[
            HostPart(
                "embed",
                ("input_ids",),
                ("embedded",),
                ("tensor.gather %embed_tokens: a lookup by index, no arithmetic",),
            ),
            on_device((0,), ("embedded",), ("logits",)),
        ],
        weights={},
        host_module="module {}",
        provenance={
            "compiler": "tilewright 0.1.0",
            "model": "models.smollm2:decoder",
            "model_hash": "sha256:" + "9f" * 32,
            "options": {"quantize": "fp8", "fuse": True, "calibrate": "random:8"},
        },
        phases={
            "import": "module {\n  func.func @main(%0 : tensor<64x576xf32>)\n}",
            "quantise": "module {\n" + ir + "\n}",
            "schedule": 'module {\n  npu_schedule.launch @mxu0_matmul <32x32> & "late"\n}',
        },
        quantisation={
            f"layers.{n}.{name}": {"x": "fp8", "w": "fp8", "y": "bf16"}
            for n in range(turns)
            for name, kernel, _, _ in BLOCK
            if "matmul" in kernel
        },
    )


def unrolled(model: AtlasModel, run: RunFigures) -> tuple[AtlasModel, RunFigures]:
    """The same model and run without rounds: every call is a step of its own."""
    steps = [
        replace(step, name=step.name.replace("*", str(turn)))
        for _, turn, step in model.artifact.calls()
    ]
    calls = [replace(call, step=index, turn=0) for index, call in enumerate(run.calls)]
    return replace(model, artifact=replace(model.artifact, steps=steps, loops=[])), replace(
        run, calls=calls
    )


def _bound(number: int, turns: int) -> int:
    _, kernel, shape, _ = BLOCK[number - 1]
    if shape is not None and len(shape) == 2 and kernel != "rope":
        return shape[0] * shape[1] // 2
    return {"attention": 61_000, "rope": 9_500}.get(kernel, 14_000)


def transformer_run(model: AtlasModel, pieces: int = 4096) -> RunFigures:
    """A run as the machine could have made it; the same each time."""
    chance = random.Random(5)
    calls: list[CallFigures] = []
    tick = 0
    shares = {number: row[3] for number, row in enumerate(BLOCK, 1)}
    for index, turn, step in model.artifact.calls():
        share = shares.get(index, (0, 0, 0.55, 0.5, 0.4))
        cycles = int(step.bound * (1.04 + 0.3 * chance.random()))
        busy = dict(zip(("MXU0", "MXU1", "VPU", "LSU", "DMA"), share, strict=True))
        ticks = {unit: int(part * cycles) for unit, part in busy.items()}
        ticks["SCALAR"] = cycles // 3
        loaded = int(ticks["DMA"] * 1.9)
        calls.append(CallFigures(index, turn, tick, tick + cycles, ticks, loaded, 1024))
        tick += cycles
    totals = {unit: sum(call.busy[unit] for call in calls) for unit in UNITS}
    return RunFigures(
        cycles=tick,
        calls=calls,
        busy=totals,
        loaded=sum(call.loaded for call in calls),
        stored=sum(call.stored for call in calls),
        instructions=tick // 3,
        lost={"dma_wait": tick // 5, "delay": tick // 3, "dependency": 0},
        activity=_activity(calls, tick, pieces),
        inputs="random, seed 0",
    )


def _activity(calls: list[CallFigures], cycles: int, pieces: int) -> Activity:
    """A ramp inside every step: DMA first, the units after it."""
    size = -(-cycles // pieces)
    busy = {unit: [0] * -(-cycles // size) for unit in UNITS}
    for call in calls:
        for unit, ticks in call.busy.items():
            share = ticks / call.cycles
            for piece in range(call.start // size, (call.end - 1) // size + 1):
                low, high = max(call.start, piece * size), min(call.end, (piece + 1) * size)
                place = ((low + high) / 2 - call.start) / call.cycles
                lean = 1.4 - 0.8 * place if unit == "DMA" else 0.6 + 0.8 * place
                busy[unit][piece] += min(int((high - low) * min(1.0, share * lean)), high - low)
    return Activity(size, busy)


def transformer_accuracy(model: AtlasModel, exact: bool = True) -> AccuracyFigures:
    chance = random.Random(9)
    layers = []
    for index, turn, step in model.artifact.calls():
        name = step.name.replace("*", str(turn))
        relative = 0.004 * (1 + turn / 4) * (0.5 + chance.random())
        scales = f"x {0.01 * (1 + turn):.4g}, w per channel 0.0004 to 0.0031"
        fp8 = "matmul" in step.kernel
        layers.append(
            LayerErrors(
                Errors(
                    name, exact or (index, turn) != (6, 3), relative * 9, relative,
                    1 - relative**2 / 2,
                ),
                index, turn,
                "x fp8, w fp8, y bf16" if fp8 else "bf16", scales if fp8 else "",
            )
        )  # fmt: skip
    last = layers[-1].errors
    return AccuracyFigures(
        exact=exact,
        outputs=[Errors("logits", exact, last.max_abs, last.relative, last.cosine)],
        layers=layers,
        against="models.smollm2:decoder in float32",
        difference="" if exact else "layers.3.self_attn: element 17 is 0x3f80, not 0x3f81",
    )


def mlp() -> AtlasModel:
    """Three steps, all tensors in DRAM, nothing on the host, never run."""
    sizes = (784, 256, 128, 10)
    regions: dict[str, Region] = {}
    steps = []
    top = 0
    for number, size in enumerate(sizes):
        kind = "input" if number == 0 else "output" if number == 3 else "activation"
        layout = Layout((1, size), "bf16")
        regions[f"v{number}"] = Region(
            f"v{number}", "dram", top, layout, kind, max(0, number - 1), min(number, 2)
        )
        top += _align(layout.bytes)
        if number:
            layout = Layout((sizes[number - 1], size), "fp8")
            regions[f"fc{number}.weight"] = Region(
                f"fc{number}.weight", "dram", top, layout, "weight", 0, 2
            )
            top += _align(layout.bytes)
            steps.append(
                kernel_step(
                    f"fc{number}", "matmul",
                    {"x": f"v{number - 1}", "w": f"fc{number}.weight", "y": f"v{number}"}, {}, 0,
                    (number - 1) * WORDS, number * WORDS, (f"linear_{number}",),
                    sizes[number - 1] * size, sizes[number - 1] * size // 2,
                )
            )  # fmt: skip
    return compiled(
        name="mlp",
        profile=load_profile("atlas-v1"),
        segments=[_program(3)],
        regions=regions,
        steps=steps,
        loops=[],
        ports={
            "x": Port("x", (1, 784), "f32", "v0"),
            "y": Port("y", (1, 10), "f32", "v3"),
        },
        inputs=("x",),
        outputs=("y",),
        parts=[on_device((0,), ("x",), ("y",))],
        weights={name: np.zeros(1, np.uint8) for name in ()},
        provenance={"compiler": "tilewright 0.1.0", "options": {}},
        phases={"import": "module {\n}"},
    )


def mlp_run(model: AtlasModel) -> RunFigures:
    """Three calls with round numbers; no activity inside of them."""
    calls = []
    tick = 0
    for index, step in enumerate(model.artifact.steps):
        cycles = step.bound * 5 // 4
        busy = {"MXU0": cycles // 10, "MXU1": cycles // 4, "VPU": 100, "DMA": step.bound,
                "LSU": cycles // 5, "SCALAR": 300}  # fmt: skip
        calls.append(CallFigures(index, 0, tick, tick + cycles, busy, 2 * step.bound, 2048))
        tick += cycles
    totals = {unit: sum(call.busy[unit] for call in calls) for unit in UNITS}
    return RunFigures(
        tick, calls, totals, sum(c.loaded for c in calls), 6144, inputs="random, seed 0"
    )
