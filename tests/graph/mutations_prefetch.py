"""Mistakes with weights that one call brings to VMEM for another."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from mutations import Mistake, kind

from tilewright.targets.atlas.codegen.copies_beside import Copy
from tilewright.targets.atlas.codegen.nest import Affine
from tilewright.targets.atlas.codegen.prefetch import Prefetch
from tilewright.targets.atlas.model import fitting
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment, PrefetchedRows


def _copied(stack: ExitStack, mistake: Mistake, change: Callable[[Copy], Copy], text: str) -> None:
    """Another copy than was planned."""
    copy = Prefetch.copy

    def broken(self: Prefetch) -> Copy:
        mistake.text = text
        return change(copy(self))

    stack.enter_context(mock.patch.object(Prefetch, "copy", broken))


@kind("loop")
def prefetched_rows_of_another_place(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    shift = choose.choice([32, 1024, -32])
    _copied(stack, mistake, lambda c: replace(c, source=c.source.shifted(shift)), f"{shift} bytes")


@kind("loop")
def prefetched_rows_of_the_first_iteration(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    _copied(stack, mistake, lambda c: replace(c, source=Affine(c.source.constant)), "all of them")


@kind("loop")
def prefetched_rows_to_another_place(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    shift = choose.choice([32, 1024, -32])
    _copied(stack, mistake, lambda c: replace(c, target=c.target + shift), f"{shift} bytes")


@kind("loop")
def prefetched_rows_left_out(choose: random.Random, stack: ExitStack, mistake: Mistake) -> None:
    def fewer(copy: Copy) -> Copy:
        return replace(copy, rows=max(1, copy.rows - choose.randint(1, 2)))

    _copied(stack, mistake, fewer, "the last")


@kind("loop")
def prefetched_rows_read_elsewhere(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    place = Prefetch.place

    def broken(self: Prefetch, read: Any) -> Affine | None:
        found = place(self, read)
        if found is not None:
            mistake.text = "32 bytes further"
        return None if found is None else found.shifted(32)

    stack.enter_context(mock.patch.object(Prefetch, "place", broken))


def _chosen(
    stack: ExitStack,
    mistake: Mistake,
    change: Callable[[list[PrefetchedRows]], list[PrefetchedRows]],
) -> None:
    known = fitting.choose

    def choosing(*arguments: Any) -> list[PrefetchedRows]:
        found = known(*arguments)
        mistake.text = f"{len(found)} of them" if found else mistake.text
        return change(found)

    stack.enter_context(mock.patch.object(fitting, "choose", choosing))


@kind("loop")
def prefetched_rows_too_late(choose: random.Random, stack: ExitStack, mistake: Mistake) -> None:
    """The call behind the one that reads them brings them."""
    _chosen(stack, mistake, lambda found: [replace(o, carrier=o.reader + 1) for o in found])


@kind("loop")
def prefetched_rows_over_a_tensor(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    known = fitting.narrowed

    def over(places: BufferAssignment, found: list[PrefetchedRows], profile: Any) -> Any:
        moved = []
        for one in found:
            stays = [
                tensor
                for tensor, stay in places.stays.items()
                if stay.first < one.reader and one.carrier <= stay.until
            ]
            if stays:
                mistake.text = choose.choice(stays).name
                one = replace(one, address=places.vmem[choose.choice(stays)])
            moved.append(one)
        return known(places, moved, profile)

    stack.enter_context(mock.patch.object(fitting, "narrowed", over))


@kind("loop")
def a_call_works_over_prefetched_rows(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    known = fitting.narrowed

    def as_wide(places: BufferAssignment, found: Any, profile: Any) -> BufferAssignment:
        mistake.text = "with all of its area"
        return replace(known(places, found, profile), areas=list(places.areas))

    stack.enter_context(mock.patch.object(fitting, "narrowed", as_wide))
