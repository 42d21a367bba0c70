"""After every pass of the pipeline, a random module gives the same results as before it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pass_checks import TILINGS, Refused, check_passes, pipeline_with
from random_recipes import RECIPES, random_module
from running import unary

from random_kernels import KERNELS, random_kernel
from random_modules import DrawnChoices, Module, SeededChoices, Value

COMMON = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
CONVERSION = "convert-linalg-to-npu-kernel"


def check(module: Module, tiling: str, seed: int, special: bool, kernels: bool = False) -> None:
    pipeline = pipeline_with(tiling)
    if kernels:
        pipeline = [entry for entry in pipeline if entry != CONVERSION]
    try:
        check_passes(module, pipeline, seed, special)
    except AssertionError as error:
        raise AssertionError(f"{error}\n--- source\n{module.text}") from None


@settings(max_examples=60, **COMMON)
@given(data=st.data())
def test_linalg_modules(data: st.DataObject) -> None:
    module = random_module(DrawnChoices(data.draw))
    tiling = data.draw(st.sampled_from(TILINGS))
    check(module, tiling, data.draw(st.integers(0, 9)), data.draw(st.booleans()))


@settings(max_examples=60, **COMMON)
@given(data=st.data())
def test_kernels(data: st.DataObject) -> None:
    module = random_kernel(DrawnChoices(data.draw))
    tiling = data.draw(st.sampled_from(TILINGS))
    check(module, tiling, data.draw(st.integers(0, 9)), data.draw(st.booleans()), kernels=True)


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_every_recipe(recipe: str) -> None:
    """Each recipe, alone and with others around it, on fixed seeds."""
    used = 0
    for seed in range(200):
        module = random_module(SeededChoices(seed), 3, [recipe, recipe, "reshape"])
        if recipe not in module.ingredients:
            continue
        used += 1
        check(module, TILINGS[seed % len(TILINGS)], seed, special=seed % 3 == 0)
        if used == 5:
            return
    pytest.fail(f"the recipe {recipe} was used only {used} times")


@pytest.mark.parametrize("kind", list(KERNELS))
def test_every_kind_of_kernel(kind: str) -> None:
    for seed in range(8):
        module = random_kernel(SeededChoices(seed), [kind])
        check(module, TILINGS[seed % len(TILINGS)], seed, seed % 3 == 0, kernels=True)


def test_a_refusal_is_not_hidden() -> None:
    """What the conversion cannot name is an error that says so, not a wrong program."""
    text = unary("math.cbrt", "f32")
    module = Module(text, [Value("%a", (4,), "f32")], [], [0])
    with pytest.raises(Refused, match="cbrt"):
        check_passes(module, [CONVERSION])
