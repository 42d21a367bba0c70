"""Live PyTorch modules; these tests run where torch is installed."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.factories import import_factory
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import (
    from_numpy,
    import_module,
    import_program,
    to_numpy,
)
from tilewright.frontend.torch_eager import as_module
from tilewright.integrations.torch_backend import compile_backend
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own deprecations


def load_models() -> Any:
    path = Path(__file__).parent / "torch_models.py"
    spec = importlib.util.spec_from_file_location("torch_models", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_models"] = module
    spec.loader.exec_module(module)
    return module


MODELS = load_models().MODELS
leaves = torch.utils._pytree.tree_leaves


def arrays(values: Any) -> list[np.ndarray]:
    found = [v for v in leaves(values) if v is not None]
    return [to_numpy(v).copy() if isinstance(v, torch.Tensor) else np.asarray(v) for v in found]


def test_the_first_import_of_a_process_decomposes_nothing_that_is_mapped() -> None:
    """The table of calls is loaded when it is first asked for, also by the very first model."""
    script = (
        "import torch\n"
        "from tilewright.frontend.torch import import_module\n"
        "module, x = torch.nn.Linear(12, 20), torch.zeros(2, 5, 12)\n"
        "texts = [str(import_module(module, (x,)).module) for _ in range(2)]\n"
        "assert texts[0] == texts[1] and 'npu_uk_reshape' not in texts[0], texts[0]\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


@pytest.mark.parametrize("name", MODELS)
def test_live_and_saved_are_the_same_module_with_torchs_values(name: str, tmp_path: Path) -> None:
    module, inputs = MODELS[name]()
    live = import_module(module, inputs)
    program = torch.export.export(module, inputs).run_decompositions({})
    torch.export.save(program, tmp_path / "saved.pt2")
    saved = read_pt2(tmp_path / "saved.pt2")
    assert str(saved.module) == str(live.module)
    assert saved.inputs == live.inputs and saved.outputs == live.outputs
    assert saved.weights.keys() == live.weights.keys()
    for key, array in live.weights.items():
        np.testing.assert_array_equal(array, saved.weights[key])
    given = arrays(inputs) + [live.weights[key].copy() for key in live.state]
    with torch.no_grad():
        expected = arrays(module(*inputs))
    expected += [to_numpy(module.state_dict()[key]) for key in live.state]
    for spec, result, wanted in zip(
        live.outputs, run(live.module, given, weights=live.weights), expected, strict=True
    ):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        tolerance = {"f32": 1e-5, "f64": 1e-6, "f16": 2e-3, "bf16": 2e-2}.get(spec.dtype, 0.0)
        wide = wanted.astype(np.float64)
        scale = np.max(np.abs(wide), initial=1.0, where=np.isfinite(wide))
        np.testing.assert_allclose(
            result.astype(np.float64), wide, tolerance, tolerance * scale, err_msg=spec.name
        )


def test_module_is_left_as_it_was() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5)).train()
    module[1].eval()
    import_module(module, (torch.randn(2, 3),))
    assert module.training and module[0].training and not module[1].training


class Lazy(torch.nn.Module):
    """Halves its weights in the first call, or in every call."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.layer, self.always, self.ready = torch.nn.Linear(4, 3), always, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.always or not self.ready:
            self.layer.weight.div_(2)
            self.ready = True
        return torch.relu_(self.layer(x))


def test_parameters_that_are_prepared_in_the_first_call() -> None:
    """What the module is after its first call is taken, and the caller's own stays as it was."""
    module, x = Lazy(False).eval(), torch.randn(2, 4)
    before = module.layer.weight.clone()
    imported = import_module(module, (x,))
    assert torch.equal(module.layer.weight, before) and not module.ready
    (got,) = run(imported.module, [x.numpy()], weights=imported.weights)
    with torch.no_grad():
        assert np.allclose(got, module(x).numpy(), atol=1e-6)
    with pytest.raises(TilewrightError) as caught:
        import_module(Lazy(True).eval(), (x,))
    assert caught.value.code == "TW6113"


def test_equal_example_inputs_stay_apart() -> None:
    """Export would merge two inputs that are one object."""

    class Difference(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a - 2 * b

    x = torch.randn(3)
    imported = import_module(Difference(), (x, x))
    a, b = np.arange(3, dtype=np.float32), np.full(3, 10, np.float32)
    (result,) = run(imported.module, [a, b])
    np.testing.assert_array_equal(result, a - 20)


def test_tied_weights_and_keyword_inputs() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(5, 4)
            self.head = torch.nn.Linear(4, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Any, scale: Any = None) -> Any:
            return self.head(self.embed(tokens) * scale)

    module = Tied()
    tokens, scale = torch.tensor([1, 4]), torch.tensor(2.0)
    imported = import_module(module, (tokens,), {"scale": scale})
    assert [s.name for s in imported.inputs] == ["tokens", "scale"]
    (result,) = run(imported.module, arrays((tokens, scale)), weights=imported.weights)
    expected = module(tokens, scale).detach().numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function, code",
    [
        (lambda x: x[x > 0], "TW6102"),
        (lambda x: x.nonzero(), "TW6102"),
        (lambda x: x + 1 if x.sum() > 0 else x - 1, "TW6102"),
        (lambda x: torch.fft.fft(x), "TW6113"),
        (lambda x: torch.linalg.qr(x)[0], "TW6101"),
        (torch.linalg.inv, "TW6101"),
        (lambda x: torch.nn.functional.dropout(x, 0.5, True), "TW6107"),
    ],
)
def test_models_that_cannot_be_imported(function: Any, code: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    with pytest.raises(TilewrightError) as caught:
        import_module(Model(), (torch.randn(4, 4),))
    assert caught.value.code == code, str(caught.value)


def test_dynamic_sizes() -> None:
    module = torch.nn.Linear(3, 4)
    size = torch.export.Dim("rows", min=2, max=9)
    program = torch.export.export(module, (torch.randn(5, 3),), dynamic_shapes=({0: size},))
    with pytest.raises(TilewrightError) as caught:
        import_program(program)
    assert caught.value.code == "TW6105" and "x3" in caught.value.message


def test_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models_for_test.py").write_text(
        "import torch\n"
        "def good():\n    return torch.nn.Linear(3, 4), (torch.randn(2, 3),)\n"
        "def named():\n    return torch.nn.Linear(3, 4), {'input': torch.randn(2, 3)}\n"
        "def lonely():\n    return torch.nn.Linear(3, 4)\n"
        "def broken():\n    return 1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert list(import_factory("my_models_for_test:good").weights) == ["weight", "bias"]
    assert import_factory("my_models_for_test:named").inputs[0].shape == (2, 3)
    for name, words in (
        ("lonely", "a pair is needed"),
        ("broken", "ZeroDivisionError"),
        ("no", "no"),
    ):
        with pytest.raises(TilewrightError) as caught:
            import_factory(f"my_models_for_test:{name}")
        assert caught.value.code == "TW6122" and words in caught.value.message
    with pytest.raises(TilewrightError, match="cannot be found"):
        import_factory("no_such_module_for_test:good")


def test_torch_compile() -> None:
    module, inputs = MODELS["mlp"]()
    compiled = torch.compile(module, backend=compile_backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)
        module.fc1.bias += 1.0  # parameters are read at every call
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float32", "int64", "bool"])
def test_tensors_to_numpy_and_back(kind: str) -> None:
    tensor = torch.arange(-4, 4).to(getattr(torch, kind))
    back = from_numpy(to_numpy(tensor))
    assert back.dtype == tensor.dtype and (back.float() == tensor.float()).all()


def test_objects_among_the_outputs_are_tables_of_their_tensors() -> None:
    """What torch.export does not know is taken apart by attribute; the module stays as it was."""

    class Layer:
        def __init__(self, keys: Any, values: Any) -> None:
            self.keys, self.values, self.length = keys, values, 3

    class Cache:
        def __init__(self, layers: list[Layer]) -> None:
            self.layers, self.owner = layers, self

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"y": x + 1, "cache": Cache([Layer(x * 2, x * 3), Layer(x * 4, x * 5)])}

    model = Model()
    x = torch.arange(6.0).reshape(2, 3)
    imported = import_module(model, (x,))
    assert [spec.name for spec in imported.outputs] == [
        "y", "cache_layers_0_keys", "cache_layers_0_values", "cache_layers_1_keys",
        "cache_layers_1_values",
    ]  # fmt: skip
    for factor, result in zip((2, 3, 4, 5), run(imported.module, [to_numpy(x)])[1:], strict=True):
        np.testing.assert_array_equal(result, to_numpy(x) * factor)
    assert isinstance(model(x)["cache"], Cache)


def test_a_number_that_is_known_stays_a_number() -> None:
    """Literals of rank 0 that are too special to stand in the text are weights of rank 0."""
    model = torch.nn.Module()
    model.forward = lambda x: torch.where(x > 0, x, torch.tensor(-math.inf))
    x = torch.tensor([1.0, -1.0])
    imported = import_module(model, (x,))
    results = run(imported.module, [to_numpy(x)], weights=imported.weights)
    np.testing.assert_array_equal(results[0], [1.0, -math.inf])


def test_hints_are_true_for_the_call_they_stand_beside(tmp_path: Path) -> None:
    """Live, torch has been asked; saved, it can be where it has simpler calls (`test_aten_calls.py`)."""
    call = torch.nn.Module()
    call.forward = lambda x: torch.linalg.qr(x)[0]
    x = torch.randn(3, 3)
    with pytest.raises(TilewrightError, match="torch does not break it up") as found:
        import_module(call, (x,))
    assert "run_decompositions({torch.ops.aten.linalg_qr.default: function})" in str(found.value)
    torch.export.save(torch.export.export(call, (x,)), tmp_path / "saved.pt2")
    with pytest.raises(TilewrightError, match=r"torch\.ops\.aten\.linalg_qr\.default: function"):
        read_pt2(tmp_path / "saved.pt2")


def test_models_that_fail_while_torch_traces_them_are_named_by_their_line() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, mask: Any = None) -> Any:
            return x * mask[:, None]

    with pytest.raises(TilewrightError, match="not subscriptable") as found:
        import_module(Model(), (torch.ones(2),))
    assert found.value.location is not None
    assert found.value.location.file.endswith("test_torch.py")


def test_norms_without_running_statistics_take_those_of_the_batch() -> None:
    """In eval mode too; with several images, one, and rows."""
    layers = [torch.nn.BatchNorm2d(3, track_running_stats=False) for _ in range(2)]
    layers += [torch.nn.BatchNorm1d(3, affine=False, track_running_stats=False)]
    shapes = [(2, 3, 4, 5), (1, 3, 4, 5), (7, 3)]
    with torch.no_grad():
        for layer in layers[:2]:
            layer.weight += torch.arange(3)
            layer.bias -= 1
    for layer, shape in zip(layers, shapes, strict=True):
        x = torch.randn(shape) * 3 + 1
        imported = import_module(layer, (x,))
        (found,) = run(imported.module, [x.numpy()], weights=imported.weights)
        np.testing.assert_allclose(found, layer.eval()(x).detach().numpy(), rtol=0, atol=2e-6)


def test_scripts_and_random_numbers_say_what_to_do() -> None:
    layer = torch.jit.script(torch.nn.Linear(3, 2))
    with pytest.raises(TilewrightError, match=r"layer 0: .* is a script") as found:
        import_module(torch.nn.Sequential(layer), (torch.ones(1, 3),))
    assert "before torch.jit.script" in str(found.value)

    class Noise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + torch.randn_like(x)

    with pytest.raises(TilewrightError, match="draws random numbers") as found:
        import_module(torch.nn.Sequential(Noise()), (torch.ones(1, 3),))
    assert found.value.code == "TW6101" and "layer 0" in str(found.value)


def test_masked_updates_name_line_and_way_out() -> None:
    class Update(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            x = x.clone()
            x[x > 0] += 1.0
            return x

    with pytest.raises(TilewrightError, match="depends on the data") as found:
        import_module(torch.nn.Sequential(Update()), (torch.randn(2, 4),))
    text = str(found.value)
    assert found.value.code == "TW6102" and "torch.where" in text and "layer 0" in text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_single_numbers_stay_single(dtype):
    """A result without dimensions has none, in any type of floats."""

    class Total(torch.nn.Module):
        def forward(self, x):
            return x.exp().sum()

    x = torch.randn(3, 5).to(getattr(torch, dtype))
    program = tw.compile(Total(), (x,))
    found = program(x)
    assert found.shape == () and found.dtype == x.dtype
    assert torch.allclose(found.float(), Total()(x).float(), rtol=0.05)


def test_functions_of_tensors_are_models() -> None:
    """Arguments keep their names, and modules that the function knows are parts of it."""
    layer, x = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Dropout()), torch.randn(2, 5)

    def scaled(rows: Any, factor: Any) -> Any:
        return torch.relu(layer(rows)) * factor

    program = tw.compile(scaled, (x, torch.ones(3)))
    assert [port.name for port in program.inputs] == ["rows", "factor"]
    layer.eval()
    want = scaled(x, torch.ones(3)).detach()
    torch.testing.assert_close(program(x, torch.ones(3)), want, atol=0.1, rtol=0.1)
    assert program.verify().ok
    assert "layer.0.weight" in import_module(as_module(torch, scaled), (x, torch.ones(3))).weights
    assert torch.equal(tw.compile(torch.relu, x.bfloat16())(x.bfloat16()), torch.relu(x.bfloat16()))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ((torch.zeros(1, 5, dtype=torch.float64),), "must have the same dtype"),
        ((torch.zeros(1, 5, dtype=torch.int64),), "must have the same dtype"),
        ((torch.zeros(1, 6),), "shapes cannot be multiplied"),
        ((1, 5), "positional arguments"),
    ],
)
def test_inputs_that_the_model_does_not_run_on(
    inputs: Any, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TilewrightError, match=said) as caught:
        import_module(torch.nn.Linear(5, 3), inputs)
    assert caught.value.code == "TW6121" and "file" not in str(caught.value.hint)
    assert capfd.readouterr().err == ""  # torch logs what it raises as well


def test_tensors_without_numbers_are_named() -> None:
    with pytest.raises(TilewrightError, match="on the device meta") as caught:
        import_module(torch.nn.Linear(5, 3, device="meta"), (torch.zeros(1, 5, device="meta"),))
    assert caught.value.code == "TW6113"
