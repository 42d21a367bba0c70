"""Lifetimes over straight code and loops; compared with running the code step by step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.planning.liveness import Code, Lifetime, Loop, Step, lifetimes


def step(uses: str = "", defines: str = "") -> Step:
    return Step(tuple(uses.split()), tuple(defines.split()))


def test_straight_code():
    code = [step("", "a"), step("a", "b"), step("a b", "c"), step("c")]
    assert lifetimes(code) == {"a": Lifetime(0, 3), "b": Lifetime(1, 3), "c": Lifetime(2, 4)}


def test_a_value_from_before_a_loop_lives_through_it():
    code = [step("", "w"), Loop((step("w", "t"), step("t"), step())), step()]
    assert lifetimes(code) == {"w": Lifetime(0, 4), "t": Lifetime(1, 3)}


def test_a_value_for_the_next_iteration_lives_through_the_loop():
    code = [step("", "next"), Loop((step("next"), step(), step("", "next"), step())), step()]
    assert lifetimes(code)["next"] == Lifetime(0, 5)


def test_an_accumulator():
    code = [step("", "sum"), Loop((step("sum", "sum"), step())), step("sum")]
    assert lifetimes(code)["sum"] == Lifetime(0, 4)


def test_nested_loops():
    inner = Loop((step("a", "t"), step("t")))
    code = [Loop((step("", "a"), inner, step("", "z"), step("z"))), step()]
    assert lifetimes(code) == {
        "a": Lifetime(0, 3),
        "t": Lifetime(1, 3),
        "z": Lifetime(3, 5),
    }


def test_inputs_and_outputs():
    code = [step("x", "y"), step(), step()]
    assert lifetimes(code, inputs=["x"], outputs=["y"]) == {
        "x": Lifetime(0, 1),
        "y": Lifetime(0, 3),
    }


@pytest.mark.parametrize("code", [[step("a")], [step("a"), step("", "a")]])
def test_use_before_definition(code: Code):
    with pytest.raises(TilewrightError) as error:
        lifetimes(code)
    assert error.value.code == "TW1404"


names = st.sampled_from("abcd")
steps = st.builds(
    lambda uses, defines: Step(tuple(uses), tuple(defines)),
    st.lists(names, max_size=2, unique=True),
    st.lists(names, max_size=1),
)
bodies = st.recursive(
    st.lists(steps, min_size=1, max_size=4),
    lambda inner: st.lists(
        st.one_of(steps, inner.map(lambda body: Loop(tuple(body)))), min_size=1, max_size=4
    ),
    max_leaves=6,
)


def run(code: Code, position: int, times: int) -> tuple[list[tuple[int, Step]], int]:
    """The steps in the order they run, every loop `times` times."""
    trace: list[tuple[int, Step]] = []
    for item in code:
        if isinstance(item, Step):
            trace.append((position, item))
            position += 1
        else:
            body, end = run(item.body, position, times)
            trace += body
            for _ in range(times - 1):
                trace += run(item.body, position, times)[0]
            position = end
    return trace, position


@given(bodies)
@settings(max_examples=200, deadline=None)
def test_every_value_is_live_whenever_running_needs_it(code: list[Step | Loop]):
    """From each write to the reads of what was written, all steps run lie in the lifetime."""
    live = lifetimes(code, inputs="abcd")
    trace, _ = run(code, 0, 3)
    for name, range_ in live.items():
        written = 0
        for now, (_, item) in enumerate(trace):
            if name in item.uses:
                needed = {position for position, _ in trace[written : now + 1]}
                assert all(range_.lower <= position < range_.upper for position in needed)
            if name in item.defines:
                written = now
