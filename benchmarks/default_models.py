"""Models as their libraries make them when nothing is asked for: BERT, GPT-2, ViT, CLIP, Whisper,
wav2vec2, SegFormer, ResNet-50 and others, of full size.

    python benchmarks/default_models.py                            all of them
    python benchmarks/default_models.py --only bert --only whisper
    python benchmarks/default_models.py --json > rows.jsonl        a line for every model
    python benchmarks/default_models.py --table rows.jsonl         results/default_models.md of many runs

Configurations are the libraries' defaults, weights what their constructors draw from a seed. Every model
is compiled, run and verified in a process of its own. Needs torch, transformers, timm and torchvision.
The exit code is 1 if a value was wrong or a model was not compiled.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measured import FIGURES, cells, figures, in_a_process, measure
from zoo_models import library

RESULTS = Path(__file__).parent / "results" / "default_models.md"
Made = tuple[Any, tuple[Any, ...]]  # a module and its inputs


def tokens(count: int, vocabulary: int) -> Any:
    return library("torch").randint(0, vocabulary, (1, count))


def numbers(*shape: int) -> Any:
    return library("torch").randn(shape)


def text(name: str, count: int, part: str | None = None) -> Callable[[], Made]:
    """A model of transformers over so many tokens; part: of it alone."""

    def make() -> Made:
        transformers = library("transformers")
        kind = getattr(transformers, name)
        model = kind(kind.config_class())
        vocabulary = model.config.get_text_config().vocab_size
        return (getattr(model, part) if part else model), (tokens(count, vocabulary),)

    return make


def sensed(name: str, *shape: int, part: str | None = None) -> Callable[[], Made]:
    """A model of transformers over images or sounds."""

    def make() -> Made:
        kind = getattr(library("transformers"), name)
        model = kind(kind.config_class())
        return (getattr(model, part) if part else model), (numbers(*shape),)

    return make


def vision(name: str, size: int = 224) -> Callable[[], Made]:
    """A network of torchvision."""

    def make() -> Made:
        return getattr(library("torchvision").models, name)(weights=None), (
            numbers(1, 3, size, size),
        )

    return make


def timm(name: str, size: int = 224) -> Callable[[], Made]:
    return lambda: (library("timm").create_model(name), (numbers(1, 3, size, size),))


MODELS: dict[str, Callable[[], Made]] = {
    "BERT": text("BertModel", 128),
    "RoBERTa": text("RobertaForSequenceClassification", 77),
    "GPT-2": text("GPT2LMHeadModel", 64),
    "OPT": text("OPTForCausalLM", 32),
    "T5 encoder": text("T5EncoderModel", 60),
    "CLIP text": text("CLIPTextModel", 77),
    "ViT": sensed("ViTForImageClassification", 1, 3, 224, 224),
    "CLIP vision": sensed("CLIPVisionModel", 1, 3, 224, 224),
    "DINOv2": sensed("Dinov2Model", 1, 3, 224, 224),
    "Swin": sensed("SwinModel", 1, 3, 224, 224),
    "SegFormer": sensed("SegformerForSemanticSegmentation", 1, 3, 224, 224),
    "MobileViT": sensed("MobileViTModel", 1, 3, 256, 256),
    "Whisper encoder": sensed("WhisperModel", 1, 80, 3000, part="encoder"),
    "wav2vec2": sensed("Wav2Vec2Model", 1, 16000),
    "ResNet-50": vision("resnet50"),
    "VGG-16": vision("vgg16"),
    "DenseNet-121": vision("densenet121"),
    "EfficientNetV2-S": timm("efficientnetv2_rw_s"),
}


def measured(name: str, target: str) -> dict[str, Any]:
    from zoo_models.image_models import compiled_operators

    compiled_operators()
    library("torch").manual_seed(0)
    model, inputs = MODELS[name]()
    return {"model": name, **measure(model.eval(), inputs, target)}


def row(found: dict[str, Any]) -> tuple[str, ...]:
    if "error" in found:
        return (found["model"], *[""] * len(FIGURES), found["error"])
    most = list(found["kernels"].items())[:4]
    return (found["model"], *figures(found), ", ".join(f"{k} {c:,}" for k, c in most))


def table(rows: list[dict[str, Any]]) -> str:
    """The page of results; of a model with several rows the last counts."""
    last = {found["model"]: found for found in rows}
    chosen = [last[name] for name in MODELS if name in last]
    dates = ", ".join(sorted({found["date"] for found in chosen if "date" in found}))
    lines = cells([("model", *FIGURES, "most cycles by kernel"), *map(row, chosen)])
    return (
        "# Models as libraries make them\n\n"
        f"`python benchmarks/default_models.py`, Python {platform.python_version()}, {dates}, atlas-v1. "
        "Configurations and weights are those\nof constructors without arguments. Seconds are of processor "
        "time, of import and compilation; `exact` is against the quantised\nreference, `cosine` that of the "
        f"outputs with float32, `host` the host's share of the arithmetic.\n\n{lines}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="names that contain this")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every model")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULTS.name}")
    parser.add_argument("--table", nargs="+", metavar="ROWS", help="write the table of these rows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.target)))
        return 0
    if options.table:
        lines = [line for path in options.table for line in Path(path).read_text().splitlines()]
        RESULTS.write_text(table([json.loads(line) for line in lines if line.startswith("{")]))
        return 0
    wanted = [text.lower() for text in options.only]
    names = [n for n in MODELS if not wanted or any(text in n.lower() for text in wanted)]
    if not names:
        parser.error(f"no model has {options.only} in its name: {', '.join(MODELS)}")
    rows = []
    for name in names:
        arguments = ("--one", name, "--target", options.target)
        rows.append({"model": name, **in_a_process(__file__, arguments)})
        print(json.dumps(rows[-1]) if options.json else " | ".join(row(rows[-1])), flush=True)
    if options.write:
        RESULTS.write_text(table(rows))
    return int(any("error" in found or not found["exact"] for found in rows))


if __name__ == "__main__":
    sys.exit(main())
