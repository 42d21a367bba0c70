"""Write a folder with a tiny language model of seeded weights, as Hugging Face's folders are.

python examples/tiny_language_model.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tilewright.errors import Location
from tilewright.frontend.decoder import drawn_weights
from tilewright.frontend.decoder_config import config_of
from tilewright.io.safetensors_file import save_safetensors

TABLE = {
    "model_type": "llama",
    "vocab_size": 61,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "tie_word_embeddings": False,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TABLE, indent=1))
    weights = drawn_weights(config_of(TABLE, Location("config.json")))
    save_safetensors(folder / "model.safetensors", weights)
    print(f"wrote {len(weights)} tensors to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tiny"))
