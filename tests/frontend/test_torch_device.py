"""Torch modules on the simulated device, by `tw.compile` and by `torch.compile`."""

from __future__ import annotations

import warnings

import pytest

import tilewright as tw
from tilewright.errors import TilewrightError

torch = pytest.importorskip("torch")

from tilewright.integrations.torch_backend import compile_backend  # noqa: E402
from tilewright.integrations.torch_device import device_options, programs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(48, 64), torch.nn.ReLU(), torch.nn.Linear(64, 40))
    return torch.nn.Sequential(*layers).eval()


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), 0))


def test_tensors_in_tensors_out(model: torch.nn.Module) -> None:
    x = torch.randn(20, 48)
    program = tw.compile(model, (x,))
    y = program(x)
    assert isinstance(y, torch.Tensor) and cosine(y, model(x).detach()) > 0.998
    assert tw.compile(torch.export.export(model, (x,))).cycles == program.cycles
    by_name = tw.compile(model, {"input": x})
    assert torch.equal(by_name(input=x), y)


def test_modules_need_example_inputs(model: torch.nn.Module) -> None:
    with pytest.raises(TilewrightError) as caught:
        tw.compile(model)
    assert caught.value.code == "TW0044"


def test_torch_compile_on_the_device(model: torch.nn.Module) -> None:
    before = len(programs())
    compiled = torch.compile(model, backend=compile_backend, options={"device": True})
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in (1, 2):
            x = torch.randn(20, 48, generator=torch.Generator().manual_seed(seed))
            assert cosine(compiled(x), model(x)) > 0.998
    (program,) = programs()[before:]
    assert program.cycles > 1000 and program.model.name == "torch.compile"


def test_options_of_the_backend() -> None:
    assert device_options(None, None) is None
    assert device_options({"device": False}, "default") is None
    assert device_options({"fuse": False}, None) == {"fuse": False}
    for options, mode in (({"speed": 11}, None), (None, "max-autotune")):
        with pytest.raises(TilewrightError) as caught:
            device_options(options, mode)
        assert caught.value.code == "TW6123"


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_torch_compile_with_other_sizes(model: torch.nn.Module, device: bool, dynamic) -> None:
    """Torch makes a graph with symbols when a size changes; every size gets a program, once."""
    torch._dynamo.reset()
    before = len(programs())
    compiled = torch.compile(
        model, backend=compile_backend, options={"device": device}, dynamic=dynamic
    )
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in (5, 9, 12, 9, 5):
            x = torch.randn(batch, 48)
            assert cosine(compiled(x), model(x)) > 0.997
    if device:
        sizes = [program.inputs[0].shape[0] for program in programs()[before:]]
        assert set(sizes) == {5, 9, 12} and len(sizes) <= 4


@pytest.mark.parametrize("device", [False, True])
def test_graphs_that_return_sizes(device: bool) -> None:
    """Around a break of the graph, sizes are results: numbers, not tensors."""
    torch._dynamo.reset()

    @torch.compile(backend=compile_backend, options={"device": device}, dynamic=True)
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return torch.tanh(y) + y.shape[0], 3 * x.shape[0]

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in (6, 7):
            x = torch.randn(batch, 16)
            y, size = function(x)
            assert size == 3 * batch
            assert cosine(y, torch.tanh(torch.relu(x) * 2) + batch) > 0.999


@pytest.mark.parametrize("batch", [1, 2])
def test_products_of_one_head_each_before_attention(batch: int) -> None:
    """Weights of 16 columns for 3 heads side by side: a product of each head, not of their row."""

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = torch.nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = x.reshape(batch, 7, 3, 16)
            turned = [value.transpose(1, 2) for value in (self.query(heads), heads, heads)]
            found = torch.nn.functional.scaled_dot_product_attention(*turned)
            return found.transpose(1, 2).reshape(batch, 7, 48)

    torch.manual_seed(0)
    module, x = Attention().eval(), torch.randn(batch, 7, 48)
    program = tw.compile(module, (x,))
    assert program.verify().ok and cosine(program(x), module(x).detach()) > 0.99
