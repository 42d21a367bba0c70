"""A language model that generates: `LanguageModel(load_any("smollm2.twb")).generate([1, 2, 3], 20)`.

Every shape is fixed. A prompt goes through `prefill` whole or in chunks, new tokens through `generate`,
in the smallest variant whose slots are enough; rows of keys and values are kept in one cache and
handed to whichever entry point runs. It works for any machine: nothing here knows one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.llm.alignment import inputs
from tilewright.runtime.llm.contract import Variant, contract_of
from tilewright.runtime.llm.kv_cache import KVCache
from tilewright.runtime.llm.prefix_cache import PrefixCache
from tilewright.runtime.llm.sampling import Sampling
from tilewright.runtime.session import Session
from tilewright.targets.artifact import Device, Progress
from tilewright.targets.compiled_model import CompiledEntries


@dataclass(frozen=True)
class Token:
    """A generated token and what it took."""

    token: int
    position: int
    cycles: int  # of the device, for this token; those of the prompt are with the first
    logits: np.ndarray


class _Referenced(Session):
    """A session whose device is the machine's references: the same quantised model in numpy."""

    def device(self) -> Device:
        found = self._device
        if found is None:
            found = self._device = self.model.artifact.reference()
        return found


class LanguageModel:
    """Entry points of a language model with a cache.

    prefix: keeps rows of prompts, see `PrefixCache`. referenced: computed by the references of the
    machine instead of its simulator.
    """

    def __init__(
        self,
        program: CompiledEntries,
        machine: str | None = None,
        prefix: PrefixCache | None = None,
        referenced: bool = False,
        progress: Progress | None = None,
        max_cycles: int | None = None,
    ) -> None:
        self.program, self.contract = program, contract_of(program)
        kind = _Referenced if referenced else Session
        self.sessions = {
            name: kind(model, machine, progress, max_cycles)
            for name, model in program.entries.items()
        }
        most = max(v.past for v in (*self.contract.prefill, *self.contract.generate))
        self.cache = KVCache(self.contract.rows, self.contract.capacity, most)
        self.prefix, self.cycles = prefix, 0
        if prefix is not None:
            self._check_prefix(prefix)

    def _check_prefix(self, prefix: PrefixCache) -> None:
        chunked = [v for v in self.contract.prefill if v.past]
        if not chunked or any(v.tokens % prefix.size for v in chunked):
            raise TilewrightError(
                "TW3163",
                f"blocks of {prefix.size} tokens need a prefill in chunks that they divide",
                hint=f"chunks are {', '.join(str(v.tokens) for v in chunked) or 'none'}",
            )

    # --- tokens in ----------------------------------------------------------------------

    def reset(self) -> None:
        """Forget all tokens."""
        self.cache.trim(0)

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        """Begin with a prompt; the logits behind its last token."""
        self._check(tokens)
        self.reset()
        self.cache.need(len(tokens))
        if self.prefix is not None:
            for known, rows in self.prefix.lookup(tokens):
                self.cache.restore(known, rows)
        logits = self.extend(tokens[self.cache.stored :])[-1]
        if self.prefix is not None:
            self.prefix.insert(tokens, self.cache.block)
        return logits

    def extend(self, tokens: Sequence[int]) -> np.ndarray:
        """Go on with tokens; logits behind the last of them, or behind each for a step's worth."""
        self._check(tokens)
        self.cache.need(len(tokens))
        left, logits = list(map(int, tokens)), np.zeros((0, self.contract.vocabulary))
        while left:
            variant = self._variant(len(left))
            part, left = left[: variant.tokens], left[variant.tokens :]
            logits = self._forward(variant, part, bool(left))
        return logits

    def _check(self, tokens: Sequence[int]) -> None:
        if not len(tokens):
            raise TilewrightError("TW3166", "there are no tokens", hint="give at least one")
        for token in tokens:
            if not 0 <= int(token) < self.contract.vocabulary:
                raise TilewrightError(
                    "TW3166",
                    f"{token} is no token, the vocabulary has {self.contract.vocabulary}",
                )

    def _variant(self, count: int) -> Variant:
        """The entry point for the next tokens: as few calls as possible, then as few slots."""
        stored = self.cache.stored
        step = self.contract.generate[0].tokens
        kinds = self.contract.generate if count <= step else self.contract.prefill
        fitting = [v for v in kinds if v.past >= stored]
        if not fitting:  # a prompt behind other tokens, where prefill begins anew: step by step
            fitting = [v for v in self.contract.generate if v.past >= stored]
        if not fitting:
            self.cache.need(step)  # a whole step of new rows has no room: that is the end
        return min(fitting, key=lambda v: (-min(v.tokens, count), v.capacity))

    def _forward(self, variant: Variant, tokens: Sequence[int], more: bool) -> np.ndarray:
        """Run an entry point, keep its rows; logits of the new tokens it has some for."""
        session, stored = self.sessions[variant.entry], self.cache.stored
        given = inputs(variant, tokens, stored, session.model.ports["mask"].dtype)
        if variant.past:
            given |= self.cache.past(variant.past)
        results = session.run(given)
        self.cycles += session.cycles
        self.cache.append(tokens, results)
        if more:
            return np.zeros((0, self.contract.vocabulary))
        rows = min(variant.rows, len(tokens))
        if self.contract.width is None:
            return results["logits"][0, -rows:].astype(np.float32)
        return self._head(results["hidden"][0, -rows:])

    def _head(self, hidden: np.ndarray) -> np.ndarray:
        """Logits of hidden states, a head's rows at a time."""
        rows, session = self.contract.head_rows, self.sessions["head"]
        found = []
        for first in range(0, len(hidden), rows):
            part = hidden[first : first + rows]
            block = np.zeros((1, rows, hidden.shape[1]), hidden.dtype)
            block[0, rows - len(part) :] = part
            found.append(session.run(hidden=block)["logits"][0, rows - len(part) :])
            self.cycles += session.cycles
        return np.concatenate(found).astype(np.float32)

    # --- tokens out ---------------------------------------------------------------------

    def stream(
        self,
        prompt: Sequence[int],
        count: int,
        sampling: Sampling | None = None,
        stop: Sequence[int] = (),
    ) -> Iterator[Token]:
        """Tokens behind a prompt, one after the other; a token of `stop` is the last."""
        sampling = sampling or Sampling()
        before = self.cycles
        logits = self.prefill(prompt)
        for number in range(count):
            position = self.cache.stored
            token = sampling.choose(logits, position)
            yield Token(token, position, self.cycles - before, logits)
            before = self.cycles
            if token in stop or number + 1 == count:
                return
            logits = self.extend([token])[-1]

    def generate(
        self,
        prompt: Sequence[int],
        count: int,
        sampling: Sampling | None = None,
        stop: Sequence[int] = (),
    ) -> list[int]:
        """All of them."""
        return [found.token for found in self.stream(prompt, count, sampling, stop)]

    def trim(self, position: int) -> None:
        """Forget the tokens from a position on, as if they had never been there."""
        self.cache.trim(position)

    def __repr__(self) -> str:
        variants = [v.entry for v in (*self.contract.prefill, *self.contract.generate)]
        return (
            f"<{self.program.name} for {self.program.target}: {', '.join(variants)}, "
            f"{self.cache.stored} of {self.cache.capacity} slots>"
        )
