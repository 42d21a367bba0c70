"""Smallest legal distances between two instructions, from the profile's rules.

A distance is a lower bound on dispatch tick of B minus dispatch tick of A. Everything is
stated for A before B in program order; delays elsewhere only make distances larger, so code
that keeps them stays right when a wait takes longer than planned.
"""

from __future__ import annotations

from tilewright.targets.atlas.isa import Opcode
from tilewright.targets.atlas.profile import Profile


class Distances:
    """The rules of one profile, tabulated per pair of instructions when asked."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.holds = profile.conflict != "ignore"
        load = profile.timing["tensor_load"]
        # Loads in flight hold the bytes they read, which matters where two can be in flight.
        self.loads_exclude = self.holds and load.interval < load.latency
        self._releases: dict[tuple[int, int], int] = {}
        self._orders: dict[tuple[int, int, int], int] = {}

    def latency(self, opcode: Opcode, count: int = 0) -> int:
        """Ticks from dispatch to completion; a DMA transfer counts as if the engine were idle."""
        if opcode.timing == "dma_transfer":
            return self.profile.dma.ticks(count)
        return self.profile.timing_of(opcode).latency

    def interval(self, opcode: Opcode) -> int:
        return self.profile.timing_of(opcode).interval

    def place(self, opcode: Opcode) -> int:
        """Place of the unit within a tick; decode comes after all units."""
        unit = self.profile.timing_of(opcode).unit
        return self.profile.position.get(unit, len(self.profile.units))

    def order(self, a: Opcode, b: Opcode, count: int = 0) -> int:
        """A takes effect before B: both act at completion."""
        key = a.index, b.index, count
        if key not in self._orders:
            ticks = self.latency(a) - self.latency(b, count)
            self._orders[key] = max(1, ticks + (0 if self.place(a) < self.place(b) else 1))
        return self._orders[key]

    def release(self, a: Opcode, b: Opcode) -> int:
        """B is accepted after A has released what both hold."""
        key = a.index, b.index
        if key not in self._releases:
            latency = self.latency(a)
            ticks = latency - 1 if self.place(b) > self.place(a) else latency
            self._releases[key] = max(1, ticks)
        return self._releases[key]

    def shared_register(self, a: Opcode, b: Opcode) -> int:
        """A and B touch the same tensor register."""
        if self.holds:
            return max(self.release(a, b), self.order(a, b))
        return self.order(a, b)

    def read_read(self, a: Opcode, b: Opcode) -> int:
        """A and B only read the same tensor register: 0 where they may overlap."""
        return self.release(a, b) if self.holds else 0

    def shared_slot(self, a: Opcode, b: Opcode) -> int:
        """A and B touch the same weight slot or accumulator."""
        return self.order(a, b)

    def shared_vmem(self, a: Opcode, b: Opcode, count: int = 0) -> int:
        """Tensor memory access A, then access or transfer B of the same bytes."""
        if self.holds or b.timing == "dma_transfer":
            # A transfer must not depend on when exactly it moves its bytes.
            return max(self.release(a, b), self.order(a, b, count))
        return self.order(a, b, count)

    def pointer(self, a: Opcode, b: Opcode) -> int:
        """A and B touch the same scalar register, at least one of them (a scalar) writes it.

        Tensor memory operations read their address until they complete.
        """
        scalar = self.profile.timing_of(a).unit in ("SCALAR", "DECODE")
        return 1 if scalar else self.latency(a)
