"""What newcomers type first, with the libraries' defaults: compiled, run, verified, and compared with
the framework's own float32 result. `make frameworks` runs it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cli import main
from tilewright.program import Program

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
LEAST = 0.995  # the cosine with float32; single layers of fp8 have 0.998 and more


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleDict(parts)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self.parts, *inputs)


class Lora(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.down = nn.Linear(64, 64), nn.Linear(64, 8, bias=False)
        self.up = nn.Linear(8, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2.0 * self.up(self.down(x))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(100, 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.mix(self.embed(ids))))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Tower(nn.Module):
    """Identical layers with skips, whose first value and last are read once more behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32)) for _ in range(4)
        )
        self.head = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for layer in self.layers:
            y = y + layer(y)
        return self.head(y) + x


class SqueezeExcite(nn.Module):
    """As in MobileNetV3: hard-swish, a depthwise convolution, a gate of means."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.enter = nn.Conv2d(16, channels, 1)
        self.depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.down, self.up = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)
        self.leave = nn.Conv2d(channels, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.depth(nn.functional.hardswish(self.enter(x))))
        gate = self.up(torch.relu(self.down(nn.functional.adaptive_avg_pool2d(y, 1))))
        return x + self.leave(y * nn.functional.hardsigmoid(gate))


class Rotated(nn.Module):
    """Positions far from the beginning, turned into angles when the model runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(32) / 32))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angles = positions[..., None].float() * self.frequencies
        return self.layer(x * torch.cat([angles.cos(), angles.sin()], -1))


def attend(parts: Any, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
    return parts["a"](x, x, x, key_padding_mask=padding, need_weights=False)[0]


def decode(parts: Any, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return parts["d"](x, memory, tgt_mask=causal)


def running_sums(parts: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.relu(x)
    return torch.cumsum(y.unsqueeze(0), 1), y


MODELS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10)),
        normal(8, 20),
    ),
    "one example": lambda: (
        nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 40)), normal(20),
    ),
    "digits": lambda: (
        nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10),
                      nn.LogSoftmax(1)),
        normal(4, 1, 28, 28),
    ),
    "embedding": lambda: (
        nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 32)), torch.randint(0, 50, (2, 7)),
    ),
    "attention": lambda: (nn.MultiheadAttention(64, 4), *(normal(10, 2, 64),) * 3),
    "attention, batch first": lambda: (
        nn.MultiheadAttention(64, 4, batch_first=True), normal(2, 10, 64), *(normal(2, 12, 64),) * 2,
    ),
    "self attention": lambda: (
        Calls(lambda p, x: p["a"](x, x, x), a=nn.MultiheadAttention(64, 4, batch_first=True)),
        normal(2, 10, 64),
    ),
    "padding mask": lambda: (
        Calls(attend, a=nn.MultiheadAttention(64, 4, batch_first=True)),
        normal(2, 10, 64), torch.arange(10)[None] >= torch.tensor([[7], [10]]),
    ),
    "scaled dot product": lambda: (
        Calls(lambda p, q, k, v: nn.functional.scaled_dot_product_attention(q, k, v)),
        *(normal(1, 4, 20, 32) for _ in range(3)),
    ),
    "causal attention": lambda: (
        Calls(lambda p, q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
        *(normal(1, 4, 20, 32) for _ in range(3)),
    ),
    "einsum": lambda: (
        Calls(lambda p, q, k: torch.einsum("bhqd,bhkd->bhqk", q, k)),
        normal(2, 3, 10, 16), normal(2, 3, 12, 16),
    ),
    "encoder layer": lambda: (nn.TransformerEncoderLayer(64, 4), normal(10, 2, 64)),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2),
        normal(2, 10, 64),
    ),
    "decoder layer": lambda: (
        nn.TransformerDecoderLayer(64, 4, 128), normal(10, 2, 64), normal(12, 2, 64),
    ),
    "causal decoder": lambda: (
        Calls(decode, d=nn.TransformerDecoderLayer(64, 4, 128, batch_first=True)),
        normal(2, 10, 64), normal(2, 12, 64),
    ),
    "transformer": lambda: (nn.Transformer(64, 4, 1, 1, 128), normal(10, 2, 64), normal(7, 2, 64)),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.Linear(32, 40)),
        normal(1, 3, 24, 24),
    ),
    "group norm": lambda: (
        nn.Sequential(nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.SiLU(), nn.AvgPool2d(2)),
        normal(2, 3, 18, 18),
    ),
    "residual blocks": lambda: (
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Residual(16), Residual(16)),
        normal(1, 3, 12, 12),
    ),
    "squeeze and excite": lambda: (
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), SqueezeExcite(), SqueezeExcite()),
        normal(1, 3, 10, 10),
    ),
    "conv1d": lambda: (
        nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 8, 3)),
        normal(2, 8, 30),
    ),
    "recurrent": lambda: (nn.GRU(16, 16), normal(3, 2, 16)),
    "one step of an lstm": lambda: (nn.LSTMCell(16, 24), normal(2, 16)),
    "bilinear": lambda: (nn.Bilinear(20, 24, 16), normal(5, 20), normal(5, 24)),
    "bags of equal length": lambda: (nn.EmbeddingBag(50, 32), torch.randint(0, 50, (4, 6))),
    "bags": lambda: (
        Calls(lambda p, i, o: p["e"](i, o), e=nn.EmbeddingBag(50, 32, mode="sum", padding_idx=3)),
        torch.tensor([3, 9, 49, 0, 3, 7, 7, 21, 3]), torch.tensor([0, 2, 2, 7]),
    ),
    "tower": lambda: (Tower(), normal(9, 32)),
    "lora": lambda: (Lora(), normal(2, 9, 64)),
    "tied weights": lambda: (Tied(), torch.randint(0, 100, (2, 7))),
    "positions": lambda: (
        Rotated(), normal(2, 9, 64), torch.arange(9)[None] * 450 + torch.tensor([[0], [17]]),
    ),
    "views": lambda: (Calls(running_sums), normal(5, 8)),
    "expand": lambda: (Calls(lambda p, x: x.expand(5, 8) * 2), normal(1, 8)),
}  # fmt: skip


def outputs_of(result: Any) -> list[np.ndarray]:
    results = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(r.detach() if hasattr(r, "detach") else r) for r in results]


def check(program: Program, inputs: Any, wanted: Any, least: float = LEAST) -> None:
    """Run, verify, and compare with what the framework computes."""
    found, wanted = outputs_of(program(*inputs)), outputs_of(wanted)
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.shape == expected.shape
        a, b = (x.astype(np.float64).reshape(-1) for x in (actual, expected))
        assert a @ b >= least * np.linalg.norm(a) * np.linalg.norm(b)
        assert np.linalg.norm(a - b) <= 0.15 * np.linalg.norm(b)
    result = program.verify(dict(zip((p.name for p in program.inputs), inputs, strict=True)))
    assert result.ok, result.text()
    assert program.verify(seed=1).ok  # inputs of its own, as the model takes them


@pytest.mark.parametrize("name", MODELS)
def test_modules_of_torch(name: str) -> None:
    torch.manual_seed(0)
    model, *inputs = MODELS[name]()
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = tw.compile(model, tuple(inputs))
        wanted = model(*inputs)
    arrays = [x.numpy() for x in inputs]
    check(program, arrays, wanted)


def test_torch_compile() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 40)).eval()
    for options in (None, {"device": True}):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="tilewright", options=options)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in (5, 9, 12):
                x = normal(batch, 32)
                a, b = compiled(x).flatten(), model(x).flatten()
                assert float(a @ b) >= LEAST * float(a.norm() * b.norm())


# --- JAX ----------------------------------------------------------------------------------


def test_a_function_of_jax() -> None:
    jax = pytest.importorskip("jax")
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    weights = [
        jax.random.normal(k, s) / 8 for k, s in zip(keys, ((64, 64), (64, 48)), strict=False)
    ]

    def function(x: Any) -> Any:
        return jax.nn.softmax(jax.nn.gelu(x @ weights[0]) @ weights[1] * 3.0)

    x = np.asarray(jax.random.normal(keys[3], (20, 64)))
    check(tw.compile(function, (x,)), [x], function(x))


def test_a_square_and_a_column_in_jax() -> None:
    """On a square nothing but the map tells a column from a row."""
    jax = pytest.importorskip("jax")
    column = np.arange(40, dtype=np.float32) - 20

    def function(x: Any) -> Any:
        return jax.nn.relu(x) + column[:, None]

    x = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    check(tw.compile(function, (x,)), [x], function(x), 0.9999)


def test_vmap_of_jax() -> None:
    """A function of one example, mapped over a batch."""
    jax = pytest.importorskip("jax")
    w = np.random.default_rng(0).standard_normal((24, 40)).astype(np.float32) / 5

    def function(x: Any) -> Any:
        return jax.nn.softmax(x @ w * 2.0) - jax.numpy.tanh(x).sum()

    x = np.random.default_rng(1).standard_normal((7, 24)).astype(np.float32)
    check(tw.compile(jax.vmap(function), (x,)), [x], jax.vmap(function)(x))


def test_gemm_of_an_onnx_file(tmp_path: Path) -> None:
    """As converters of classical models write it: transposed, with factors, then a label and scores."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(0)
    weights = random.standard_normal((5, 24)).astype(np.float32)
    bias = random.standard_normal(5).astype(np.float32)
    helper, kinds = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["raw"], transB=1, alpha=0.5, beta=2.0),
            helper.make_node("Softmax", ["raw"], ["scores"], axis=1),
            helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        ],
        "classifier",
        [helper.make_tensor_value_info("x", kinds.FLOAT, [9, 24])],
        [
            helper.make_tensor_value_info("label", kinds.INT64, [9]),
            helper.make_tensor_value_info("scores", kinds.FLOAT, [9, 5]),
        ],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "classifier.onnx")
    x = random.standard_normal((9, 24)).astype(np.float32)
    session = runtime.InferenceSession(tmp_path / "classifier.onnx")
    program = tw.compile(str(tmp_path / "classifier.onnx"))
    check(program, [x], session.run(None, {"x": x}))


def test_a_module_of_flax() -> None:
    jax, linen = pytest.importorskip("jax"), pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.Dense(64)(x))
            return linen.Dense(40)(linen.LayerNorm()(x))

    x = np.random.default_rng(0).standard_normal((9, 32)).astype(np.float32)
    net = Net()
    weights = net.init(jax.random.PRNGKey(0), x)
    check(tw.compile(net.apply, (x,), weights=weights), [x], net.apply(weights, x))


# --- the command line -----------------------------------------------------------------------

FACTORIES = """
import torch

def mlp():
    torch.manual_seed(0)
    layers = torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 40)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(8, 20),)

def lookup():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 32), torch.nn.Linear(32, 32))
    return model.eval(), (torch.randint(0, 50, (2, 7)),)

def wave():
    import jax.numpy as jnp
    import numpy as np
    x = np.random.default_rng(0).standard_normal((9, 32)).astype(np.float32)
    return (lambda x: jnp.tanh(x) * 2 + 1), (x,)
"""


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    out = capsys.readouterr()
    return int(caught.value.code or 0), out.out + out.err


@pytest.mark.parametrize("source", ["mlp", "lookup", "wave", "onnx", "pt2"])
def test_the_command_line(source, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    (tmp_path / "my_models.py").write_text(FACTORIES)
    model = f"my_models:{source}"
    if source == "wave":
        pytest.importorskip("jax")
    if source in ("onnx", "pt2"):
        model = f"model.{source}"
        module, inputs = (
            nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 9)),
            normal(8, 20),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if source == "onnx":
                pytest.importorskip("onnx")
                torch.onnx.export(module.eval(), (inputs,), model, dynamo=False)
            else:
                torch.export.save(torch.export.export(module.eval(), (inputs,)), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = (
            ("import", model, "--check"),
            ("compile", model, "-o", "model.twb"),
            ("run", "model.twb", "--seed", "0"),
            ("verify", "model.twb", "--model", model),
            ("lint", "model.twb"),
            ("disasm", "model.twb"),
            ("sim", "model.twb"),
            ("report", "model.twb", "-o", "model.html"),
        )
        for step in steps:
            status, text = command(capsys, *step)
            assert status == 0, (step, text)
        status, text = command(capsys, "verify", "model.twb", "--model", model, "--json")
        document = json.loads(text[text.index("{") :])
        assert status == 0 and document["outputs"][0]["close"]
