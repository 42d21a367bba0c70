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
    from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
    from tilewright.targets.atlas.kernels.record_entries import RecordEntry
    from tilewright.targets.atlas.kernels.references import Reference
    from tilewright.targets.atlas.profile import Profile
    from tilewright.tile import Kernel

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Entry:
    """One kernel of the library.

    sizes: defaults for its named sizes. multiples: sizes that must be multiples of a number.
    data: how to make an input for tests, by parameter name ("normal" where nothing is said).
    related: sizes depend on each other, as those of a window do. made: kernel and reference are
    made for every choice of sizes. goldens: further sizes to check, by name.
    """

    name: str
    module: str
    sizes: Mapping[str, int]
    multiples: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    related: bool = False
    made: bool = False
    goldens: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        """For the default sizes."""
        return self.kernel_at({})

    def kernel_at(self, sizes: Mapping[str, int] | None) -> Kernel:
        if self.made:
            return _made(self.name, tuple(self._chosen(sizes).items()))[0]
        if self.record is not None:
            return _recorded(self.name)[0]
        return getattr(
            importlib.import_module(f"tilewright.targets.atlas.kernels.{self.module}"), self.name
        )

    def reference_at(self, sizes: Mapping[str, int] | None) -> Reference:
        if self.made:
            return _made(self.name, tuple(self._chosen(sizes).items()))[1]
        return self.reference

    @property
    def record(self) -> RecordEntry | None:
        """Which kernel of whole models it is, if it is one."""
        if self.module != "record_entries":
            return None
        from tilewright.targets.atlas.kernels.record_entries import RECORD_ENTRIES

        return RECORD_ENTRIES[self.name]

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
        """For the default sizes."""
        if self.record is not None:
            return _recorded(self.name)[1]
        return self.reference_at({}) if self.made else _references()[self.name]

    def signature(self, sizes: Mapping[str, int] | None = None) -> str:
        """`a: fp8[M, K], b: fp8[K, N] -> out: bf16[M, N]`"""
        kernel = self.kernel_at(sizes)

        def shown(name: str) -> str:
            spec = kernel.specs[name]
            if spec.arrangement is not None:
                shape, stored = (
                    ", ".join(map(str, s)) for s in (spec.arrangement.shape, spec.sizes)
                )
                return f"{name}: {spec.dtype}[{shape}] stored as [{stored}]"
            order = "" if spec.order == "tiles" else f" in {spec.order}"
            return f"{name}: {spec.dtype}[{', '.join(map(str, spec.sizes))}]{order}"

        inputs = ", ".join(map(shown, self.inputs))
        return f"{inputs} -> {', '.join(map(shown, kernel.outputs))}"

    def shapes(self, sizes: Mapping[str, int] | None = None) -> Shapes:
        """The shapes of all parameters for these sizes, defaults for the others."""
        chosen = self._chosen(sizes)
        return {
            name: tuple(s if isinstance(s, int) else chosen[s] for s in spec.sizes)
            if spec.arrangement is None
            else spec.arrangement.shape
            for name, spec in self.kernel_at(sizes).specs.items()
        }

    def _chosen(self, sizes: Mapping[str, int] | None) -> dict[str, int]:
        """Every size, checked."""
        chosen = {**self.sizes, **(sizes or {})}
        for name, value in chosen.items():
            if name not in self.sizes:
                known = ", ".join(self.sizes)
                raise TilewrightError(
                    "TW0052", f"kernel {self.name} has no size {name}", hint=f"sizes are {known}"
                )
            step = self.multiples.get(name, 1)
            least = 0 if name == "padding" else 1
            if value < least or value % step:
                want = "positive" if step == 1 else f"a multiple of {step}"
                raise TilewrightError("TW0053", f"{name} of {self.name} is {value}, must be {want}")
        return chosen

    def build(
        self,
        profile: str | Profile = "atlas-v1",
        sizes: Mapping[str, int] | None = None,
        exact: bool = False,
    ) -> CompiledKernel:
        """The compiled kernel; with `exact`, a solver looks at short ones."""
        shapes: dict[str, Any] = dict(self.shapes(sizes))
        return self.kernel_at(sizes).compile(profile, exact=exact, **shapes)

    def sample(self, sizes: Mapping[str, int] | None = None, seed: int = 0) -> list[np.ndarray]:
        """Inputs for a test, as bit patterns."""
        from tilewright.tile.layouts import to_codes

        shapes, specs = self.shapes(sizes), self.kernel_at(sizes).specs
        random = np.random.default_rng(seed)
        arrays = []
        for name in self.inputs:
            spec = specs[name]
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


def _windows(names: str, sizes: Mapping[str, int], goldens: Mapping[str, Any]) -> list[Entry]:
    """Kernels over images."""
    whole = {"H": 8, "W": 8, "C": 32, **sizes}
    return _group("made_entries", names, whole, related=True, made=True, goldens=goldens)


_MN = {"M": 32, "N": 32}
_MKN = {"M": 32, "K": 32, "N": 32}
_TAPS = {"KH": 3, "KW": 3, "stride": 1, "padding": 1, "dilation": 1, "phases": 1, "B": 1}
_POOL = {"KH": 2, "KW": 2, "stride": 2, "padding": 0, "dilation": 1, "phases": 1, "B": 1}
_HEADS = {"G": 1, "R": 1, "M": 32, "N": 64, "D": 64, "E": 64}

_ENTRIES: list[Entry] = [
    *_group("record_entries", "matmul matmul_bias linear linear_gelu linear_silu", _MKN),
    *_group("record_entries", "linear_residual matmul_requant", _MKN),
    *_group("record_entries", "linear_scaled linear_requant", _MKN, data={"scale": "positive"}),
    Entry("matmul_transposed", "record_entries", _MKN),
    Entry("mini_block", "published", _MKN),
    Entry("batch_matmul", "record_entries", {"B": 2, **_MKN}),
    Entry("gemm", "record_entries", _MKN),
    *_group(
        "record_entries", "attention attention_causal attention_flash attention_flash_causal", _HEADS,
        data=dict.fromkeys(("q", "kt", "v"), "half"),
    ),
    *_group(
        "record_entries", "attention_key_mask attention_mask", _HEADS,
        data={**dict.fromkeys(("q", "kt", "v"), "half"), "mask": "mask"},
    ),
    Entry(
        "attention_tile", "published", {"M": 32, "D": 32, "S": 32, "E": 32},
        data=dict.fromkeys(("q", "kt", "v"), "small integers"),
    ),
    Entry(
        "flash_attention_bf16", "published", {"M": 32, "D": 64, "S": 64},
        data=dict.fromkeys(("q", "kt", "v"), "half"),
    ),
    *_group(
        "published", "attention_acc_first attention_acc_mid attention_acc_last", {"D": 64},
        data={**dict.fromkeys(("q", "kt", "v"), "half"), "total": "positive"},
    ),
    *_group("chain_calls", "matmul_acc_first matmul_acc_mid matmul_acc_last", {}),
    *_group("record_entries", "softmax rms_norm rms_norm_weight layer_norm", _MN),
    *_group("record_entries", "reduction_sum reduction_max reduction_mean", _MN),
    *_group("record_entries", "silu silu_gate gelu_tanh cos exp tanh sigmoid relu", _MN),
    *_group("record_entries", "elementwise_add elementwise_sub elementwise_mul", _MN),
    Entry("elementwise_div", "record_entries", _MN, data={"b": "away from zero"}),
    *_group("record_entries", "elementwise_max elementwise_min", _MN),
    *_group("record_entries", "add_row mul_row add_column mul_column", _MN),
    Entry("norm_scale", "record_entries", _MN, data={"variance": "positive"}),
    Entry("vector_arithmetic", "record_entries", _MN),
    Entry(
        "rope", "rotary", {"M": 32, "D": 64}, {"D": 64},
        {"cosines": "angles", "sines": "angles"},
    ),
    Entry(
        "rope_split", "made_entries", {"M": 32, "D": 32}, {"D": 2},
        {"cosines": "angles", "sines": "angles"}, made=True,
        goldens={"ragged": {"M": 50, "D": 40}, "several tiles": {"M": 64, "D": 96}},
    ),
    Entry("rope_angles", "rotary", {"M": 32, "D": 64, "H": 32}, related=True),
    *_windows("conv2d conv2d_relu", {"N": 32, **_TAPS, "groups": 1}, {
        "several tiles": {"H": 7, "W": 12, "C": 64, "N": 40},
        "ragged": {"H": 9, "W": 11, "C": 40, "N": 50, "KH": 2, "stride": 2, "padding": 2, "dilation": 2},
        "groups": {"C": 96, "N": 64, "groups": 2, "KH": 1, "KW": 2, "phases": 2, "B": 2},
    }),
    *_windows("conv2d_first", {"C": 3, "N": 32, **_TAPS}, {
        "ragged": {"H": 15, "W": 11, "N": 20, "KH": 5, "KW": 4, "stride": 2, "padding": 1},
    }),
    *_windows("depthwise_conv2d", _TAPS, {
        "ragged": {"H": 9, "W": 13, "C": 40, "stride": 2},
        "several tiles": {"H": 7, "W": 12, "C": 64, "KH": 5, "padding": 2},
    }),
    *_windows("max_pool average_pool average_pool_inside", _POOL, {
        "ragged": {"H": 9, "W": 13, "C": 40, "KH": 3, "KW": 3, "padding": 1},
        "several tiles": {"H": 24, "W": 40, "C": 96, "B": 2, "phases": 2},
    }),
    *_windows("global_average_pool", {"phases": 1, "B": 1}, {
        "ragged": {"H": 9, "W": 13, "C": 40, "phases": 2, "B": 3},
    }),
    *_windows("add_images", {}, {"ragged": {"H": 9, "W": 13, "C": 40}}),
    Entry("requant", "record_entries", _MN),
    *_group("casts", "dequant transpose quantise_rows", _MN),
    Entry("bias_add_cast", "record_entries", _MN),
    *_group("record_entries", "requant_channels requant_rows", _MN, data={"scale": "positive"}),
    Entry("dequant_channels", "casts", _MN, data={"step": "positive"}),
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
def _made(name: str, sizes: tuple[tuple[str, int], ...]) -> tuple[Kernel, Reference]:
    from tilewright.targets.atlas.kernels.made_entries import make

    return make(name, dict(sizes))


@cache
def _recorded(name: str) -> tuple[Kernel, Reference]:
    """A kernel of whole models, and its reference."""
    from tilewright.targets.atlas.kernels.references import IDEALS, Reference
    from tilewright.targets.atlas.kernels.references_heads import HEAD_IDEALS

    record = ENTRIES[name].record
    assert record is not None
    return record.kernel(name), Reference(record.exact, {**IDEALS, **HEAD_IDEALS}[name])


@cache
def _references() -> dict[str, Reference]:
    from tilewright.targets.atlas.kernels.references import REFERENCES
    from tilewright.targets.atlas.kernels.references_attention import ATTENTION_REFERENCES

    return {**REFERENCES, **ATTENTION_REFERENCES}
