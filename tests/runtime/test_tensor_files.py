"""Arrays in files: every form read, every damage refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from tilewright.errors import TilewrightError
from tilewright.io.tensor_files import ELEMENT_TYPES, read_tensor, write_tensor


def test_npy_keeps_type_and_shape(tmp_path: Path) -> None:
    for name in ("f16", "f32", "f64", "i8", "i32", "u16", "u64"):
        array = np.arange(12).reshape(3, 4).astype(ELEMENT_TYPES[name])
        np.save(tmp_path / "a.npy", array)
        tensor = read_tensor(str(tmp_path / "a.npy"))
        assert (tensor.element, tensor.typed, tensor.array.shape) == (name, True, (3, 4))
        assert np.array_equal(tensor.array, array)
        assert tensor.raw() == array.tobytes()


@pytest.mark.parametrize("name", ["bf16", "fp8"])
def test_npy_of_small_floats_arrives_as_void_and_is_understood(tmp_path: Path, name: str) -> None:
    array = np.array([[1.5, -2.0], [0.25, 448.0]]).astype(ELEMENT_TYPES[name])
    np.save(tmp_path / "a.npy", array)
    assert np.load(tmp_path / "a.npy").dtype.kind == "V"
    tensor = read_tensor(str(tmp_path / "a.npy"))
    assert tensor.element == name
    assert np.array_equal(tensor.array.astype(float), array.astype(float))


def test_big_endian_and_column_major_become_plain(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    assert read_tensor(str(tmp_path / "a.npy")).raw() == np.arange(6, dtype="<i4").tobytes()


def test_raw_bytes_take_a_type(tmp_path: Path) -> None:
    values = np.array([1.0, -3.5]).astype(ml_dtypes.bfloat16)
    (tmp_path / "a.bin").write_bytes(values.tobytes())
    raw = read_tensor(str(tmp_path / "a.bin"))
    assert (raw.typed, raw.size, raw.element) == (False, 4, "u8")
    typed = read_tensor(str(tmp_path / "a.bin#bf16"))
    assert typed.typed and typed.array.tolist() == [1.0, -3.5]


def test_integer_npy_seen_as_bf16(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0x3F80, 0xC060]], np.uint16))
    tensor = read_tensor(str(tmp_path / "a.npy#bf16"))
    assert tensor.array.shape == (1, 2) and tensor.array.tolist() == [[1.0, -3.5]]


def test_a_file_name_may_hold_a_hash(tmp_path: Path) -> None:
    (tmp_path / "a#bf16").write_bytes(b"abc")
    assert read_tensor(str(tmp_path / "a#bf16")).size == 3


def _bf16_file(path: Path) -> bytes:
    """A safetensors file with a BF16 and an F8_E4M3 tensor, written by hand."""
    header = json.dumps(
        {
            "__metadata__": {"a": "b"},
            "x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
            "y": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [8, 12]},
        }
    ).encode()
    body = np.array([1, 2, 3, 4]).astype(ml_dtypes.bfloat16).tobytes()
    body += np.array([5, 6, 7, 8]).astype(ml_dtypes.float8_e4m3fn).tobytes()
    content = len(header).to_bytes(8, "little") + header + body
    path.write_bytes(content)
    return content


def test_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    _bf16_file(file)
    x, y = read_tensor(f"{file}#x"), read_tensor(f"{file}#y")
    assert (x.element, y.element) == ("bf16", "fp8")
    assert x.array.tolist() == [[1, 2], [3, 4]] and y.array.tolist() == [5, 6, 7, 8]
    save_file({"w.0": np.arange(5, dtype=np.float32)}, file)
    assert read_tensor(f"{file}#w.0").array.tolist() == [0, 1, 2, 3, 4]


def _refused(name: str | Path) -> str:
    with pytest.raises(TilewrightError) as caught:
        read_tensor(str(name))
    assert "TW0020" <= caught.value.code <= "TW0030"
    return f"{caught.value.message} {caught.value.hint}"


def test_safetensors_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    content = _bf16_file(file)
    assert "x, y" in _refused(file)
    assert "no tensor 'z'" in _refused(f"{file}#z")
    for cut in (0, 4, 8, 20, len(content) - 1):
        file.write_bytes(content[:cut])
        assert "cut short" in _refused(f"{file}#y")
    file.write_bytes((2**60).to_bytes(8, "little") + content[8:])
    assert "cut short" in _refused(f"{file}#x")
    for old, new in ((b"BF16", b"BF17"), (b"[2, 2]", b"[2, 9]"), (b"[2, 2]", b"[2,-2]")):
        file.write_bytes(content.replace(old, new))
        _refused(f"{file}#x")
    file.write_bytes(content.replace(b'{"__', b'["__'))
    assert "not readable" in _refused(f"{file}#x")


def test_npy_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.arange(100))
    content = file.read_bytes()
    for cut in (0, 3, 9, 60, len(content) - 1):
        file.write_bytes(content[:cut])
        _refused(file)
    file.write_bytes(b"no numpy at all")
    _refused(file)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    assert "Python objects" in _refused(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_bytes(pickle.dumps([1]))
    _refused(tmp_path / "b.npy")
    np.save(tmp_path / "c.npy", np.array(["text"]))
    assert "cannot be placed" in _refused(tmp_path / "c.npy")


def test_other_refusals(tmp_path: Path) -> None:
    assert "no file" in _refused(tmp_path / "nothing.bin")
    assert "not a file" in _refused(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"abc")
    assert "unknown element type" in _refused(f"{tmp_path}/a.bin#bf17")
    assert "no whole number" in _refused(f"{tmp_path}/a.bin#f32")
    _refused("a\0b")
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    assert "save the array as .npy" in _refused(tmp_path / "a.npz")


def test_a_single_number(tmp_path: Path) -> None:
    for value in (np.float32(2.5), np.array(2.5, ml_dtypes.bfloat16)):
        np.save(tmp_path / "a.npy", value)
        tensor = read_tensor(str(tmp_path / "a.npy"))
        assert tensor.array.shape == () and float(tensor.array) == 2.5
        assert tensor.raw() == value.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.npy", "a.safetensors"):
            path = Path(folder) / name
            path.write_bytes((b"\x93NUMPY\x01\x00" if name == "a.npy" else b"") + content)
            with pytest.raises(TilewrightError):
                read_tensor(f"{path}#x" if name != "a.npy" else str(path))


def test_write(tmp_path: Path) -> None:
    data = np.array([1.0, 2.0]).astype(ml_dtypes.bfloat16).tobytes()
    write_tensor(str(tmp_path / "a.bin"), data)
    assert (tmp_path / "a.bin").read_bytes() == data
    write_tensor(str(tmp_path / "a.npy#bf16"), data)
    assert read_tensor(str(tmp_path / "a.npy")).array.tolist() == [1.0, 2.0]
    write_tensor(str(tmp_path / "b.npy"), data)
    assert np.load(tmp_path / "b.npy").tobytes() == data
