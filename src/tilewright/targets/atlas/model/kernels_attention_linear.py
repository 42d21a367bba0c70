"""Attention and the product with the weights behind it, which arrive while attention runs.

Attention keeps the vector unit busy and leaves the DMA engine idle for half of its time and more; a
product with few rows waits for its weights. As one kernel, the weights are on chip when attention ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.model.kernel_options import (
    AttentionLinearOptions,
    attention_of,
    linear_of,
)
from tilewright.targets.atlas.model.kernels import Tensors
from tilewright.targets.atlas.model.kernels_attention import attention
from tilewright.targets.atlas.model.kernels_linear import linear
from tilewright.tile.backend import active
from tilewright.tile.layouts import SIDE
from tilewright.tile.types import TensorSpec

COPIED = 4  # tiles that move together


def attention_linear(o: AttentionLinearOptions):
    """linear of attention."""
    attended, attend = attention(attention_of(o))
    multiplied, multiply = linear(linear_of(o))
    assert multiplied["a"] is not None
    specs: Mapping[str, TensorSpec | None] = {
        **{name: spec for name, spec in attended.items() if name != "out"},
        **{name: spec for name, spec in multiplied.items() if name != "a"},
    }

    def body(t: Tensors) -> None:
        weights = _on_chip(t["w"])
        shape = (*t["q"].shape[:-1], t["v"].shape[-1])
        heads = active().scratch_tensor(multiplied["a"], shape, o["heads_on_chip"])
        attend({**t, "out": heads})
        multiply({**t, "a": heads.completed(), "w": weights})

    return specs, body


def _on_chip(w: Any) -> Any:
    """A copy of weights in VMEM; it is made beside what comes next, which does not read it."""
    copied = active().scratch_tensor(w.spec, w.shape, on_chip=True)
    for n in tw.grid(w.N):
        for k in tw.grid(w.K, COPIED * SIDE):
            copied[k, n] = w[k, n]
    return copied.completed()
