"""Host and device in turns: values and their views, operands that are repeated or turned, names of
weights, dimensions of size 1, deep models. Compared with numpy, not with the compiler's own idea."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tilewright.compiling import compile
from tilewright.dialects.intents import map_attribute
from tilewright.dialects.xdsl_api import ArrayAttr, IntegerAttr, TensorType, f32, i64
from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.model.angles import angles_of
from tilewright.model.capture import capture
from tilewright.model.simplify import simplify
from tilewright.program import Program
from tilewright.reference.executor import Executor
from tilewright.targets.artifact import DevicePart, HostPart
from tilewright.targets.atlas.model.lowering import Lowering
from tilewright.targets.atlas.model.partition import DeviceWork, partition
from tilewright.targets.atlas.profile import load_profile


def close(actual: np.ndarray, wanted: np.ndarray, least: float = 0.999) -> None:
    a, b = (np.asarray(x, np.float64).reshape(-1) for x in (actual, wanted))
    cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    assert actual.shape == wanted.shape and cosine > least, cosine


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cumsum(net: ModelBuilder, x: Value, axis: int) -> Value:
    """Something that only the host computes."""
    return net._call("cumsum", [x], x.shape, {"axis": IntegerAttr(axis, i64)})


def test_a_value_and_a_view_of_it_share_a_tensor():
    net = ModelBuilder("views")
    x = net.input("x", (5, 8))
    y = net.relu(x)
    net.output("sums", cumsum(net, net.reshape(y, (1, 5, 8)), 1))
    net.output("y", y)
    net.output("again", net.reshape(y, (1, 1, 5, 8)))
    program, given = compile(net.build()), normal(5, 8)
    sums, y, again = program(given)
    close(y, np.maximum(given, 0))
    close(sums, np.cumsum(np.maximum(given, 0), 0)[None])
    assert np.array_equal(again.reshape(y.shape), y)
    assert program.verify().ok


@pytest.mark.parametrize("seed", range(25))
def test_parts_of_random_models_have_an_order(seed):
    """Random mixes of host and device operations, views among them: every part reads only what
    parts before it made, and no part could be joined with the one before the last."""
    random = np.random.default_rng(seed)
    net = ModelBuilder("random", seed=seed)
    values = [net.input("x", (6, 32))]
    for _ in range(int(random.integers(3, 14))):
        x = values[int(random.integers(len(values)))]
        kind = int(random.integers(6))
        if kind == 0:
            values.append(net.relu(x))
        elif kind == 1:
            values.append(cumsum(net, x, 0))
        elif kind == 2:
            values.append(net.reshape(x, (6, 1, 32) if len(x.shape) == 2 else (6, 32)))
        elif kind == 3 and len(x.shape) == 2:
            values.append(net.linear(x, 32, f"layer{len(values)}"))
        elif kind == 4:
            joined = net.reshape(x, (3, 64))
            values.append(net.reshape(cumsum(net, joined, 1), (6, 32)))
        else:
            alike = [v for v in values if v.shape == x.shape]
            values.append(x + alike[int(random.integers(len(alike)))])
    for number in range(1 + int(random.integers(3))):
        net.output(f"y{number}", values[-1 - int(random.integers(min(4, len(values) - 1)))])
    model = simplify(net.build())
    graph = capture(model)
    lowered = Lowering(graph, load_profile("atlas-v1")).run()
    parts = partition(graph, lowered, set())
    values_there, tensors_there = {*graph.inputs, *graph.constants}, set()
    for one, two in pairwise(parts):
        assert isinstance(one, DeviceWork) != isinstance(two, DeviceWork)
    for part in parts:
        if isinstance(part, DeviceWork):
            for call in part.calls:
                for tensor in call.operands.values():
                    assert tensor in tensors_there or tensor.content is not None
                tensors_there.add(call.output)
            made = {v for v, t in lowered.outputs.items() if t in tensors_there}
            values_there |= made
            continue
        for node in part.nodes:
            assert set(node.operands) <= values_there
            values_there.add(node.result)
        for entry in part.converted:
            assert entry.value in values_there
            tensors_there.add(entry.tensor)
    assert all(value in values_there for _, value in graph.outputs)


def test_weights_with_names_that_are_no_identifiers():
    """Names of nn.Sequential begin with digits; anything may be in a name."""
    for name in ("0", "3.weight", 'a "b" \\c', "é/ü", " "):
        net = ModelBuilder("names")
        tokens = net.input("tokens", (7,), "i64")
        x = net.embedding(tokens, 50, 32, name)
        net.output("y", net.linear(x, 32, f"{name}.1"))
        imported = net.build()
        program, ids = compile(imported), np.arange(7, dtype=np.int64) * 7
        (wanted,) = Executor(imported.module, imported.weights).run([ids])
        close(program(ids), wanted)


# --- operands ---------------------------------------------------------------------------------

MAPS = {
    "row": ((40,), (1,), lambda x, c: x + c[None, :]),
    "column": ((40,), (0,), lambda x, c: x + c[:, None]),
    "turned": ((40, 40), (1, 0), lambda x, c: x + c.T),
    "straight": ((40, 40), (0, 1), lambda x, c: x + c),
}


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("product", [True, False])
def test_operands_are_read_as_their_maps_say(kind, constant, product):
    """On a square, shapes do not tell rows from columns: neither for what is added element by
    element nor for what looks like the bias of a product."""
    shape, read, function = MAPS[kind]
    other = normal(*shape, seed=1) * 3
    net = ModelBuilder("maps")
    x = net.input("x", (40, 40))
    c = net.weight("c", other) if constant else net.input("c", shape)
    x = net.linear(x, 40, "layer", bias=False) if product else net.relu(x)
    maps = ArrayAttr([map_attribute(2, (0, 1)), map_attribute(2, read)])
    net.output("y", net._call("elementwise_add", [x, c], (40, 40), {"operand_maps": maps}))
    imported, given = net.build(), normal(40, 40)
    inner = given @ imported.weights["layer.weight"].T if product else np.maximum(given, 0)
    program = compile(imported)
    close(program(given) if constant else program(given, other), function(inner, other))


def test_an_input_that_is_repeated():
    net = ModelBuilder("repeat")
    x = net.input("x", (1, 8))
    maps = {"operand_maps": ArrayAttr([map_attribute(2, (None, 1))])}
    net.output("y", net._call("cast", [x], (5, 8), maps) * 2.0)
    given = normal(1, 8)
    close(compile(net.build())(given), np.broadcast_to(given, (5, 8)) * 2)


# --- dimensions of size 1 -----------------------------------------------------------------------


def linear_of(shape: tuple[int, ...]) -> Program:
    net = ModelBuilder("unit", seed=1)
    x = net.layer_norm(net.input("x", shape), "norm")
    net.output("y", net.gelu(net.linear(x, 96, "layer")) * 0.5)
    return compile(net.build())


@pytest.mark.parametrize("shape", [(50, 1, 64), (1, 50, 1, 64), (50, 64)])
def test_dimensions_of_size_one_cost_nothing(shape):
    best, program = linear_of((1, 50, 64)), linear_of(shape)
    given = normal(*shape)
    assert program.cycles == best.cycles
    assert np.array_equal(program(given).reshape(50, 96), best(given.reshape(1, 50, 64))[0])


def test_attention_of_single_rows_keeps_its_batch():
    """One query per batch: heads of every batch are tiles of their own, on the device."""
    net = ModelBuilder("single", seed=2)
    x, memory = net.input("x", (3, 1, 64)), net.input("memory", (3, 20, 64))
    q, k, v = (
        net.heads(net.linear(source, 64, part), 2)
        for part, source in (("q", x), ("k", memory), ("v", memory))
    )
    net.output("y", net.linear(net.attention(q, k, v), 64, "o"))
    imported = net.build()
    program, given = compile(imported, no_host=True), [normal(3, 1, 64), normal(3, 20, 64, seed=1)]
    (wanted,) = Executor(imported.module, imported.weights).run(given)
    close(program(*given), wanted, 0.99)


# --- depth and angles -----------------------------------------------------------------------------


def test_lowering_of_a_deep_model():
    """A value asks for those it is made of, back to the inputs: through 400 layers."""
    net = ModelBuilder("deep")
    x = net.input("x", (4, 32))
    for number in range(400):
        x = x + net.relu(x) if number % 2 else cumsum(net, x, 1)
    net.output("y", x)
    model = simplify(net.build())
    lowered = Lowering(capture(model), load_profile("atlas-v1")).run()
    assert len(lowered.calls) == 200 and len(lowered.host) == 200


def test_angles_of_inputs_stay_in_float32():
    """cos(4000 * frequency) of a position; an angle that a layer computes stays on the device."""
    net = ModelBuilder("angles", seed=3)
    time = net.input("time", (6, 1))
    frequencies = net.weight("f", (1e4 ** -(np.arange(32) / 32)).astype(np.float32).reshape(1, 32))
    kind = TensorType(f32, [6, 32])
    angles = Value(net, net._intents.matmul(time.value, frequencies.value, kind))
    waves = net.unary("elementwise_cos", angles)
    hidden = net.linear(waves, 32, "layer")
    net.output("y", hidden)
    net.output("z", net.unary("elementwise_sin", hidden))
    imported = net.build()
    graph = capture(simplify(imported))
    assert sorted(node.family for node in angles_of(graph))[-2:] == ["elementwise_cos", "matmul"]
    program = compile(imported)
    at = np.array([[0], [1], [250], [999], [4000], [65000]], np.float32)
    (y, _) = Executor(imported.module, imported.weights).run([at])
    close(program(at)[0], y)


@pytest.mark.parametrize("groups", [1, 2])
def test_new_keys_behind_old_ones_are_rotated_on_the_device(groups):
    """Also with one head of keys, where turning heads to the front moves nothing."""
    net = ModelBuilder("cached")
    x = net.input("x", (1, 40, 128))
    old = [net.input(name, (1, 64, groups, 64)) for name in ("keys", "values")]
    tables = net.rotary_tables(40, 64)
    q, k, v = (
        net.heads(net.linear(x, count * 64, name), count)
        for name, count in (("q", 2), ("k", groups), ("v", groups))
    )
    k = net.concat((old[0], net.rope(k, tables)), 1)
    v = net.concat((old[1], v), 1)
    net.output("y", net.linear(net.attention(net.rope(q, tables), k, v), 128, "o"))
    model = net.build()
    program = compile(model)
    assert not any("rope" in reason for part in program.model.parts for reason in reasons_of(part))
    assert len([p for p in program.model.parts if isinstance(p, DevicePart)]) == 1
    given = [
        normal(1, 40, 128),
        normal(1, 64, groups, 64, seed=1),
        normal(1, 64, groups, 64, seed=2),
    ]
    close(program(*given), Executor(model.module, model.weights).run(given, "main")[0], 0.99)
    assert program.verify().ok


def reasons_of(part: HostPart | DevicePart) -> tuple[str, ...]:
    return part.reasons if isinstance(part, HostPart) else ()
