"""A published SmolVLA checkpoint (safetensors) in the network of `smolvla_model.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from smolvla_model import SmolVLA
from tilewright.errors import Location, TilewrightError
from tilewright.io.tensor_blob import read_tensors

# Published names, shortened step by step to ours.
RENAMED = (
    ("model.vlm_with_expert.", "vlm_with_expert."),
    ("vlm_with_expert.vlm.model.vision_model.embeddings.position_embedding.weight", "tower.position_embedding"),
    ("vlm_with_expert.vlm.model.vision_model.embeddings.", "tower."),
    ("vlm_with_expert.vlm.model.vision_model.encoder.", "tower."),
    ("vlm_with_expert.vlm.model.vision_model.", "tower."),
    ("vlm_with_expert.vlm.model.connector.modality_projection.proj.", "tower.connector."),
    ("vlm_with_expert.vlm.model.text_model.layers.", "text."),
    ("vlm_with_expert.vlm.model.text_model.embed_tokens.", "embed_tokens."),
    ("vlm_with_expert.lm_expert.layers.", "expert."),
    ("vlm_with_expert.lm_expert.norm.", "expert_norm."),
    (".self_attn.", "."),
    (".mlp.", "."),
    ("model.state_proj.", "state_proj."),
    ("model.action_", "action_"),
)  # fmt: skip
# What the network has and never uses: the norm and head behind the text model.
UNUSED = ("vlm_with_expert.vlm.lm_head.", "vlm_with_expert.vlm.model.text_model.norm.")


def load_checkpoint(model: SmolVLA, folder: Path) -> SmolVLA:
    """Copy the weights of a folder into the network; everything has to be there and fit."""
    path = folder / "model.safetensors"
    place = Location(str(path))
    if not path.is_file():
        raise TilewrightError("TW6401", "the folder has no model.safetensors", place)
    found, own, extra = {}, dict(model.named_parameters()), []
    for name, array in read_tensors(
        np.memmap(path, np.uint8, "r"), "the checkpoint", place
    ).items():
        short = name
        for old, new in RENAMED:
            short = short.replace(old, new)
        if short in own:
            found[short] = array
        elif not short.startswith(UNUSED) and not _beyond(short, model):
            extra.append(name)
    missing = sorted(set(own) - set(found))
    if missing or extra:
        what = f"lacks {missing[0]}" if missing else f"has {extra[0]}, which has no place here"
        raise TilewrightError("TW6403", f"the checkpoint {what}", place)
    for name, parameter in own.items():
        array = np.asarray(found[name]).astype(np.float32)
        if array.shape != tuple(parameter.shape):
            raise TilewrightError(
                "TW6403",
                f"{name} is {'x'.join(map(str, array.shape))} in the checkpoint, "
                f"{'x'.join(map(str, parameter.shape))} here",
                place,
            )
        parameter.data = torch.from_numpy(array.copy()).to(parameter.dtype)
    return model.eval().requires_grad_(False)


def _beyond(name: str, model: SmolVLA) -> bool:
    """Layers of the text model behind those that are used."""
    parts = name.split(".")
    return parts[0] == "text" and parts[1].isdigit() and int(parts[1]) >= model.sizes.layers
