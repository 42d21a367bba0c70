"""BitNet b1.58: ternary weights with one scale per tensor, int8 activations with one per token."""

from __future__ import annotations

import numpy as np

SMALLEST_RANGE = 1e-5


def quantise_weights(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights as -1, 0, 1 and gamma, the mean magnitude: w is about q * gamma."""
    wide = np.asarray(weights, np.float64)
    gamma = float(np.mean(np.abs(wide))) if wide.size else 0.0
    if gamma == 0.0:
        return np.zeros(wide.shape, np.int8), 0.0
    return np.clip(np.rint(wide / gamma), -1, 1).astype(np.int8), gamma


def quantise_activations(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows as int8 and their scales s: x is about q / s. Ties go to even."""
    values = np.asarray(x, np.float32)
    largest = np.max(np.abs(values), axis=-1, keepdims=True)
    scale = np.float32(127.0) / np.maximum(largest, np.float32(SMALLEST_RANGE))
    return np.clip(np.rint(values * scale), -128, 127).astype(np.int8), scale


# Linear layers of the published 2B-4T model: name, K, N, how many per block.
LAYERS_2B = (
    ("q_proj, o_proj", 2560, 2560, 2),
    ("k_proj, v_proj", 2560, 640, 2),
    ("gate_proj, up_proj", 2560, 6912, 2),
    ("down_proj", 6912, 2560, 1),
)
BLOCKS_2B = 30
