"""Stacks of identical layers, with what is around them: skips, second readers, host parts."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported

WIDTH = 32


def _normed(net: ModelBuilder, y: Value, layers: int = 4, name: str = "layers") -> Value:
    """y = y + linear(norm(y)), several times."""
    for number in range(layers):
        with net.layer(f"{name}.{number}"):
            y = y + net.linear(net.layer_norm(y, "norm"), y.shape[-1], "linear")
    return y


def _rectified(net: ModelBuilder, y: Value, layers: int = 4, name: str = "layers") -> Value:
    """y = relu(linear(y)), several times."""
    for number in range(layers):
        with net.layer(f"{name}.{number}"):
            y = net.relu(net.linear(y, y.shape[-1], "linear"))
    return y


def _on_the_host(net: ModelBuilder, x: Value) -> Value:
    with net.layer("hosted"):
        return net.linear(x, WIDTH, "linear")


def _input(net: ModelBuilder) -> Value:
    return net.input("x", (33, WIDTH))


def read_after_the_loop(net: ModelBuilder) -> None:
    x = _input(net)
    net.output("y", net.linear(_normed(net, x), WIDTH, "head") + x)


def two_heads(net: ModelBuilder) -> None:
    x = _input(net)
    y = _rectified(net, x)
    net.output("o", net.linear(y, WIDTH, "o"))
    net.output("p", net.linear(x, WIDTH, "p"))


def start_is_an_output(net: ModelBuilder) -> None:
    start = net.silu(_input(net))
    net.output("start", start)
    net.output("y", _normed(net, start))


def result_and_more_work(net: ModelBuilder) -> None:
    """The result of the loop is an output, and large tensors come behind it."""
    y = _normed(net, net.silu(_input(net)))
    net.output("y", y)
    wide = net.gelu(net.linear(y, 256, "up"))
    net.output("z", net.linear(net.silu(wide), WIDTH, "down"))


def returned_unchanged(net: ModelBuilder) -> None:
    x = _input(net)
    net.output("same", x)
    net.output("y", _normed(net, x))


def read_in_every_round(net: ModelBuilder) -> None:
    """The start is carried and, beside that, read by all rounds as it was."""
    x = net.silu(_input(net))
    y = x
    for number in range(4):
        with net.layer(f"layers.{number}"):
            y = net.linear(net.layer_norm(y, "norm"), WIDTH, "linear") + x
    net.output("y", y)


def first_result_read_in_every_round(net: ModelBuilder) -> None:
    """All rounds read what the first one made."""
    x = _input(net)
    first = None
    y = x
    for number in range(4):
        with net.layer(f"layers.{number}"):
            z = net.linear(net.layer_norm(y, "norm"), WIDTH, "linear")
            first = z if first is None else first
            y = net.silu(z + first)
    net.output("y", y)


def two_carried(net: ModelBuilder) -> None:
    """Two values go from round to round, from the same start."""
    x = net.silu(_input(net))
    a = b = x
    for number in range(4):
        with net.layer(f"layers.{number}"):
            a = a + net.linear(net.layer_norm(b, "norm_a"), WIDTH, "a")
            b = net.silu(b) + net.linear(net.layer_norm(a, "norm_b"), WIDTH, "b")
    net.output("a", a)
    net.output("b", b)


def a_view_is_read(net: ModelBuilder) -> None:
    x = net.silu(_input(net))
    y = _normed(net, x)
    flat = net.reshape(x, (1, 33 * WIDTH))
    net.output("y", net.linear(y, WIDTH, "head"))
    net.output("flat", net.silu(flat))


def the_host_reads_it(net: ModelBuilder) -> None:
    """What a tower starts from goes to the host, and the host's result into another tower."""
    x = net.silu(_input(net))
    y = _normed(net, x)
    turned = _on_the_host(net, x)
    net.output("y", y)
    net.output("z", _normed(net, turned + y, 3, "more"))


def a_later_part_reads_it(net: ModelBuilder) -> None:
    """The device comes back to it after a turn of the host."""
    x = net.silu(_input(net))
    y = _on_the_host(net, _normed(net, x))
    net.output("y", net.linear(y, WIDTH, "head") + x)


def towers_after_each_other(net: ModelBuilder) -> None:
    x = _input(net)
    first = _normed(net, x, 4, "first")
    second = _normed(net, net.silu(first), 4, "second")
    net.output("y", second + first)


def images(net: ModelBuilder) -> None:
    """As of EDSR: blocks of two convolutions with a skip around each, and one around all."""
    x = net.input("x", (1, 3, 4, 5))
    head = net.conv2d(x, 32, 3, "head", padding=1)
    y = head
    for number in range(5):
        with net.layer(f"blocks.{number}"):
            inner = net.relu(net.conv2d(y, 32, 3, "conv1", padding=1))
            y = y + net.conv2d(inner, 32, 3, "conv2", padding=1)
    y = net.conv2d(y, 32, 3, "body", padding=1) + head
    net.output("y", net.conv2d(y, 3, 3, "tail", padding=1))


def images_kept(net: ModelBuilder) -> None:
    """A stack of plain convolutions whose start is read again."""
    x = net.input("x", (1, 32, 5, 6))
    start = net.relu(net.conv2d(x, 32, 3, "head", padding=1))
    y = start
    for number in range(5):
        with net.layer(f"blocks.{number}"):
            y = net.relu(net.conv2d(y, 32, 3, "conv", padding=1))
    net.output("y", net.relu(net.conv2d(y + start, 32, 3, "tail", padding=1)))


def without_weights(net: ModelBuilder) -> None:
    x = _input(net)
    for _ in range(4):
        x = net.softmax(x) * 3.0
    net.output("y", x)


def the_host_mixes(net: ModelBuilder) -> None:
    """Several values of one shape go to the host and come back, there and back again."""
    x = _input(net)
    with net.layer("hosted"):
        a, b = net.linear(x, WIDTH, "a"), net.linear(x, WIDTH, "b")
        with net._at("mix"):  # names operations without weights as well
            b = net.silu(b)
            c = net.softmax(a * 0.5) + b
    y = _normed(net, a, 3) + net.linear(b, WIDTH, "middle")
    z = net.silu(net.linear(c, WIDTH, "other"))
    with net.layer("hosted"), net._at("again"):
        y = net.binary("elementwise_sub", y, z)
        z = net.relu(z) * 3.0
        net.output("w", net.binary("elementwise_max", z, x))
    net.output("y", net.linear(y, WIDTH, "head") + z)
    net.output("z", z)


def lookups(net: ModelBuilder) -> None:
    """Two tables, looked up by the host."""
    ids, kinds = net.input("ids", (1, 33), "i64"), net.input("kinds", (1, 33), "i64")
    x = net.embedding(ids, 40, WIDTH, "words") + net.embedding(kinds, 40, WIDTH, "kinds")
    net.output("y", net.linear(_normed(net, x, 3), WIDTH, "head"))
    net.output("x", x)


def a_batch_of_products(net: ModelBuilder) -> None:
    """Long loops over a batch: linear layers without much beside them."""
    x = net.input("x", (40, 4, WIDTH))
    y = net.linear(net.silu(net.linear(x, 64, "up")), WIDTH, "down")
    net.output("y", net.layer_norm(y, "norm") + x)


def attention_layers(net: ModelBuilder) -> None:
    """Heads of attention between linear layers, twice."""
    y = net.input("x", (1, 33, 64))
    for number in range(2):
        with net.layer(f"layers.{number}"):
            n = net.rms_norm(y, "norm")
            q, k, v = (net.heads(net.linear(n, 64, name), 2) for name in "qkv")
            y = y + net.linear(net.attention(q, k, v), 64, "out")
    net.output("y", y)


def inputs_and_outputs_of_every_layer(net: ModelBuilder) -> None:
    """A layer has an input and an output of its own, which is read in the layer as well."""
    y = _input(net)
    given = [net.input(f"given{number}", (33, WIDTH)) for number in range(4)]
    for number, other in enumerate(given):
        with net.layer(f"layers.{number}"):
            kept = net.linear(net.layer_norm(y, "norm"), WIDTH, "kept")
            net.output(f"kept{number}", kept)
            y = y + net.linear(net.silu(kept + other), WIDTH, "linear")
    net.output("y", y)


def kinds_of_layers_in_turn(net: ModelBuilder) -> None:
    """Two kinds of layers; of the second the outputs are asked for at the end."""
    y, left = _input(net), []
    for number in range(6):
        other = net.input(f"given{number}", (33, WIDTH))
        with net.layer(f"layers.{number}"):
            n = net.layer_norm(y, "norm")
            if number % 2:
                left.append(net.linear(net.relu(net.linear(n, WIDTH, "a")), WIDTH, "b"))
                y = y + net.linear(n + other, WIDTH, "linear")
            else:
                y = y + net.silu(net.linear(net.relu(n * other), WIDTH, "linear"))
    net.output("y", y)
    for number, value in enumerate(left):
        net.output(f"left{number}", value)


def an_input_of_two_layers(net: ModelBuilder) -> None:
    """Inputs of layers, of which one is read by the next layer as well and one at the end."""
    y = _input(net)
    given = [net.input(f"given{number}", (33, WIDTH)) for number in range(4)]
    for number, other in enumerate((given[0], given[0], given[1], given[2], given[3])):
        with net.layer(f"layers.{number}"):
            y = net.silu(net.linear(y, WIDTH, "linear") + other)
    net.output("y", y + given[3])


def some_layers_have_outputs(net: ModelBuilder) -> None:
    """Results of the first and the third layer leave the model, one of them on its way."""
    y = _input(net)
    for number in range(5):
        with net.layer(f"layers.{number}"):
            y = net.silu(net.linear(y, WIDTH, "linear"))
            if number in (0, 2):
                net.output(f"kept{number}", y)
    net.output("y", y)


def norms_before_products(net: ModelBuilder) -> None:
    """The weights of a product can come while the rows before it are normed."""
    y = net.input("x", (1, 96, 96))
    for number in range(4):
        with net.layer(f"layers.{number}"):
            n = net.layer_norm(y, "norm")
            y = y + net.linear(net.relu(net.linear(n, 250, "up")), 96, "down")
    net.output("y", y)


MODELS: list[Callable[[ModelBuilder], None]] = [
    read_after_the_loop, two_heads, start_is_an_output, result_and_more_work, returned_unchanged,
    read_in_every_round, two_carried, a_view_is_read, the_host_reads_it, a_later_part_reads_it,
    towers_after_each_other, images, images_kept, without_weights,
    first_result_read_in_every_round, inputs_and_outputs_of_every_layer, kinds_of_layers_in_turn,
    an_input_of_two_layers, some_layers_have_outputs, the_host_mixes, lookups, a_batch_of_products,
    attention_layers, norms_before_products,
]  # fmt: skip

FOLDING = 19  # the first of them have layers that fold

# Those of which the host does a part.
HOSTED = [the_host_reads_it, a_later_part_reads_it, the_host_mixes, lookups, images, images_kept]


def built(make: Callable[[ModelBuilder], None]) -> Imported:
    net = ModelBuilder(make.__name__, seed=5)
    make(net)
    return net.build()
