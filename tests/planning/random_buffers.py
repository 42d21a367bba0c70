"""Random planning problems for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from tilewright.planning.buffers import Buffer


@st.composite
def buffer_sets(
    draw: st.DrawFn, most: int = 24, alignments: tuple[int, ...] = (1, 2, 4), largest: int = 40
) -> list[Buffer]:
    """Up to `most` buffers over a short time."""
    count = draw(st.integers(1, most))
    buffers = []
    for index in range(count):
        lower = draw(st.integers(0, 12))
        upper = lower + draw(st.integers(1, 8))
        size = draw(st.integers(0, largest))
        buffers.append(Buffer(f"b{index}", size, lower, upper, draw(st.sampled_from(alignments))))
    return buffers
