"""Mistakes in the compiler's middle are found: a small sample of benchmarks/middle_mutations.py."""

from __future__ import annotations

import mutations
import pytest
import tower_models
from mutation_trials import trial

KINDS = {kind.name: kind for kind in mutations.KINDS}
SAMPLE = [
    ("a fold that should not be", tower_models.a_view_is_read),
    ("readers behind the loop not asked for", tower_models.two_carried),
    ("readers behind the loop not asked for", tower_models.some_layers_have_outputs),
    ("inputs of iterations that others read", tower_models.an_input_of_two_layers),
    ("a port of another iteration", tower_models.inputs_and_outputs_of_every_layer),
    ("weights of another iteration", tower_models.towers_after_each_other),
    ("a number in the code halved", tower_models.two_heads),
    ("a scale halved", tower_models.two_heads),
    ("another operand", tower_models.start_is_an_output),
    ("an iteration left out", tower_models.two_heads),
    ("a result taken for another", tower_models.start_is_an_output),
    ("a live range cut short", tower_models.read_after_the_loop),
    ("a slot reused early", tower_models.a_later_part_reads_it),
    ("a stay cut short", tower_models.result_and_more_work),
    ("a work area over a tensor", tower_models.result_and_more_work),
    ("a stride of iterations wrong", tower_models.two_heads),
    ("a pointer step left out", tower_models.read_in_every_round),
    ("an address off by one row", tower_models.two_heads),
    ("a tensor register mistaken", tower_models.two_heads),
    ("an output port on another region", tower_models.start_is_an_output),
    ("a pointer step left out of a shifted loop", tower_models.a_batch_of_products),
    ("an address of a shifted loop off by one row", tower_models.a_batch_of_products),
    ("a pointer that stops before the drain", tower_models.a_batch_of_products),
    ("a scalar left out of an overlapped loop", tower_models.a_batch_of_products),
    ("prefetched rows over a tensor", tower_models.norms_before_products),
    ("a call works over prefetched rows", tower_models.norms_before_products),
]


@pytest.mark.parametrize(("name", "make"), SAMPLE, ids=lambda x: getattr(x, "__name__", x))
def test_a_mistake_is_found(name, make):
    verdict = trial(make, KINDS[name], 0).verdict
    assert verdict != "missed"


def test_mistakes_have_effects():
    """Kinds that must change a result do so, and somebody finds them."""
    certain = [
        ("a fold that should not be", tower_models.a_view_is_read),
        ("an iteration left out", tower_models.two_heads),
        ("a scale halved", tower_models.two_heads),
        ("a port of another iteration", tower_models.inputs_and_outputs_of_every_layer),
        ("prefetched rows of another place", tower_models.norms_before_products),
        ("prefetched rows of the first iteration", tower_models.norms_before_products),
        ("prefetched rows to another place", tower_models.norms_before_products),
        ("prefetched rows left out", tower_models.norms_before_products),
        ("prefetched rows read elsewhere", tower_models.norms_before_products),
    ]
    for name, make in certain:
        assert trial(make, KINDS[name], 0).verdict == "found"
