"""What the host has to compute, written down before anything is cut into parts.

Operations are those of the captured model that no device takes, with the forms in which values are
handed over behind them. Every value has a name of its own; functions, parts and their order play no
role here. Checks hold the host's parts against this (`host_check`). Plain data: numbers, texts, lists.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.io.deferred import blocks_of

HAND_OVER = "hand over"  # the family of values on their way to the device


@dataclass(frozen=True)
class HostOperation:
    """One value computed from others.

    attributes: those of the family, with its defaults; of maps, the dimension of the result along
    which each dimension of an operand is read, None where it is repeated.
    """

    name: str
    family: str
    operands: dict[str, tuple[str, ...]]  # role -> values
    output: str
    shape: tuple[int, ...]
    dtype: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostConstant:
    """Known content: its bytes, or the digest of a weight that is kept elsewhere."""

    shape: tuple[int, ...]
    dtype: str
    data: str = ""  # base64, in the order of the elements
    weight: str = ""
    digest: str = ""


@dataclass
class HostGraph:
    """Operations in an order in which they can be done.

    given: ports whose value the host finds (inputs of the model, results of the device); made: those
    it fills; the value of each.
    """

    operations: list[HostOperation] = field(default_factory=list)
    constants: dict[str, HostConstant] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)


def content_digest(array: np.ndarray) -> str:
    """A digest of an array's bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks_of(array):
        digest.update(block)
    return digest.hexdigest()
