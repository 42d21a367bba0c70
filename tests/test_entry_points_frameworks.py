"""Entry points from torch methods and jax functions, and SmolVLA as one command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.io.safetensors_file import save_safetensors

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and jax themselves
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_methods_of_a_torch_module(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Pair(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = torch.nn.Linear(48, 48)
            self.out = torch.nn.Linear(48, 16)

        def begin(self, x):
            return torch.relu(self.shared(x))

        def step(self, x, memory):
            memory = torch.relu(self.shared(x + memory))
            return self.out(memory), memory

    torch.manual_seed(0)
    module, x = Pair(), torch.randn(5, 48)
    program = tw.compile(
        {"begin": module.begin, "step": module.step},
        {"begin": (x,), "step": (x, torch.randn(5, 48))},
        state={"memory": ["begin.output", "step.memory", "step.output_1"]},
    )
    program.begin(x)
    found = [program.step(x), program.step(x)][-1]
    with torch.no_grad():
        _, memory = module.step(x, module.begin(x))
        wanted, memory = module.step(x, memory)
    assert torch.nn.functional.cosine_similarity(found.ravel(), wanted.ravel(), 0) > 0.99
    assert program.verify().ok
    program.save(tmp_path / "pair.twb")
    again = tw.load(tmp_path / "pair.twb")
    again.begin(x)
    again.step(x)
    np.testing.assert_array_equal(again.step(x).numpy(), found.numpy())


def test_memory_that_methods_change_is_one() -> None:
    """Methods that change a buffer, or read one that another changes, may not each see their own."""
    torch = pytest.importorskip("torch")

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.arange(1, 6) * 1.0)
            self.layer = torch.nn.Linear(5, 5)

        def add(self, x):
            self.n.add_(x[0])
            return self.layer(x) * self.n

        def halve(self, x):
            self.n.mul_(0.5)
            return self.layer(x) * self.n

        def read(self, x):
            return self.layer(x) * self.n

    torch.manual_seed(0)
    module, x = Counter().eval(), torch.randn(3, 5)
    given = {"add": (x,), "halve": (x,), "read": (x,)}

    def compiled(*names: str, **options):
        models = {name: getattr(module, name) for name in names}
        return tw.compile(models, {name: given[name] for name in names}, **options)

    with pytest.raises(TilewrightError, match="add changes n, which read reads") as found:
        compiled("add", "read")
    assert found.value.code == "TW0048"
    with pytest.raises(TilewrightError, match="each would have its own") as found:
        compiled("add", "halve")
    declared = json.loads(str(found.value.hint).split("state=", 1)[1])
    program = compiled("add", "halve", state=declared)
    with torch.no_grad():
        for name in ("add", "halve", "add"):
            wanted = getattr(module, name)(x).numpy()
            found_here = np.asarray(program[name](x))
            assert np.linalg.norm(found_here - wanted) < 0.05 * np.linalg.norm(wanted)
    assert program.verify().ok


def test_jax_functions_on_one_tree() -> None:
    jax = pytest.importorskip("jax")
    tree = {"w": np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 6}
    x = np.random.default_rng(1).normal(size=(4, 32)).astype(np.float32)

    def begin(weights, x):
        return jax.nn.relu(x @ weights["w"])

    def step(weights, x, memory):
        return jax.nn.relu((x + memory) @ weights["w"])

    plain = tw.compile(
        {"begin": begin, "step": step}, {"begin": (x,), "step": (x, x)}, weights=tree
    )
    begun, stepped = plain["begin"], plain["step"]
    state = {
        "memory": [
            f"begin.{begun.outputs[0].name}",
            f"step.{stepped.inputs[1].name}",
            f"step.{stepped.outputs[0].name}",
        ]
    }
    program = tw.compile(
        {"begin": begin, "step": step}, {"begin": (x,), "step": (x, x)}, weights=tree, state=state
    )
    program.begin(x)
    program.step(x)
    wanted = np.maximum((x + np.maximum(x @ tree["w"], 0)) @ tree["w"], 0)
    found = program.state["memory"]
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def test_smolvla(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A small network of the same form: two cameras, two steps, verified and close to float32."""
    pytest.importorskip("torch")
    sys.path.insert(0, str(EXAMPLES))
    try:
        import smolvla
        from smolvla_checkpoint import load_checkpoint
        from smolvla_model import SmolVLA, seeded
    finally:
        sys.path.remove(str(EXAMPLES))
    given = ["--out", str(tmp_path), "--small", "--cameras", "2", "--steps", "2", "--json"]
    assert smolvla.main(given) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["verified"] and figures["cosine"] > 0.99
    assert max(figures["host_share"].values()) < 0.01
    # A checkpoint under the published names; then one with something missing, misshapen, unknown.
    model = seeded(SmolVLA(smolvla.SMALL), 3)
    names = {
        "tower.position_embedding": "vlm_with_expert.vlm.model.vision_model.embeddings."
        "position_embedding.weight"
    }
    published = {
        f"model.{names.get(name, _published(name))}": parameter.float().numpy()
        for name, parameter in model.named_parameters()
    }
    save_safetensors(tmp_path / "model.safetensors", published)
    loaded = load_checkpoint(SmolVLA(smolvla.SMALL), tmp_path)
    for name, parameter in loaded.named_parameters():
        np.testing.assert_array_equal(
            parameter.float().numpy(), dict(model.named_parameters())[name].float().numpy()
        )
    first = sorted(published)[0]
    for changed in (
        {name: array for name, array in published.items() if name != first},
        {**published, first: np.zeros((2, 2), np.float32)},
        {**published, "model.strange": np.zeros(1, np.float32)},
    ):
        save_safetensors(tmp_path / "model.safetensors", changed)
        with pytest.raises(TilewrightError) as caught:
            load_checkpoint(SmolVLA(smolvla.SMALL), tmp_path)
        assert caught.value.code == "TW6403"


def _published(name: str) -> str:
    """Our names as the checkpoint has them, written from its side."""
    core = "vlm_with_expert."
    room, _, rest = name.partition(".")
    if room == "tower":
        if rest.startswith("patch_embedding"):
            return f"{core}vlm.model.vision_model.embeddings.{rest}"
        if rest.startswith("layers."):
            _, number, part, kind = rest.split(".")
            inner = {"fc1": "mlp.fc1", "fc2": "mlp.fc2"}.get(part)
            if part.endswith("_proj"):
                inner = f"self_attn.{part}"
            return f"{core}vlm.model.vision_model.encoder.layers.{number}.{inner or part}.{kind}"
        if rest.startswith("connector"):
            return f"{core}vlm.model.connector.modality_projection.proj.weight"
        return f"{core}vlm.model.vision_model.{rest}"
    if room in ("text", "expert"):
        number, part, kind = rest.split(".")
        inner = f"self_attn.{part}" if part in ("q_proj", "k_proj", "v_proj", "o_proj") else part
        inner = f"mlp.{part}" if part in ("gate_proj", "up_proj", "down_proj") else inner
        place = "vlm.model.text_model" if room == "text" else "lm_expert"
        return f"{core}{place}.layers.{number}.{inner}.{kind}"
    if room == "embed_tokens":
        return f"{core}vlm.model.text_model.{name}"
    if room == "expert_norm":
        return f"{core}lm_expert.norm.{rest}"
    return name
