"""Weights that are read when they are needed: the same numbers and programs as those in memory."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.compiling import entries
from tilewright.compiling.decoders import compile_decoder, compile_weights
from tilewright.errors import TilewrightError
from tilewright.frontend import decoder_folder
from tilewright.frontend.decoder import Capacity, drawn_weights
from tilewright.frontend.decoder_config import read_config
from tilewright.io import deferred
from tilewright.io.deferred import Deferred, as_weight, in_file, let_go_of_pages, parked
from tilewright.io.safetensors_file import save_safetensors
from tilewright.reference import contraction
from tilewright.targets.atlas.model import calls
from tilewright.targets.atlas.model.calls import Factor, Numbers, Tensor, content_codes
from tilewright.tile.layouts import Layout, to_codes

BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is large."""
    monkeypatch.setattr(deferred, "BLOCK", 7)
    monkeypatch.setattr(calls, "LARGE", 40)
    monkeypatch.setattr(calls, "BLOCK", 100)
    monkeypatch.setattr(contraction, "PART", 64)
    monkeypatch.setattr(contraction, "LARGE_PART", 64)
    monkeypatch.setattr(decoder_folder, "LARGE", 1)
    monkeypatch.setattr(entries, "PARKED", 1)
    monkeypatch.setattr(entries, "PARKED_ALONE", 1)


@pytest.mark.usefixtures("small_blocks")
def test_numbers_of_a_file(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 9)).astype(BF16)
    path = tmp_path / "numbers"
    path.write_bytes(b"12345678" + numbers.tobytes())
    same, wide = (in_file(str(path), 8, (5, 9), BF16, kind) for kind in (None, F32))
    for one in (wide, same.converted(F32), as_read_once(same).converted(F32)):
        assert (one.shape, one.dtype, one.nbytes, one.ndim) == ((5, 9), F32, 180, 2)
        np.testing.assert_array_equal(np.asarray(one), numbers.astype(np.float32))
    held = np.asarray(same)
    assert np.shares_memory(np.asarray(same), held)  # while somebody has it
    assert isinstance(held.base, np.memmap)
    let_go_of_pages(held)
    np.testing.assert_array_equal(held, numbers)
    np.testing.assert_array_equal(np.asarray(wide.reshape((9, 5))), held.reshape(9, 5))
    np.testing.assert_array_equal(np.asarray(wide.mapped(np.negative)), -held.astype(np.float32))
    path.write_bytes(path.read_bytes()[:-1])
    del held
    for one in (wide, same):
        with pytest.raises(TilewrightError, match="cannot read the weights"):
            np.asarray(one)


def as_read_once(array: Deferred) -> Deferred:
    """The same numbers from a source that knows one type only."""
    return Deferred(array.shape, array.dtype, lambda: np.asarray(array).copy())


@pytest.mark.usefixtures("small_blocks")
def test_parked_arrays_have_the_same_content() -> None:
    generator = np.random.default_rng(1)
    arrays = {str(n): generator.integers(0, 255, n, np.uint8) for n in (1, 4096, 5000)}
    arrays["wide"] = generator.normal(size=(3, 5)).astype(BF16)
    found = parked(arrays)
    assert list(found) == list(arrays)
    for name, array in found.items():
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, arrays[name])
        let_go_of_pages(array)
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
@pytest.mark.parametrize("shape", [(33, 70), (3, 17, 64), (70,)])
def test_codes_do_not_depend_on_blocks(dtype: str, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(2)
    array = (8 ** generator.normal(size=shape) * generator.choice([-1, 0, 1], shape)).astype(F32)
    over = (2 ** generator.normal(size=(*shape[:-2], *[1] * (len(shape) > 2), shape[-1]))).astype(
        F32
    )
    for given in (array, np.asfortranarray(array)):
        for numbers in (
            Numbers(given),
            Numbers(given, over),
            Numbers(given, over[..., :1]),
            Numbers(given, over[:1]),
            Numbers(given, over, Factor(0.375)),
        ):
            tensor = Tensor("w", Layout(shape, dtype), "weight", numbers)
            wanted = numbers.content().astype(F32)
            wanted = wanted + F32.type(0) if len(shape) == 1 else wanted
            np.testing.assert_array_equal(content_codes(tensor), to_codes(wanted, dtype))


@pytest.mark.usefixtures("small_blocks")
def test_products_do_not_depend_on_parts() -> None:
    generator = np.random.default_rng(3)
    for left, right in (((2, 3, 20), (2, 20, 71)), ((3, 20), (2, 20, 71)), ((4, 1, 33), (33, 99))):
        a, b = generator.normal(size=left), generator.normal(size=right).astype(F32)
        for one in (b, np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)):
            found = contraction.multiply(a, one)
            np.testing.assert_allclose(found, np.matmul(a, b), rtol=1e-13, atol=1e-13)


@pytest.mark.usefixtures("small_blocks")
def test_a_folder_gives_the_program_of_its_weights(tmp_path: Path) -> None:
    """Read late, in blocks and parked, or all in memory: the same bytes."""
    table = {
        "model_type": "llama", "vocab_size": 61, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    }  # fmt: skip
    folder = tmp_path / "decoder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(table))
    config = read_config(folder)
    weights = {name: array.astype(BF16) for name, array in drawn_weights(config, 5).items()}
    save_safetensors(folder / "model.safetensors", weights)
    assert isinstance(decoder_folder.read_decoder(folder)[1]["model.norm.weight"], Deferred)
    capacity = Capacity(8, (16,))
    compile_decoder(folder, capacity).save(tmp_path / "late.twb")
    with pytest.MonkeyPatch.context() as usual:
        usual.setattr(calls, "LARGE", 1 << 40)
        usual.setattr(contraction, "PART", 1 << 40)
        usual.setattr(contraction, "LARGE_PART", 1 << 40)
        usual.setattr(entries, "PARKED", 1 << 40)
        plain = {
            name: array if name == decoder_folder.EMBEDDING else array.astype(F32)
            for name, array in weights.items()
        }
        compile_weights(config, plain, capacity, name="decoder").save(tmp_path / "early.twb")
    assert (tmp_path / "late.twb").read_bytes() == (tmp_path / "early.twb").read_bytes()


def test_a_file_of_arrays_that_are_made_when_written(tmp_path: Path) -> None:
    array = as_weight(Deferred((2, 3), F32, lambda: np.arange(6, dtype=F32).reshape(2, 3)))
    save_safetensors(tmp_path / "made.safetensors", {"a": array})
    save_safetensors(tmp_path / "held.safetensors", {"a": np.asarray(array)})
    made, held = ((tmp_path / f"{n}.safetensors").read_bytes() for n in ("made", "held"))
    assert made == held


def test_changes_in_memory_are_not_let_go(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    changed = np.memmap(tmp_path / "file", np.uint8, "c")
    changed[5000] = 7
    changed.flags.writeable = False
    let_go_of_pages(np.asarray(changed))
    assert changed[5000] == 7
