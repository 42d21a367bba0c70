"""The next token from logits: the best, or one drawn. Draws depend on the seed and the position only,
so that the same tokens come out however they are computed: step by step, speculated, or resumed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError


@dataclass(frozen=True)
class Sampling:
    """temperature 0: the best token. top_k: among so many; 0: all. top_p: among the fewest whose
    probabilities reach this sum."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        finite = np.isfinite(self.temperature) and self.temperature >= 0
        if not finite or self.top_k < 0 or not 0 < self.top_p <= 1 or self.seed < 0:
            raise TilewrightError(
                "TW3164",
                "sampling takes a temperature from 0 on, top_k from 0 on, top_p above 0 up to 1 and "
                "a seed from 0 on",
            )

    def choose(self, logits: np.ndarray, position: int) -> int:
        """The token for a position."""
        if not np.isfinite(logits).any():
            raise TilewrightError("TW3165", f"no logit of position {position} is a finite number")
        wide = np.where(np.isnan(logits), -np.inf, logits).astype(np.float64)
        if self.temperature == 0:
            return int(wide.argmax())
        probabilities = self.probabilities(wide)
        draw = np.random.default_rng([self.seed, position]).random()
        return int(min(np.searchsorted(probabilities.cumsum(), draw, "right"), wide.size - 1))

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """What tokens are drawn with."""
        scaled = logits / self.temperature
        order = np.argsort(-scaled, kind="stable")
        powers = np.exp(scaled[order] - scaled[order[0]])
        if self.top_k:
            powers[self.top_k :] = 0
        powers /= powers.sum()
        before = powers.cumsum() - powers
        powers[before >= self.top_p] = 0
        found = np.zeros_like(powers)
        found[order] = powers / powers.sum()
        return found
