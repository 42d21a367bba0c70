"""What the other machines read: ELF files, tile graphs, task lists, array designs and descriptions,
and folders of language models. Whatever is accepted is then used: run, scheduled, checked.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.files import safetensors_bytes
from fuzzing.mutations import json_text, mutated_bytes, mutated_json, mutated_text
from fuzzing.running import Keep, Subject

TESTS = Path(__file__).parents[1]
DEVICES = TESTS.parent / "src" / "tilewright" / "targets" / "xdna" / "devices"
INSTRUCTIONS = 20_000


@contextmanager
def _beside(*folders: str) -> Iterator[None]:
    """Modules of these folders of tests can be imported."""
    added = [str(TESTS / folder) for folder in folders]
    sys.path[:0] = added
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)


# --- programs of the Coral core -----------------------------------------------------------


def _elf_files() -> list[bytes]:
    with _beside("targets/coral"):
        import coral_programs as made  # pyright: ignore[reportMissingImports]
        from oracle_programs import make_batch  # pyright: ignore[reportMissingImports]

    data = 0x10000
    symbols = {
        "_start": (0, 0, 0), "main": (4, 16, 2), "op_0": (8, 8, 2), "input_0": (data, 4, 1),
        "output_0": (data + 4, 4, 1), "_ret": (data + 8, 0, 0),
        "__stack_bottom": (data + 64, 0, 0), "__stack_top": (data + 4096, 0, 0),
    }  # fmt: skip
    words = [
        made.lui(5, data),
        made.lw(6, 5),
        made.addi(6, 6, 1),
        made.sw(6, 5, 4),
        made.sw(0, 5, 8),
    ]
    loop = [made.addi(5, 0, 100), made.addi(5, 5, -1), made.beq(5, 0, 8), made.jal(0, -8)]
    vector = [
        made.addi(5, 0, 64),
        made.vsetvli(6, 5, 0),
        made.csrrs(7, 0xC22),
        made.csrrw(0, 0x340, 5),
    ]
    files = [
        made.elf_file([*body, made.MPAUSE], bytes(16), symbols) for body in (words, loop, vector)
    ]
    for seed in range(4):
        batch = make_batch(seed, 2)
        files.append(made.elf_file([*batch.code[:1500], made.MPAUSE], bytes(64), symbols))
    return files


def _run_elf(files: list[bytes], choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.coral.disassembly import listing
    from tilewright.targets.coral.elf import parse_elf
    from tilewright.targets.coral.machines import MACHINES, machine_named
    from tilewright.targets.coral.scan import scan
    from tilewright.targets.coral.simulator import CoralSimulator, RunOptions

    content = bytearray(choose.choice(files))
    for _ in range(choose.choice((0, 1, 1, 2))):  # a field of the headers
        at = 4 * choose.randrange(min(52 + 64, len(content)) // 4)
        value = choose.choice(
            (0, 1, 3, 52, 255, 0xFFFF, 0x10000, 1 << 31, 0xFFFFFFFF, len(content))
        )
        struct.pack_into("<I", content, at, value)
    damaged = (
        bytes(content) if choose.random() < 0.4 else mutated_bytes(bytes(content), choose, files)
    )
    elf = parse_elf(keep.bytes(damaged, ".elf"), "program.elf")
    machine = machine_named(choose.choice(sorted(MACHINES)))
    for _ in zip(listing(elf), range(3000), strict=False):
        pass
    scan(elf, machine)
    options = RunOptions(
        timing=choose.random() < 0.7,
        trap=choose.choice(("stop", "vector")),
        agnostic_ones=choose.random() < 0.3,
        check_uninitialised=choose.random() < 0.3,
        check_readonly=choose.random() < 0.3,
        check_fused=choose.random() < 0.3,
    )
    simulator = CoralSimulator(elf, machine, options)
    simulator.write("input_0", choose.randbytes(4))
    outcome = simulator.run(INSTRUCTIONS)
    json.dumps(outcome.to_json())
    simulator.profile()
    simulator.read("output_0")


# --- graphs and task lists of the VPU -----------------------------------------------------


@dataclass
class _Lists:
    graphs: list[Any]
    lists: list[Any]
    binaries: list[bytes]
    texts: list[str]


def _lists() -> _Lists:
    with _beside("targets/vpu"):
        import vpu_graphs  # pyright: ignore[reportMissingImports]
    from tilewright.dialects.printing import print_module
    from tilewright.targets.vpu.graph_file import graph_json
    from tilewright.targets.vpu.list_file import list_binary, list_json
    from tilewright.targets.vpu.schedule_text import schedule_module
    from tilewright.targets.vpu.scheduling.schedule import portfolio

    graphs = [vpu_graphs.spilling(), vpu_graphs.spilling(in_place=True), vpu_graphs.three_engines()]
    graphs += [vpu_graphs.random_graph(seed, 6 + 3 * seed) for seed in range(4)]
    made = [portfolio(graph, local_search=False) for graph in graphs]
    return _Lists(
        [graph_json(graph) for graph in graphs],
        [list_json(one.tasks) for one in made],
        [list_binary(one.tasks) for one in made],
        [print_module(schedule_module(one)) for one in made],
    )


def _run_graph(seeds: _Lists, choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.vpu.checker.verify import verify
    from tilewright.targets.vpu.graph_file import read_graph
    from tilewright.targets.vpu.scheduling.schedule import portfolio

    document = mutated_json(choose.choice(seeds.graphs), choose)
    graph = read_graph(keep.file(json_text(document, choose), "graph.json"))
    if len(graph.tasks) <= 60:
        made = portfolio(graph, local_search=False)
        assert not verify(made.tasks, graph), "the schedule of an accepted graph does not hold"


def _run_list(seeds: _Lists, choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.vpu.address_edges import address_edges
    from tilewright.targets.vpu.checker.verify import verify
    from tilewright.targets.vpu.list_file import list_binary, list_text, read_list

    if choose.random() < 0.3:
        path = keep.file(
            mutated_bytes(choose.choice(seeds.binaries), choose, seeds.binaries), "a.bin"
        )
    else:
        document = mutated_json(choose.choice(seeds.lists), choose)
        path = keep.file(json_text(document, choose), "list.json")
    tasks = read_list(path)
    list_text(tasks)
    list_binary(tasks)
    if len(tasks.tasks) <= 200:
        for finding in verify(tasks, None, jitter=choose.choice((0, 2))):
            json.dumps(finding.to_json())
        address_edges([(task.reads, task.writes) for task in tasks.tasks.values()])


def _run_schedule_text(seeds: _Lists, choose: random.Random, keep: Keep) -> None:
    from tilewright.dialects.parsing import parse_text
    from tilewright.dialects.verification import verify_module
    from tilewright.targets.vpu.machine import preset
    from tilewright.targets.vpu.schedule_text import read_schedule

    text = keep.text(mutated_text(choose.choice(seeds.texts), choose, seeds.texts), ".mlir")
    module = parse_text(text)
    verify_module(module)
    read_schedule(module, replace(preset("tiny"), cmx_bytes=1982464))


def _machine_files() -> list[Any]:
    small = {"preset": "vpu40", "cmx_bytes": 1982464, "barriers": 8, "slots": 4, "dma_ports": 1}
    from tilewright.targets.vpu.machine import PRESETS, preset

    return [small] * 4 + [*(preset(name).to_json() for name in sorted(PRESETS))]


def _run_machine(files: list[Any], choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.vpu.machine import read_machine
    from tilewright.targets.vpu.scheduling.schedule import portfolio

    with _beside("targets/vpu"):
        import vpu_graphs  # pyright: ignore[reportMissingImports]
    document = mutated_json(choose.choice(files), choose)
    machine = read_machine(keep.file(json_text(document, choose), "machine.json"))
    portfolio(replace(vpu_graphs.spilling(), machine=machine), local_search=False)


# --- designs and descriptions of the XDNA array -------------------------------------------


def _designs() -> list[str]:
    with _beside("targets/xdna"):
        import test_xdna_text as made  # pyright: ignore[reportMissingImports]
    from tilewright.targets.xdna.gemm import plan_gemm
    from tilewright.targets.xdna.mlir_emit import SYNTAXES, emit_mlir

    texts = [made.BY_HAND] * 4
    for number, options in enumerate(made.DESIGNS.values()):
        design = plan_gemm(96, 64, 96, **options)
        texts.append(emit_mlir(design, SYNTAXES[number % len(SYNTAXES)]))
    return texts


def _run_design(texts: list[str], choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.xdna.checker import check_design
    from tilewright.targets.xdna.mlir_emit import emit_mlir
    from tilewright.targets.xdna.mlir_parse import parse_design
    from tilewright.targets.xdna.report import values_agree

    text = keep.text(mutated_text(choose.choice(texts), choose, texts), ".mlir")
    design = parse_design(text, "design.mlir")
    checks = check_design(design)
    json.dumps([check.to_json() for check in checks])
    if all(check.ok for check in checks):
        assert parse_design(emit_mlir(design)) == design
        if design.gemm is not None:
            values_agree(design)


def _device_texts() -> list[str]:
    texts = [path.read_text() for path in sorted(DEVICES.glob("*.toml"))]
    small = 'base = "npu2"\nname = "mine"\ncolumns = 4\n[dram]\nbandwidth = 40e9\n'
    return [*texts, small, small]


def _run_device(texts: list[str], choose: random.Random, keep: Keep) -> None:
    from tilewright.targets.xdna.checker import check_design
    from tilewright.targets.xdna.device import load_device
    from tilewright.targets.xdna.gemm import plan_gemm

    device = load_device(keep.file(mutated_text(choose.choice(texts), choose, texts), "mine.toml"))
    check_design(plan_gemm(70, 64, 40, device=device, tile=(16, 32, 16), policy="wide_k"))


# --- folders of language models -----------------------------------------------------------

CONFIG = {
    "model_type": "llama", "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64,
    "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 2, "bos_token_id": 1,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
}  # fmt: skip


def _weights() -> tuple[dict[str, Any], bytes]:
    """Header and data of the weights of this configuration, as bf16."""
    shapes = {"model.embed_tokens.weight": (20, 16), "model.norm.weight": (16,)}
    layer = {
        "input_layernorm": (16,), "post_attention_layernorm": (16,), "self_attn.q_proj": (16, 16),
        "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16), "self_attn.o_proj": (16, 16),
        "mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16), "mlp.down_proj": (16, 24),
    }  # fmt: skip
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return header, np.random.default_rng(0).integers(0x3C00, 0x3F00, at // 2, np.uint16).tobytes()


def _run_folder(weights: tuple[dict[str, Any], bytes], choose: random.Random, keep: Keep) -> None:
    from tilewright.frontend.decoder import decoder, head
    from tilewright.frontend.decoder_folder import read_decoder

    header, data = weights
    config: Any = dict(
        CONFIG, model_type=choose.choice(("llama", "llama", "qwen2", "qwen3", "gemma"))
    )
    if choose.random() < 0.5:
        del config["rope_scaling"]
    if choose.random() < 0.3:
        header = mutated_json(header, choose)
    else:
        config = mutated_json(config, choose)
    written = json.dumps(header).encode("utf-8", "surrogatepass")
    (keep.folder / "model.safetensors").write_bytes(safetensors_bytes(written, data))
    keep.file(json_text(config, choose), "config.json")
    found, tensors = read_decoder(keep.folder)
    capacity = choose.choice((8, 16))
    decoder(found, tensors, 4, capacity, 1, 16)
    head(found, tensors, 1)


SUBJECTS = [
    Subject("elf", _elf_files, _run_elf),
    Subject("vpu-graph", _lists, _run_graph),
    Subject("vpu-list", _lists, _run_list),
    Subject("vpu-text", _lists, _run_schedule_text),
    Subject("vpu-machine", _machine_files, _run_machine),
    Subject("design", _designs, _run_design),
    Subject("array", _device_texts, _run_device),
    Subject("folder", _weights, _run_folder),
]
