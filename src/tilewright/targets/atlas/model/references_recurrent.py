"""What the kernel of recurrent layers computes, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product
from tilewright.targets.atlas.model.references_steps import (
    BINARY,
    UNARY,
    Codes,
    constant,
    fp8,
    spread,
    times,
)
from tilewright.targets.atlas.profile import Profile


def recurrent(
    profile: Profile, options: Mapping[str, Any], operands: Mapping[str, Codes]
) -> dict[str, Codes]:
    """States of all steps; columns beyond a gate's width, up to whole tiles, are computed as well."""
    x, w = operands["x"], operands["w"]
    gates, deep, width = w.shape
    wide, count = -(-width // SIDE) * SIDE, len(options["next"])

    def filled(codes: Codes) -> Codes:
        """With zeros up to whole tiles."""
        return np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, wide - width)])

    weights = np.pad(w, ((0, 0), (0, wide - deep), (0, wide - width)))
    rows = {name: filled(operands[name]) for name in ("scale", "bias", "rows") if name in operands}
    states = [filled(operands[f"s{k}"][0]) for k in range(count)]
    steps, batch, _ = x.shape
    kept = options["kept"]
    out = np.zeros((steps, batch, kept * wide), x.dtype)
    for step in reversed(range(steps)) if options["backward"] else range(steps):
        left = fp8(profile, times(states[0], options["factor"]))
        values: dict[str, Codes] = {f"s{k}": state for k, state in enumerate(states)}
        for gate in range(x.shape[2] // wide):
            values[f"x{gate}"] = x[step, :, gate * wide : (gate + 1) * wide]
        for gate in range(gates):
            y = arith.multiply(product(left, weights[gate]), spread(rows["scale"][gate]))
            if gate in (options["bias"] or ()):
                y = arith.add(y, spread(rows["bias"][gate]))
            values[f"p{gate}"] = y
        for number, row in enumerate(rows.get("rows", ())):
            values[f"r{number}"] = np.broadcast_to(spread(row), (batch, wide))
        for operation, result, arguments in options["program"]:
            known = [values[a] if isinstance(a, str) else constant(a) for a in arguments]
            values[result] = (UNARY if len(known) == 1 else BINARY)[operation](*known)
        states = [values[name] for name in options["next"]]
        out[step] = np.concatenate(states[:kept], -1)
    return {"out": np.ascontiguousarray(out[..., : (kept - 1) * wide + width])}
