"""Writing safetensors files tensor by tensor."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.tensor_files import SAFETENSORS_TYPES

Array = np.ndarray[Any, Any]


def save_safetensors(path: str | Path, tensors: Mapping[str, Array]) -> None:
    """Write tensors one by one, so that mapped weights are never in memory all at once.

    The file has either its old content or all of the new one.
    """
    header: dict[str, object] = {}
    end = 0
    for name in sorted(tensors):
        array = tensors[name]
        kind = SAFETENSORS_TYPES.get(array.dtype)
        if kind is None:
            raise TilewrightError(
                "TW0014",
                f"safetensors cannot hold {name}, which is {array.dtype}",
                Location(str(path)),
            )
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts at a multiple of 8
    target = Path(os.path.realpath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text)
                for name in sorted(tensors):
                    file.write(np.ascontiguousarray(tensors[name]).tobytes())
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise TilewrightError(
            "TW0011", f"cannot write the file: {error.strerror or error}", Location(str(path))
        ) from None
