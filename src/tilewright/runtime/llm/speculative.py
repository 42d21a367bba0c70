"""Speculative decoding: a small model guesses several tokens, the large one checks them at once.

The tokens are those the large model would have chosen alone, greedy or sampled, because a choice
depends on logits, seed and position only (`sampling`). Guesses that were wrong are trimmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.runtime.llm.sampling import Sampling
from tilewright.runtime.llm.session import LanguageModel


@dataclass
class Speculation:
    """How well it went."""

    guessed: int = 0
    accepted: int = 0
    calls: int = 0  # of the large model's generate


def speculate(
    model: LanguageModel,
    draft: LanguageModel,
    prompt: Sequence[int],
    count: int,
    sampling: Sampling | None = None,
    figures: Speculation | None = None,
) -> Iterator[int]:
    """Tokens behind a prompt; a step of `model` checks as many guesses as it has places for."""
    sampling, figures = sampling or Sampling(), figures or Speculation()
    width = model.contract.generate[0].tokens
    if model.contract.generate[0].rows < width or width < 2:
        raise TilewrightError(
            "TW3167",
            "generate of this model takes one token at a time: there is nothing to speculate",
            hint="compile it with a step of several tokens",
        )
    if draft.contract.vocabulary != model.contract.vocabulary:
        raise TilewrightError("TW3167", "the two models have different vocabularies")
    logits = model.prefill(prompt)
    draft.prefill(prompt)
    made = 0
    token = sampling.choose(logits, model.cache.stored)
    while True:
        yield token
        made += 1
        if made == count:
            return
        start = model.cache.stored  # the position of `token`
        room = min(width - 1, count - made, model.cache.capacity - start - 1)
        guesses = _guess(
            draft, [*prompt, *model.cache.tokens[len(prompt) :], token], room, sampling
        )
        rows = model.extend([token, *guesses])
        figures.calls += 1
        figures.guessed += len(guesses)
        choices: list[int] = []
        for number, row in enumerate(rows):
            choices.append(sampling.choose(row, start + 1 + number))
            if number < len(guesses) and guesses[number] != choices[-1]:
                break
        figures.accepted += len(choices) - 1
        model.trim(start + len(choices))  # the token and the guesses that were right
        for token in choices[:-1]:
            yield token
            made += 1
            if made == count:
                return
        token = choices[-1]


def _guess(
    draft: LanguageModel, tokens: Sequence[int], count: int, sampling: Sampling
) -> list[int]:
    """What the small model would go on with; it is brought up to the tokens first."""
    agreed = 0
    for mine, given in zip(draft.cache.tokens, tokens, strict=False):
        if mine != given:
            break
        agreed += 1
    draft.trim(min(agreed, len(tokens) - 1))
    found: list[int] = []
    if count < 1 or len(tokens) + count > draft.cache.capacity:
        return found
    logits = draft.extend(tokens[draft.cache.stored :])[-1]
    while True:
        found.append(sampling.choose(logits, draft.cache.stored))
        if len(found) == count:
            return found
        logits = draft.extend([found[-1]])[-1]
