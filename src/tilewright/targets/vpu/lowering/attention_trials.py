"""Close calls between paths of attention: both are scheduled, and the faster one is taken.

Where keys and values of one head fill most of CMX, what a path takes depends on how buffers come
to lie beside each other. The model of `attention_paths` does not know that; the scheduler does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.targets.vpu.lowering.attention_paths import (
    DECOMPOSED,
    FLASH,
    Heads,
    fits,
    heads_of,
    next_keys_fit,
)
from tilewright.targets.vpu.lowering.network import Call, Network
from tilewright.targets.vpu.machine import Machine


def decided(network: Network, machine: Machine) -> Network:
    """Calls of attention with their path, where the model cannot tell."""
    calls = []
    for call in network.calls:
        if call.family == "attention" and "path" not in call.attributes:
            shape = heads_of(network.values, call)
            if is_close(machine, shape):
                path = faster(machine, shape)
                call = replace(call, attributes={**call.attributes, "path": path})
        calls.append(call)
    return replace(network, calls=calls)


def is_close(machine: Machine, shape: Heads) -> bool:
    """Whether a whole head fits, and nothing beside it."""
    return fits(machine, shape, DECOMPOSED, shape.valid) and not next_keys_fit(
        machine, shape, DECOMPOSED, shape.valid
    )


@lru_cache(maxsize=256)
def faster(machine: Machine, shape: Heads) -> str:
    """The path whose tasks alone are scheduled faster."""
    from tilewright.targets.vpu.lowering.lower import LoweringOptions, lower
    from tilewright.targets.vpu.scheduling.schedule import portfolio

    made = {}
    for path in (DECOMPOSED, FLASH):
        lowered = lower(_alone(shape), machine, LoweringOptions(attention=path))
        made[path] = portfolio(lowered.chip.graph(), budget=0).makespan
    return min(made, key=lambda path: made[path])


def _alone(shape: Heads) -> Network:
    """A network of one call of attention."""
    network = Network()
    heads = shape.groups * shape.shared
    q = network.input("q", (shape.queries, heads * shape.width), "f16")
    k = network.input("k", (shape.keys, shape.groups * shape.width), "f16")
    v = network.input("v", (shape.groups * shape.value_width, shape.keys), "f16")
    y = network.value("y", (shape.queries, heads * shape.value_width), "f16")
    network.calls = [
        Call("attention", "attention", {"q": q, "k": k, "v": v}, y,
             {"heads": heads, "groups": shape.groups, "causal": shape.causal,
              "valid_keys": shape.valid, "scale": shape.factor})
    ]  # fmt: skip
    network.outputs = [y]
    return network
