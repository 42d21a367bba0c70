"""Mistakes are reported at the author's line, with the numbers involved."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError

SIZES = {"M": 64, "N": 96, "K": 40}
A = tw.bf16["M", "N"]
B = tw.bf16["M", "K"]
F = tw.fp8["M", "N"]
V = tw.bf16["N"]


def broadcast(x: A, y: B, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] + y[m, :]  # here


def product_of_bf16(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] @ x[m, :]  # here


def product_shapes(a: F, b: tw.fp8["K", "M"], out: tw.bf16["M", "M"]):
    for m in tw.grid(a.M):
        out[m, m] = a[m, :] @ b[:, m]  # here


def accumulator_shapes(a: F, b: tw.fp8["N", "K"], out: tw.bf16["M", "K"]):
    for m in tw.grid(a.M):
        acc = tw.zeros()
        acc += a[m, :] @ b[:, :]
        for k in tw.steps(b.K):
            acc += a[m, :] @ b[:, k]  # here
        out[m, :] = acc


def unset_accumulator(x: A, out: A):
    acc = tw.zeros()
    for m in tw.grid(x.M):
        out[m, :] = acc + x[m, :]  # here


def unset_state(x: A, out: A):
    total = tw.state()
    for m in tw.grid(x.M):
        out[m, :] = total + x[m, :]  # here


def state_changes_shape(x: A, y: B, out: A):
    for m in tw.grid(x.M):
        kept = tw.state(x[m, :])
        kept.set(y[m, :])  # here
        out[m, :] = kept


def scale(x: A, out: F):
    for m in tw.grid(x.M):
        out[m, :] = tw.to_fp8(x[m, :], scale=-0.5)  # here


def scale_of_zero(x: A, out: F):
    for m in tw.grid(x.M):
        out[m, :] = tw.to_fp8(x[m, :], scale=1e-50)  # here


def scale_as_text(f: F, out: A):
    for m in tw.grid(f.M):
        out[m, :] = tw.to_bf16(f[m, :], scale="4")  # pyright: ignore  # here


def scale_shape(x: A, y: B, out: F):
    for m in tw.grid(x.M):
        out[m, :] = tw.to_fp8(x[m, :], scale=y[m, :])  # here


def wrong_dtype(x: A, f: F, out: A):
    for m in tw.grid(x.M):
        out[m, :] = tw.exp(f[m, :])  # here


def wrong_output(x: A, out: F):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :]  # here


def transposed_bf16(x: A, out: tw.bf16["N", "M"]):
    for m in tw.grid(x.M):
        out[:, m] = x[m, :].T  # here


def transposed_column(x: tw.fp8["M", 1], y: A, out: A):
    for m in tw.grid(out.M):
        out[m, :] = x[m, :] @ x[m, :].T  # here


def carried_by_hand(x: A, out: A):
    for m in tw.grid(x.M):
        total = x[m, :]
        for _ in tw.grid(x.N):  # here
            total = total + x[m, :]
        out[m, :] = total


def number_becomes_tile(x: A, out: A):
    for m in tw.grid(x.M):
        total = 0.0
        for n in tw.grid(x.N):  # here
            total = total + tw.row_sum(x[m, n])
        out[m, :] = x[m, :] * total


def nothing_becomes_tile(x: A, out: A):
    last = None
    for m in tw.grid(x.M):  # here
        here = x[m, :] if last is None else x[m, :] + last
        last = here
        out[m, :] = here


def counted_by_hand(x: A, out: A):
    step = 0
    for m in tw.grid(x.M):  # here
        out[m, :] = x[m, :] * float(step)
        step = step + 2


def left_loop(x: A, out: A):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            last = tw.exp(x[m, n])
        out[m, n] = last  # pyright: ignore  # here


def block_size(x: A, out: A):
    for m in tw.grid(x.M, 48):  # here
        out[m, :] = x[m, :]


def wrong_block(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[:, m]  # here


def wrong_index(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, 0:32]  # here


def too_few_indices(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m]  # here


def read_output(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] + out[m, :]  # here


def write_input(x: A, out: A):
    for m in tw.grid(x.M):
        x[m, :] = x[m, :]  # here


def does_not_fill(x: A, y: B, out: A):
    for m in tw.grid(x.M):
        out[m, :] = y[m, :]  # here


def text_as_tile(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = "1.0"  # here


def nothing_as_tile(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = tw.exp2(None)  # pyright: ignore  # here


def values_while_traced(x: A, out: A):
    for m in tw.grid(x.M):
        print(np.asarray(x[m, :]))  # here
        out[m, :] = x[m, :]


def head_outside(q: tw.fp8[2, "M", "N"], out: tw.bf16[2, "M", "M"]):
    for m in tw.grid(q.M):
        out[1, m, :] = q[0, m, :] @ q[2, :, :].T  # here


def divided_index(q: tw.fp8[4, "M", "N"], k: tw.fp8[2, "M", "N"], out: tw.bf16[4, "M", "M"]):
    for h in tw.each(4):
        out[h, :, :] = q[h, :, :] @ k[h // 2.0, :, :].T  # pyright: ignore  # here


def tensor_for_tile(x: tw.bf16["M", "N"], g: tw.bf16["N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        out[m, :] = x[m, :] * g  # pyright: ignore  # here


def one_row(x: tw.bf16["M", "N"], w: tw.bf16["K", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        out[m, :] = x[m, :] * w[0, :]  # here


def one_column(x: tw.bf16["M", "N"], w: tw.bf16[2, "M", "K"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        for k in tw.each(w.K):
            out[m, :] = x[m, :] * w[0, m, k]  # here


def index_times_tile(q: tw.bf16[4, "M", "N"], out: tw.bf16[4, "M", "N"]):
    for h in tw.each(4):
        out[h, :, :] = h * q[h, :, :]  # pyright: ignore  # here


def index_over_nothing(q: tw.bf16[4, "M", "N"], out: tw.bf16[4, "M", "N"]):
    for h in tw.each(4, unroll=True):
        out[h, :, :] = q[h // 0, :, :]  # here


def bad_unit(x: A, out: A):
    tw.options(units=2)  # here
    for m in tw.grid(x.M):
        out[m, :] = x[m, :]


def bad_stationary(x: A, out: A):
    tw.options(stationary="rows")  # here
    for m in tw.grid(x.M):
        out[m, :] = x[m, :]


def bad_depth(x: A, out: A):
    tw.options(depth=1)  # here
    for m in tw.grid(x.M):
        out[m, :] = x[m, :]


def vmem(x: tw.bf16["M", 8192], out: tw.bf16["M", 8192]):
    for m in tw.grid(x.M, 64):
        powers = tw.exp(x[m, :])  # here
        out[m, :] = powers / tw.row_sum(powers)


def condition(x: A, out: A):
    for m in tw.grid(x.M):
        if x[m, :]:  # here
            out[m, :] = x[m, :]


def comparison(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = max(x[m, :], 0.0)  # pyright: ignore  # here


def equality(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] == 1.0  # pyright: ignore  # here


def power(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] ** 0.5  # here


def loop_over_tile(x: A, out: A):
    for m in tw.grid(x.M):
        for part in x[m, :]:  # here
            out[m, :] = part


def one_number(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] * float(tw.row_sum(x[m, :]))  # pyright: ignore  # here


def huge_number(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] * 1e39  # here


def unknown_size(x: A, out: A):
    for m in tw.grid(x.Q):  # here
        out[m, :] = x[m, :]


def rows_of_vector(x: A, out: V):
    for m in tw.grid(x.M):
        out[:] = x[m, :]  # here


def column_too_short(a: F, b: tw.fp8["N", "K"], out: tw.bf16["M", "K"]):
    for m in tw.grid(a.M):
        for k in tw.grid(b.K):
            rows = [a[m, n] for n in tw.steps(a.N, unroll=True)]
            for _, y in tw.row_products(rows, [[b[:, k]]]):  # here
                out[m, k] = y


MISTAKES: list[tuple[Callable[..., None], str, str]] = [
    (condition, "TW1648", "a tile as a condition is not possible"),
    (comparison, "TW1648", "a comparison of tiles is not possible"),
    (equality, "TW1648", "a comparison of tiles is not possible"),
    (power, "TW1648", "a tile to the power 0.5 is not possible"),
    (loop_over_tile, "TW1648", "a loop over a tile is not possible"),
    (one_number, "TW1648", "a tile as one number is not possible"),
    (huge_number, "TW1616", "1e+39 is beyond the largest bf16 number, 3.39e38"),
    (unknown_size, "TW1645", "x has no size Q"),
    (broadcast, "TW1618", "tiles of 32x96 and 32x40 do not broadcast"),
    (product_of_bf16, "TW1611", "a matrix product takes fp8 tiles, this one is bf16"),
    (product_shapes, "TW1612", "a product of 32x96 and 40x32 tiles does not fit"),
    (accumulator_shapes, "TW1614", "a product of 32x32 in an accumulator of 32x40"),
    (unset_accumulator, "TW1615", "the accumulator is used before anything is added"),
    (unset_state, "TW1625", "the state is used before it is set"),
    (
        state_changes_shape,
        "TW1626",
        "the state is a bf16 tile of 32x96, it cannot become a bf16 tile of 32x40",
    ),
    (scale, "TW1624", "scale -0.5 is outside 1.18e-38 to 8.51e+37"),
    (scale_of_zero, "TW1624", "scale 1e-50 is outside 1.18e-38 to 8.51e+37"),
    (scale_as_text, "TW1624", "a scale is a number, a row or a column, not str"),
    (scale_shape, "TW1618", "tiles of 32x96 and 32x40 do not broadcast"),
    (wrong_dtype, "TW1617", "this operation takes bf16 tiles, not fp8"),
    (wrong_output, "TW1609", "out holds fp8, the tile is bf16"),
    (transposed_bf16, "TW1610", "only fp8 tiles can be transposed, this one is bf16"),
    (transposed_column, "TW1610", "only whole tiles can be transposed, this one is a column"),
    (carried_by_hand, "TW1632", "total changes from one step of the loop to the next"),
    (number_becomes_tile, "TW1632", "total changes from one step of the loop to the next"),
    (nothing_becomes_tile, "TW1632", "last changes from one step of the loop to the next"),
    (counted_by_hand, "TW1632", "step changes from one step of the loop to the next"),
    (left_loop, "TW1631", "this tile was computed in a loop that has ended"),
    (block_size, "TW1623", "a block of 48 elements is not a multiple of 32"),
    (wrong_block, "TW1604", "a block of a dimension of 64 indexes a dimension of 96 of x"),
    (wrong_index, "TW1605", "slice(0, 32, None) does not index a tile dimension of x"),
    (too_few_indices, "TW1607", "x has 2 dimensions, 1 indices given"),
    (read_output, "TW1629", "out is read before it is written"),
    (write_input, "TW1630", "x is an input and cannot be assigned"),
    (does_not_fill, "TW1642", "a tile of 32x40 does not fill 32x96 of out"),
    (text_as_tile, "TW1616", "a tile is needed here, not '1.0'"),
    (nothing_as_tile, "TW1616", "a tile is needed here, not None"),
    (values_while_traced, "TW1628", "tiles have no numbers while a kernel is traced"),
    (head_outside, "TW1608", "index 2 is outside a dimension of 2 of q"),
    (divided_index, "TW1604", "an index is divided by a whole number, not float"),
    (tensor_for_tile, "TW1616", "a tile is needed here, not the tensor g"),
    (one_row, "TW1605", "0 does not index a tile dimension of w"),
    (one_column, "TW1605", "the index of a leading dimension does not index a tile dimension of w"),
    (index_times_tile, "TW1604", "an index is multiplied with a whole number, not TileArray"),
    (index_over_nothing, "TW1604", "an index cannot be divided by 0"),
    (column_too_short, "TW1650", "a column of 1 tiles does not meet rows of 3"),
    (bad_unit, "TW1635", "units 2 do not name matrix units"),
    (bad_stationary, "TW1636", 'stationary is "weights" or "activations", not \'rows\''),
    (bad_depth, "TW1637", "depth is a number from 2 on, not 1"),
    (rows_of_vector, "TW1642", "a tile of 32x96 does not fill 1x96 of out"),
]


def line_of(function: Callable[..., None]) -> int:
    """The line marked `# here`."""
    lines, start = inspect.getsourcelines(function)
    (found,) = [start + k for k, line in enumerate(lines) if line.endswith("# here\n")]
    return found


@tw.kernel
def names_used_again(x: A, out: A):
    """Variables that every step sets before it reads them, and counters of steps written out."""
    part, scale = x[:, :], 1.0
    for m in tw.grid(x.M):
        scale = 2.0
        for part in (x[m, :], x[m, :] * scale):
            scale = scale * (1 if part is None else 2)
        total = sum((part * factor for factor in range(1, 3)), part)  # pyright: ignore
        out[m, :] = total * 0.5
    for m in tw.grid(x.M, unroll=True):
        out[m, :] = x[m, :] * scale
        scale = scale / 2


def test_names_may_be_used_again() -> None:
    x = np.random.default_rng(0).standard_normal((160, 40))
    found = names_used_again.compile(x).run(x)
    assert found.tobytes() == names_used_again.eager(x).tobytes()


def sizes_of(kernel: Any) -> dict[str, Any]:
    names = {s for spec in kernel.specs.values() for s in spec.sizes if isinstance(s, str)}
    return {name: size for name, size in SIZES.items() if name in names}


def shown(value: Any) -> str:
    """A name for a test that is the same in every process."""
    return getattr(value, "__name__", str(value)[:30])


@pytest.mark.parametrize(("function", "code", "message"), MISTAKES, ids=shown)
def test_mistakes(function: Callable[..., None], code: str, message: str) -> None:
    kernel = tw.kernel(function)
    with pytest.raises(TilewrightError) as caught:
        kernel.compile(**sizes_of(kernel))
    error = caught.value
    assert (error.code, error.message) == (code, message)
    assert error.location is not None
    assert (error.location.file, error.location.line) == (__file__, line_of(function))


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (tensor_for_tile, "g[:], or some blocks of it, is a tile"),
        (one_row, 'annotate it tw.value["K", "N"].separate(), whose rows are vectors'),
        (one_column, 'annotate it tw.value[2, "K", "M", 1], whose columns are tensors'),
    ],
    ids=shown,
)
def test_hints(function: Callable[..., None], hint: str) -> None:
    kernel = tw.kernel(function)
    with pytest.raises(TilewrightError) as caught:
        kernel.compile(**sizes_of(kernel))
    assert caught.value.hint is not None and hint in caught.value.hint


EAGER = [m for m in MISTAKES if m[1] not in ("TW1631", "TW1632", "TW1628")]


@pytest.mark.parametrize(("function", "code", "message"), EAGER, ids=shown)
def test_eager_runs_report_the_same(function: Callable[..., None], code: str, message: str) -> None:
    kernel = tw.kernel(function)
    layouts = kernel.layouts(sizes_of(kernel))
    with pytest.raises(TilewrightError) as caught:
        kernel.eager(*(np.zeros(layouts[name].shape) for name in kernel.inputs))
    error = caught.value
    assert (error.code, error.message) == (code, message)
    assert error.location is not None and error.location.line == line_of(function)


def test_tiles_that_exceed_vmem() -> None:
    with pytest.raises(TilewrightError) as caught:
        tw.kernel(vmem).compile(M=640)
    error = caught.value
    assert error.code == "TW1454"
    assert re.fullmatch(r"needs [1-9]\.\d\d MiB of VMEM, atlas-v1 has 1\.00 MiB", error.message)
    assert error.location is not None and error.location.line == line_of(vmem)


def test_loops_left_early() -> None:
    @tw.kernel
    def stops(x: A, out: A):
        for m in tw.grid(x.M):
            out[m, :] = x[m, :]
            break

    with pytest.raises(TilewrightError, match="a loop of the program was left early"):
        stops.compile(M=64, N=32)


def test_outside_of_kernels() -> None:
    with pytest.raises(TilewrightError, match=r"work inside a @tw\.kernel function only"):
        tw.state(0.0)


@pytest.mark.parametrize(
    ("arrays", "code", "message"),
    [
        ((), "TW1619", "softmax takes 1 arrays (x), 0 given"),
        ((np.zeros(3),), "TW1601", "x has 1 dimensions, the kernel wants 2"),
        ((np.zeros((0, 3)),), "TW1603", "x is empty: its shape is (0, 3)"),
    ],
)
def test_wrong_arrays(arrays: tuple[Any, ...], code: str, message: str) -> None:
    @tw.kernel
    def softmax(x: A, out: A):
        raise AssertionError("not reached")

    with pytest.raises(TilewrightError) as caught:
        softmax(*arrays)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.location is not None and caught.value.location.file == __file__


def test_wrong_sizes() -> None:
    @tw.kernel
    def add(x: A, y: A, out: A):
        raise AssertionError("not reached")

    with pytest.raises(TilewrightError, match="y has size 5 where the kernel wants N = 4"):
        add.compile(x=(3, 4), y=(3, 5))
    with pytest.raises(TilewrightError, match="N is missing"):
        add.compile(M=3)
    for wrong in (5, None, (3, "N"), (3, 4.0), "MN"):
        with pytest.raises(TilewrightError, match="neither a tensor's shape nor a size"):
            add.compile(x=wrong)
    with pytest.raises(TilewrightError, match="neither a tensor's shape nor a size"):
        add.compile(M=3, N=3, Q=2)


def test_parameters_need_types() -> None:
    with pytest.raises(TilewrightError, match="parameter x of plain needs a tensor type"):

        @tw.kernel
        def plain(x, out: A):
            pass


def test_an_output_that_is_never_written() -> None:
    @tw.kernel
    def nothing(x: A, out: A):
        pass

    for run in (lambda: nothing.compile(M=32, N=32), lambda: nothing.eager(np.zeros((32, 32)))):
        with pytest.raises(TilewrightError, match="nothing never writes out") as caught:
            run()
        assert caught.value.code == "TW1629"


def test_vectors_of_fp8() -> None:
    with pytest.raises(TilewrightError, match="a vector of fp8, vectors are bf16"):

        @tw.kernel
        def bad(x: tw.fp8["N"], out: tw.bf16["N"]):
            out[:] = tw.to_bf16(x[:])


@pytest.mark.parametrize("array", [np.array([["a"]]), np.array([[1j]])])
def test_arrays_without_numbers(array: np.ndarray) -> None:
    @tw.kernel
    def copied(x: A, out: A):
        out[:, :] = +x[:, :]

    for run in (copied, copied.eager):
        with pytest.raises(TilewrightError, match="holds no real numbers") as caught:
            run(array)
        assert caught.value.code == "TW1649"


def test_sizes_that_contradict_the_arrays() -> None:
    @tw.kernel
    def copied(x: A, out: A):
        out[:, :] = x[:, :] ** 2

    with pytest.raises(TilewrightError, match="M is given as 3, the arrays have 4"):
        copied(np.zeros((4, 4)), M=3)
    assert np.array_equal(copied(np.full((4, 4), 3.0)).astype(float), np.full((4, 4), 9.0))


def two_arguments(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = tw.relu(x[m, :], x[m, :])  # pyright: ignore  # here


def no_such_name(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = tw.exp(y[m, :])  # pyright: ignore  # here


def no_such_function(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = tw.reluu(x[m, :])  # pyright: ignore  # here


def no_such_method(x: A, out: A):
    for m in tw.grid(x.M):
        out[m, :] = x[m, :].relu()  # pyright: ignore  # here


STOPS = [two_arguments, no_such_name, no_such_function, no_such_method]


@pytest.mark.parametrize("function", STOPS, ids=lambda f: f.__name__)
def test_what_python_itself_does_not_like(function: Callable[..., None]) -> None:
    """Mistakes that Python finds are reported like ours, with the exception behind them."""
    kernel = tw.kernel(function)
    for run in (
        lambda: kernel.compile(**sizes_of(kernel)),
        lambda: kernel.ir(**sizes_of(kernel)),
        lambda: kernel.eager(np.zeros((64, 96))),
    ):
        with pytest.raises(TilewrightError) as caught:
            run()
        error = caught.value
        assert error.code == "TW1651" and isinstance(error.__cause__, Exception)
        assert error.message.startswith(f"{function.__name__} stops here with ")
        assert error.location is not None and error.location.line == line_of(function)


def test_kernels_are_functions() -> None:
    for thing in (3, print, Callable):
        with pytest.raises(TilewrightError, match="a kernel is a function of tensors") as caught:
            tw.kernel(thing)  # pyright: ignore
        assert caught.value.code == "TW1621"
    with pytest.raises(TypeError, match="at least one size"):
        tw.bf16[()]
