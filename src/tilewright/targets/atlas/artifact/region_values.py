"""Values on their way between ports and regions of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.targets.artifact import Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.targets.port_types import rounded
from tilewright.tile.layouts import NUMPY, held_codes


def region_codes(port: Port, region: Region, array: np.ndarray) -> list[np.ndarray]:
    """The bit patterns of a port's array in its region, one array per iteration it is for."""
    if port.encoding is not None:
        array = port.encoding.encoded(array)
    numbers = array if array.dtype.kind not in "biu" else array.astype(np.float32)
    codes = held_codes(numbers, region.layout.dtype)
    return list(codes.reshape(-1, *region.layout.given))


def turns_of(port: Port, region: Region) -> Sequence[int]:
    """The iterations whose tensors go through a port."""
    return range(region.count) if port.iteration is None else (port.iteration,)


def port_array(port: Port, region: Region, codes: Sequence[np.ndarray]) -> np.ndarray:
    """The array of a port from the bit patterns in its region."""
    whole = np.stack(list(codes)) if len(codes) > 1 else codes[0]
    numbers = np.ascontiguousarray(whole).view(NUMPY[region.layout.dtype])
    if port.encoding is not None:
        numbers = port.encoding.decoded(numbers)
    numbers = numbers.reshape(port.shape)
    if port.dtype == "i1":
        return numbers != 0
    return rounded(numbers.astype(np.float32), port.dtype)


def weight_codes(region: Region, raw: np.ndarray, turn: int) -> np.ndarray:
    """The bit patterns of one round of a region of weights."""
    at = turn * region.layout.bytes
    return unpack_codes(region, raw[at : at + region.layout.bytes].tobytes())


def unpack_codes(region: Region, raw: bytes) -> np.ndarray:
    """Bit patterns of a tensor, from its bytes in memory."""
    numbers = region.layout.unpack(raw)
    return numbers.view(np.uint16 if region.layout.dtype == "bf16" else np.uint8)


def comparable(region: Region, codes: np.ndarray) -> np.ndarray:
    """The bit patterns of a value as `stored_codes` reads them from its region."""
    return codes if _reads_back(region) else region.layout.arranged(codes)


def stored_codes(region: Region, raw: bytes) -> np.ndarray:
    """The bit patterns of a value from its bytes; as they are stored, where an array given once is
    stored in several places."""
    if _reads_back(region):
        return unpack_codes(region, raw)
    plain = replace(region, layout=replace(region.layout, arrangement=None))
    return unpack_codes(plain, raw)


def _reads_back(region: Region) -> bool:
    return getattr(region.layout.arrangement, "reads_back", True)


def typed(region: Region, codes: np.ndarray) -> np.ndarray:
    """Bit patterns as the numbers they are."""
    return np.ascontiguousarray(codes).view(NUMPY[region.layout.dtype])


def codes_of(numbers: np.ndarray) -> np.ndarray:
    """Numbers of the machine's formats as bit patterns."""
    return np.ascontiguousarray(numbers).view(f"u{numbers.dtype.itemsize}")
