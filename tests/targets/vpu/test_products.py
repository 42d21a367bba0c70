"""Products in tiles: the scheduled list computes what the whole product does, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.builder import Builder
from tilewright.targets.vpu.lowering.products import Tiling, choose_tiling, product
from tilewright.targets.vpu.machine import preset
from tilewright.targets.vpu.operations import dpu
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.scheduling.schedule import Schedule, portfolio
from tilewright.targets.vpu.simulator import Options, jittered
from tilewright.targets.vpu.values import run_values

pytestmark = pytest.mark.usefixtures("little_search")


def computed(
    made: Schedule, builder: Builder, inputs: dict[str, np.ndarray], name: str, seed: int
) -> bytes:
    """The bytes of an output tensor after a run with values under some timing."""
    ddr = np.zeros(max(place + size for place, size in made.tasks.ddr.values()), np.uint8)
    for label, array in inputs.items():
        address, size = made.tasks.ddr[label]
        ddr[address : address + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    options = Options(durations=jittered(made.tasks, seed)) if seed else Options()
    outcome = run_values(made.tasks, options, builder.operations(), kernels(), ddr, seed)
    assert not outcome.torn and not outcome.run.stuck
    address, size = made.tasks.ddr[name]
    return outcome.ddr[address : address + size].tobytes()


@pytest.mark.parametrize(
    ("shape", "cmx", "tiling"),
    [((50, 130, 70), 12288, None), ((37, 64, 50), 8192, None), ((1, 128, 33), 4096, None),
     ((40, 200, 48), 16384, Tiling(16, 16, 64, True)), ((64, 96, 64), 262144, None)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["i8", "f16"])
def test_tiled_products_are_the_whole_product(shape, cmx: int, tiling, dtype: str) -> None:
    rows, inner, columns = shape
    rng = np.random.default_rng(rows)
    machine = replace(preset("tiny"), cmx_bytes=cmx)
    builder = Builder(machine)
    a = builder.tensor("a", dtype, (rows, inner))
    w = builder.tensor("w", dtype, (columns, inner))
    y = builder.tensor("y", dtype, (rows, columns))
    if dtype == "i8":
        inputs = {
            "a": rng.integers(-128, 128, (rows, inner), dtype=np.int8),
            "w": rng.integers(-128, 128, (columns, inner), dtype=np.int8),
            "scale": (rng.random(columns) * 1e-3).astype(np.float32),
            "bias": rng.integers(-9999, 9999, columns, dtype=np.int32),
        }
        scale = builder.tensor("scale", "f32", (columns,))
        bias = builder.tensor("bias", "i32", (columns,))
        product(builder, a, w, y, scale, bias, tiling, relu=True)
        options = {"operands": ("bias", "scale"), "output": "i8", "relu": True}
        more = [inputs["bias"], inputs["scale"]]
    else:
        inputs = {
            "a": rng.standard_normal((rows, inner)).astype(np.float16),
            "w": rng.standard_normal((columns, inner)).astype(np.float16),
        }
        product(builder, a, w, y, tiling=tiling)
        options, more = {"output": "f16"}, []
    (wanted,) = dpu.matmul([inputs["a"], inputs["w"], *more], options)
    graph = builder.graph()
    made = portfolio(graph)
    assert verify(made.tasks, graph, strict=True) == []
    for seed in (0, 1):
        assert computed(made, builder, inputs, "y", seed) == wanted.tobytes()


def test_a_moved_tensor_part_is_found() -> None:
    builder = Builder(replace(preset("tiny"), cmx_bytes=16384))
    a, w = builder.tensor("a", "f16", (32, 64)), builder.tensor("w", "f16", (48, 64))
    product(builder, a, w, builder.tensor("y", "f16", (32, 48)))
    graph = builder.graph()
    tasks = portfolio(graph).tasks
    for name, item in tasks.tasks.items():
        for side in ("reads", "writes"):
            ranges = list(getattr(item, side))
            for place, found in enumerate(ranges):
                moved = [*ranges]
                moved[place] = replace(found, address=found.address + 64)
                damaged = replace(item, **{side: tuple(moved)})
                assert verify(replace(tasks, tasks={**tasks.tasks, name: damaged}), graph)


def test_a_product_that_cannot_fit_says_how_much_is_missing() -> None:
    with pytest.raises(TilewrightError, match="smallest tile of a 10 x 10 x 10"):
        choose_tiling(replace(preset("tiny"), cmx_bytes=128), 10, 10, 10, "i8", "i8")


def test_weights_of_a_large_product_stream_beside_the_work() -> None:
    builder = Builder(preset("vpu40"))
    a = builder.tensor("a", "i8", (512, 2048))
    w = builder.tensor("w", "i8", (2048, 2048))
    scale = builder.tensor("scale", "f32", (2048,))
    product(builder, a, w, builder.tensor("y", "f16", (512, 2048)), scale)
    made = portfolio(builder.graph())
    assert made.bounds.strong / made.makespan >= 0.9
    assert not [step for step in made.draft.steps if step.kind != "task"]
