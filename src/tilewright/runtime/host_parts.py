"""The host's parts of a run, held against what the host has to compute (`model/host_check`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.model.host_check import HostCheck
from tilewright.targets.artifact import HostPart
from tilewright.targets.compiled_model import CompiledModel

PREFIX = "host_"  # of weights in the host's module


def host_strays(
    model: CompiledModel[Any], ports: Mapping[str, np.ndarray], notes: list[str]
) -> list[str]:
    """What is wrong with the values of the host's parts, a line each; notes: what was not looked at."""
    parts = [part for part in model.parts if isinstance(part, HostPart)]
    if not parts:
        return []
    if model.host_graph is None:
        notes.append(
            "host parts were run by one executor on both sides: the bundle has no second word"
        )
        return []
    host = model.host_graph
    weights = {name.removeprefix(PREFIX): array for name, array in model.host_weights.items()}
    check = HostCheck(host, weights)
    found = check.differences(ports)
    if check.unknown:
        notes.append(f"computed by the executor only: {', '.join(sorted(check.unknown))}")
    lost = sorted(set(host.made) & set(model.outputs) - ports.keys())
    found += [f"nobody fills the output {port}" for port in lost]
    return found + _reasons(model, parts)


def _reasons(model: CompiledModel[Any], parts: list[HostPart]) -> list[str]:
    """Every operation of the host has its reason, under its name."""
    assert model.host_graph is not None
    wanted = sorted(operation.name for operation in model.host_graph.operations)
    given = [reason for part in parts for reason in part.reasons]
    names = sorted(_named(reason, wanted) for reason in given)
    if names == wanted:
        return []
    return [f"the host does {len(wanted)} operations, and gives reasons for others"]


def _named(reason: str, names: list[str]) -> str:
    """The longest name that a reason begins with."""
    return max((n for n in names if reason.startswith(f"{n}: ")), key=len, default="")
