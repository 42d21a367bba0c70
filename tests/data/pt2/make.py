"""Write the saved programs of this folder, with their inputs and what torch computes. Needs torch.

    python tests/data/pt2/make.py

The programs are those of `tests/frontend/torch_models.py`, saved by `torch.export.save`. To keep them
small and free of this machine's paths, the archive is then packed again without example inputs and
without the history of passes, and paths in stack traces are made relative.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def models() -> Any:
    spec = importlib.util.spec_from_file_location(
        "torch_models", ROOT / "tests" / "frontend" / "torch_models.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_models"] = module
    spec.loader.exec_module(module)
    return module.MODELS


def arrays(values: list[Any]) -> list[np.ndarray]:
    """Tensors as numpy arrays; bf16, which numpy files cannot name, as its 16 bits."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().clone()
            value = value.view(torch.uint16) if value.dtype == torch.bfloat16 else value
            found.append(value.numpy())
        elif value is not None:
            found.append(np.asarray(value))
    return found


def repack(source: Path, target: Path) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            if "/sample_inputs/" in info.filename or info.filename.endswith("serialization_id"):
                continue
            content = old.read(info)
            if info.filename.endswith("model.json"):
                content = slimmed(content)
            name = target.stem + info.filename[info.filename.index("/") :]
            new.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), content)


def slimmed(content: bytes) -> bytes:
    model = json.loads(content)
    for node in model["graph_module"]["graph"]["nodes"]:
        metadata = node["metadata"]
        kept = {k: metadata[k] for k in ("stack_trace", "nn_module_stack") if k in metadata}
        if "stack_trace" in kept:
            trace = kept["stack_trace"].replace(f"{ROOT}/", "")
            kept["stack_trace"] = re.sub(r'"[^"]*/(site-packages/)', r'"\1', trace)
        node["metadata"] = kept
    return json.dumps(model, separators=(",", ":")).encode()


def main() -> None:
    leaves = torch.utils._pytree.tree_leaves
    for name, factory in models().items():
        module, inputs = factory()
        with torch.no_grad():
            program = torch.export.export(module, inputs).run_decompositions({})
            state = {k: v.clone() for k, v in module.state_dict().items()}
            mutated = list(program.graph_signature.buffers_to_mutate.values())
            given = arrays([*leaves(inputs), *(state[k] for k in mutated)])
            results = leaves(module(*inputs))
            expected = arrays([*results, *(module.state_dict()[k] for k in mutated)])
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / f"{name}.pt2"
            torch.export.save(program, saved)
            repack(saved, HERE / f"{name}.pt2")
        values = {f"in_{i}": a for i, a in enumerate(given)}
        values |= {f"out_{i}": a for i, a in enumerate(expected)}
        np.savez_compressed(HERE / f"{name}.npz", allow_pickle=False, **values)
        print(name, (HERE / f"{name}.pt2").stat().st_size)


if __name__ == "__main__":
    main()
