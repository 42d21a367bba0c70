"""Arrays of ports: types change, shapes do not."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.targets.port_types import FLOATS, PORT_TYPES, rounded


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 2), (2, 1, 3)])
def test_rounding_keeps_shapes(dtype: str, shape: tuple[int, ...]):
    """A single number stays one: numpy gives it a dimension now and then."""
    found = rounded(np.full(shape, 1.5, np.float32), dtype)
    assert found.shape == shape and found.dtype == PORT_TYPES[dtype]
    assert np.all(found.astype(np.float32) == 1.5)
