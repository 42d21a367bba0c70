"""Complex values inside of models against torch: live, and from saved programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontend.aten_checks import Calls, check
from tilewright.errors import TilewrightError
from tilewright.frontend.torch import import_module
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own deprecations


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def real(value: Any) -> Any:
    return torch.view_as_real(value.resolve_conj())


def test_fourier_transforms(tmp_path: Path) -> None:
    """Odd and even sizes, all normalisations, several dimensions, cut and padded signals."""
    fft = torch.fft
    calls: Calls = {
        "fft": lambda x, r: real(fft.fft(x)),
        "rfft": lambda x, r: real(fft.rfft(x, norm="ortho")),
        "first dimension": lambda x, r: real(fft.fft(x, dim=0, norm="forward")),
        "padded": lambda x, r: real(fft.fft(x, n=9)),
        "irfft even": lambda x, r: fft.irfft(fft.rfft(x, norm="ortho"), norm="ortho"),
        "irfft odd": lambda x, r: fft.irfft(torch.view_as_complex(r), n=7),
        "two dimensions": lambda x, r: real(fft.rfft2(x)),
        "and back": lambda x, r: fft.irfft2(fft.rfft2(x) * 2),
        "backwards": lambda x, r: real(fft.ifft(torch.view_as_complex(r), dim=0)),
        "hermitian": lambda x, r: fft.hfft(torch.view_as_complex(r)),
        "hermitian back": lambda x, r: real(fft.ihfft(x)),
        "all": lambda x, r: real(fft.ifftn(torch.view_as_complex(r), s=(7, 4), norm="ortho")),
    }
    check(calls, (drawn(5, 6), drawn(5, 6, 2)), tmp_path)


def test_short_time_transforms() -> None:
    """torch takes them apart."""

    class Spectrum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            window = torch.hann_window(8)
            return torch.stft(x, 8, 4, window=window, return_complex=True).abs()

    x = drawn(2, 30)
    imported = import_module(Spectrum(), (x,))
    (found,) = run(imported.module, [x.numpy()], weights=imported.weights)
    np.testing.assert_allclose(found, Spectrum()(x).numpy(), rtol=0, atol=2e-6)


def test_arithmetic_and_movement(tmp_path: Path) -> None:
    """Complex with complex, with real and with numbers; parts that are zero stay away."""
    w = torch.view_as_complex(drawn(5, 6, 2).flip(0))

    def of(x: Any, r: Any) -> Any:
        return torch.view_as_complex(r)

    calls: Calls = {
        "rotation": lambda x, r: real(of(x, r) * torch.polar(torch.ones(6), torch.arange(6.0))),
        "sum and product": lambda x, r: real(of(x, r) * w + x),
        "difference": lambda x, r: real(1 - of(x, r)),
        "imaginary unit": lambda x, r: real((x * 1j).flip(0)),
        "quotient": lambda x, r: real(of(x, r) / w),
        "by a real": lambda x, r: real(of(x, r) / (x.abs() + 1)),
        "one over": lambda x, r: real(1 / of(x, r)),
        "matrices": lambda x, r: real(of(x, r) @ w.T.conj()),
        "real matrix": lambda x, r: real(of(x, r) @ x.T.to(w.dtype)),
        "power": lambda x, r: real(of(x, r) ** 3),
        "exponential": lambda x, r: real(torch.exp(of(x, r))),
        "size": lambda x, r: torch.cat([of(x, r).abs(), (of(x, r) * 1e-30).abs() * 1e30]),
        "zero and large": lambda x, r: (torch.complex(x * 0, x.sign() * 2e38)).abs() / 1e38,
        "angle": lambda x, r: of(x, r).angle(),
        "conjugate": lambda x, r: of(x, r).conj().imag,
        "joined": lambda x, r: real(torch.cat([of(x, r), x.to(w.dtype), w])),
        "chosen": lambda x, r: real(torch.where(x > 0, of(x, r), w)),
        "moved": lambda x, r: real(of(x, r).T.reshape(3, 10)[:, 1:4].unsqueeze(1).mean(0)),
    }
    check(calls, (drawn(5, 6), drawn(5, 6, 2)), tmp_path, tolerance=4e-6)


@pytest.mark.parametrize(
    "function, code, hint",
    [
        (lambda x: torch.fft.fft(x), "TW6113", "view_as_real"),
        (lambda x: torch.fft.fft(x).tan().real, "TW6101", "real and imaginary parts"),
        (lambda x: (torch.fft.fft(x) ** 0.5).real, "TW6101", "torch.abs"),
    ],
)
def test_what_stays_outside_says_so(function: Any, code: str, hint: str) -> None:
    class Transform(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    with pytest.raises(TilewrightError) as found:
        import_module(torch.nn.Sequential(Transform()), (drawn(2, 4),))
    text = str(found.value)
    assert found.value.code == code and hint in text
    assert "test_aten_complex.py" in text and "layer 0" in text


def test_complex_inputs_are_refused_with_a_way_out() -> None:
    class Model(torch.nn.Module):
        def forward(self, z: Any) -> Any:
            return z.abs()

    with pytest.raises(TilewrightError, match="view_as_complex") as found:
        import_module(Model(), (torch.ones(2, 3, dtype=torch.complex64),))
    assert found.value.code == "TW6113"
