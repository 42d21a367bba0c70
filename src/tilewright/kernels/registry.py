"""The kernel library by name. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.kernels.references import Reference
    from tilewright.targets.atlas.profile import Profile
    from tilewright.tile import Compiled, Kernel

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Entry:
    """One kernel of the library.

    sizes: defaults for its named sizes. multiples: sizes that must be multiples of a number.
    data: how to make an input for tests, by parameter name ("normal" where nothing is said).
    related: sizes depend on each other, as those of a window do.
    """

    name: str
    module: str
    sizes: Mapping[str, int]
    multiples: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    related: bool = False

    @property
    def kernel(self) -> Kernel:
        return getattr(importlib.import_module(f"tilewright.kernels.{self.module}"), self.name)

    @property
    def doc(self) -> str:
        return (self.kernel.__doc__ or "").strip()

    @property
    def operator(self) -> str:
        return self.name

    @property
    def inputs(self) -> list[str]:
        kernel = self.kernel
        return [name for name in kernel.specs if name not in kernel.outputs]

    @property
    def reference(self) -> Reference:
        return _references()[self.name]

    def signature(self) -> str:
        """`a: fp8[M, K], b: fp8[K, N] -> out: bf16[M, N]`"""
        kernel = self.kernel

        def shown(name: str) -> str:
            spec = kernel.specs[name]
            order = "" if spec.order == "tiles" else f" in {spec.order}"
            return f"{name}: {spec.dtype}[{', '.join(map(str, spec.sizes))}]{order}"

        inputs = ", ".join(map(shown, self.inputs))
        return f"{inputs} -> {', '.join(map(shown, kernel.outputs))}"

    def shapes(self, sizes: Mapping[str, int] | None = None) -> Shapes:
        """The shapes of all parameters for these sizes, defaults for the others."""
        chosen = {**self.sizes, **(sizes or {})}
        for name, value in chosen.items():
            if name not in self.sizes:
                known = ", ".join(self.sizes)
                raise TilewrightError(
                    "TW0052", f"kernel {self.name} has no size {name}", hint=f"sizes are {known}"
                )
            step = self.multiples.get(name, 1)
            if value < 1 or value % step:
                want = "positive" if step == 1 else f"a multiple of {step}"
                raise TilewrightError("TW0053", f"{name} of {self.name} is {value}, must be {want}")
        return {
            name: tuple(s if isinstance(s, int) else chosen[s] for s in spec.sizes)
            for name, spec in self.kernel.specs.items()
        }

    def build(
        self,
        profile: str | Profile = "atlas-v1",
        sizes: Mapping[str, int] | None = None,
        exact: bool = False,
    ) -> Compiled:
        """The compiled kernel; with `exact`, a solver looks at short ones."""
        shapes: dict[str, Any] = dict(self.shapes(sizes))
        return self.kernel.compile(profile, exact=exact, **shapes)

    def sample(self, sizes: Mapping[str, int] | None = None, seed: int = 0) -> list[np.ndarray]:
        """Inputs for a test, as bit patterns."""
        from tilewright.tile.layouts import to_codes

        shapes = self.shapes(sizes)
        random = np.random.default_rng(seed)
        arrays = []
        for name in self.inputs:
            spec = self.kernel.specs[name]
            values = _random(random, self.data.get(name, "normal"), shapes[name], spec.dtype)
            if spec.order == "halves":
                values = np.repeat(values[:, :1], values.shape[1], axis=1)
            arrays.append(to_codes(values, spec.dtype))
        return arrays


def _random(
    random: np.random.Generator, kind: str, shape: tuple[int, ...], dtype: str
) -> np.ndarray:
    values = random.normal(size=shape)
    if kind == "positive":
        return np.abs(values) + 0.1
    if kind == "away from zero":
        return np.where(np.abs(values) < 0.25, 0.5, values)
    if kind == "half":
        return values * 0.5
    if kind == "mask":
        hidden = random.random(shape) < 0.3
        hidden[0] |= len(shape) == 2  # one row sees nothing
        return np.where(hidden, -3.0e38, 0.0)
    if kind == "small integers":
        return random.integers(-4, 4, shape).astype(np.float64)
    if kind == "angles":
        return np.cos(values)
    if dtype == "fp8" and kind == "normal":
        return random.integers(-8, 8, shape).astype(np.float64)
    return values


def _group(module: str, names: str, sizes: Mapping[str, int], **more: Any) -> list[Entry]:
    return [Entry(name, module, sizes, **more) for name in names.split()]


_MN = {"M": 32, "N": 32}
_MKN = {"M": 32, "K": 32, "N": 32}
_HEADS = {"G": 1, "R": 1, "M": 32, "N": 64, "D": 64, "E": 64}

_ENTRIES: list[Entry] = [
    *_group("matmul", "matmul matmul_transposed matmul_bias linear linear_gelu", _MKN),
    *_group("matmul", "linear_silu linear_residual matmul_requant mini_block", _MKN),
    Entry("batch_matmul", "matmul", {"B": 2, **_MKN}),
    Entry("gemm", "gemm", _MKN),
    *_group(
        "attention", "attention attention_causal", _HEADS,
        data=dict.fromkeys(("q", "kt", "v"), "half"),
    ),
    *_group(
        "attention", "attention_key_mask attention_mask", _HEADS,
        data={**dict.fromkeys(("q", "kt", "v"), "half"), "mask": "mask"},
    ),
    Entry(
        "attention_tile", "attention_tables", {"M": 32, "D": 32, "S": 32, "E": 32},
        data=dict.fromkeys(("q", "kt", "v"), "small integers"),
    ),
    Entry(
        "flash_attention_bf16", "attention_tables", {"M": 32, "D": 64, "S": 64},
        data=dict.fromkeys(("q", "kt", "v"), "half"),
    ),
    *_group(
        "attention_tables", "attention_acc_first attention_acc_mid attention_acc_last", {"D": 64},
        data={**dict.fromkeys(("q", "kt", "v"), "half"), "total": "positive"},
    ),
    *_group("chain_calls", "matmul_acc_first matmul_acc_mid matmul_acc_last", {}),
    *_group("rows", "softmax rms_norm rms_norm_weight layer_norm", _MN),
    *_group("rows", "reduction_sum reduction_max reduction_mean", _MN),
    *_group("elementwise", "silu silu_gate gelu_tanh cos exp tanh sigmoid relu", _MN),
    *_group("elementwise", "elementwise_add elementwise_sub elementwise_mul", _MN),
    Entry("elementwise_div", "elementwise", _MN, data={"b": "away from zero"}),
    *_group("elementwise", "elementwise_max elementwise_min", _MN),
    *_group("elementwise", "add_row mul_row add_column mul_column", _MN),
    Entry("norm_scale", "elementwise", _MN, data={"variance": "positive"}),
    Entry("vector_arithmetic", "elementwise", _MN),
    Entry(
        "rope", "elementwise", {"M": 32, "D": 64}, {"D": 64},
        {"cosines": "angles", "sines": "angles"},
    ),
    Entry("rope_angles", "elementwise", {"M": 32, "D": 64, "H": 32}, related=True),
    Entry(
        "conv2d", "convolution",
        {"H": 5, "W": 34, "C": 32, "KH": 3, "KW": 3, "N": 32, "R": 3, "Q": 32}, related=True,
    ),
    *_group("casts", "requant dequant bias_add_cast transpose", _MN),
]  # fmt: skip

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def entry(name: str) -> Entry:
    """A kernel by name."""
    if name not in ENTRIES:
        import difflib

        near = difflib.get_close_matches(name, ENTRIES, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "see tilewright kernels list"
        raise TilewrightError("TW0051", f"there is no kernel {name}", hint=hint)
    return ENTRIES[name]


@cache
def _references() -> dict[str, Reference]:
    from tilewright.kernels.references import REFERENCES
    from tilewright.kernels.references_attention import ATTENTION_REFERENCES
    from tilewright.kernels.references_heads import HEAD_REFERENCES

    return {
        **REFERENCES,
        **ATTENTION_REFERENCES,
        **HEAD_REFERENCES,
        "gemm": REFERENCES["matmul"],
    }
