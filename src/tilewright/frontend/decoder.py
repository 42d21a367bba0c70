"""Decoders of the Llama, Qwen and Gemma families as entry points of fixed shapes.

    weights = read_weights("SmolLM2-135M", config)
    models = decoder_entries(config, weights, Capacity(prompt=128, slots=(1024,)))

An entry point takes T tokens and S slots of keys and values that are there already:

    ids i64 [1, T], positions i64 [1, T], mask [1, T, S + T], past_keys.N, past_values.N [1, S, G, D]

(the mask is added to scores: 0 or -30000; layers that see only the last W tokens have one of their own,
mask.W) and gives the new rows keys.N, values.N [1, T, G, D], and hidden [1, R, width] of the last R tokens.
`head` makes logits of hidden. Who moves rows, and where, is the business of `runtime/llm`.

Error codes: TW6403 weights that are missing, too many or of the wrong shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.dialects.xdsl_api import TensorType, f32
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder, Shape, Value
from tilewright.frontend.decoder_attention import capped_attention
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import Deferred, as_weight

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Capacity:
    """Which shapes to compile for.

    prompt: the most tokens a prefill takes at once. slots: rows of keys and values of each
    generate variant, new tokens included. step: tokens of a generate call. chunked: prefill
    continues behind rows that are there, so that prompts may be longer than `prompt`.
    """

    prompt: int = 128
    slots: tuple[int, ...] = (1024,)
    step: int = 1
    chunked: bool = True

    def __post_init__(self) -> None:
        if min(self.prompt, self.step, *self.slots, 1 << 30) < 1 or not self.slots:
            raise TilewrightError("TW6404", "prompt, slots and step are at least 1")
        if min(self.slots) <= self.step or len(set(self.slots)) != len(self.slots):
            raise TilewrightError("TW6404", "slots are distinct and more than a step")
        if self.prompt > max(self.slots):
            raise TilewrightError(
                "TW6404",
                f"a prompt of {self.prompt} does not fit {max(self.slots)} slots",
                hint="give more slots, or a shorter prompt",
            )


class _Net(ModelBuilder):
    """A builder whose weights are given."""

    def __init__(self, name: str, config: DecoderConfig, given: Weights) -> None:
        super().__init__(name)
        self.config, self.given = config, given

    def path(self, name: str) -> str:
        """The whole name of a layer."""
        return self._named(name)

    def drawn(self, name: str, shape: Shape, gain: float, around: float = 0.0) -> Value:
        array = as_floats(tensor(self.given, name, tuple(shape)))
        if around == 1.0:
            array = np.asarray(array) + np.float32(self.config.norm_offset)
        return self.weight(name, array)

    def rows(self, ids: Value, name: str, table: np.ndarray) -> Value:
        """Rows of a table at indices, looked up by the host."""
        held = self.weight(name, table)
        element = held.value.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        kind = TensorType(element, [*ids.shape, table.shape[1]])
        found = self._intents.call("embedding", [held.value, ids.value], kind)
        return Value(self, found if element == f32 else self._intents.unary("cast", found, f32))


def as_floats(array: np.ndarray) -> np.ndarray:
    """A weight in float32; one that is not read yet stays so."""
    if array.dtype == np.float32:
        return array
    if isinstance(array, Deferred):
        return as_weight(array.converted(np.dtype(np.float32)))
    return array.astype(np.float32)


def tensor(given: Weights, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A weight by its published name."""
    if name not in given:
        raise TilewrightError("TW6403", f"the weights lack {name}")
    if given[name].shape != shape:
        raise TilewrightError(
            "TW6403",
            f"{name} is {'x'.join(map(str, given[name].shape))}, the configuration says "
            f"{'x'.join(map(str, shape))}",
        )
    return given[name]


def decoder_entries(
    config: DecoderConfig, weights: Weights, capacity: Capacity, name: str = "decoder"
) -> dict[str, Imported]:
    """The entry points: prefill, generate (or generate_SLOTS for several), head."""
    check_names(config, weights)
    largest = max(capacity.slots)
    past = largest - capacity.prompt if capacity.chunked else 0
    models = {"prefill": decoder(config, weights, capacity.prompt, past, 1, largest, name)}
    for slots in sorted(capacity.slots):
        entry = "generate" if len(capacity.slots) == 1 else f"generate_{slots}"
        step = capacity.step
        models[entry] = decoder(config, weights, step, slots - step, step, largest, name)
    models["head"] = head(config, weights, capacity.step, name)
    return models


def decoder(
    config: DecoderConfig,
    weights: Weights,
    tokens: int,
    past: int,
    rows: int,
    positions: int,
    name: str = "decoder",
) -> Imported:
    """One entry point: `tokens` new ones behind `past` slots; hidden states of the last `rows`."""
    net = _Net(name, config, weights)
    ids = net.input("ids", (1, tokens), "i64")
    places = net.input("positions", (1, tokens), "i64")
    visible = (1, tokens, past + tokens)
    masks = {0: net.input("mask", visible)}
    for window in windows(config, positions):
        masks[window] = net.input(f"mask.{window}", visible)
    held = (1, past, config.groups, config.head)
    before = [
        (net.input(f"past_keys.{n}", held), net.input(f"past_values.{n}", held)) if past else None
        for n in range(config.layers)
    ]
    table = tensor(weights, "model.embed_tokens.weight", (config.vocabulary, config.width))
    x = net.rows(ids, "model.embed_tokens.weight", table)
    if config.embedding_scale != 1.0:
        x = x * config.embedding_scale
    angles: dict[bool, tuple[Value, Value]] = {}  # of layers with a window, and of the others
    for number in range(config.layers):
        window = config.window(number)
        local = bool(window) and config.local is not None
        if local not in angles:
            angles[local] = _angles(net, places, positions, window)
        mask = masks.get(window, masks[0])
        with net.layer(f"model.layers.{number}"):
            x = _layer(net, x, angles[local], mask, before[number], number)
    x = net.rms_norm(x, "model.norm", config.epsilon)
    if rows < tokens:
        x = net.slice(x, (0, tokens - rows, 0), (1, rows, config.width))
    net.output("hidden", x)
    caches = (f"past_{kind}.{n}" for kind in ("keys", "values") for n in range(config.layers))
    return replace(net.build(), resident=frozenset(caches if past else ()))


def windows(config: DecoderConfig, positions: int) -> list[int]:
    """The windows of layers that hide something among so many tokens."""
    return sorted({window for window in config.windows if 0 < window < positions})


def _angles(net: _Net, places: Value, positions: int, window: int) -> tuple[Value, Value]:
    """cos and sin of the positions, [1, T, 1, D / 2]; the tables are rows that the host looks up."""
    config, kind = net.config, "rotary_local" if window and net.config.local else "rotary"
    shape = (1, places.shape[1], 1, config.head // 2)
    cos, sin = (
        net.reshape(net.rows(places, f"{kind}.{name}", part), shape)
        for name, part in zip(("cos", "sin"), config.tables(positions, window), strict=True)
    )
    return cos, sin


def _layer(
    net: _Net,
    x: Value,
    angles: tuple[Value, Value],
    mask: Value,
    before: tuple[Value, Value] | None,
    number: int,
) -> Value:
    config = net.config
    h = net.rms_norm(x, "input_layernorm", config.epsilon)
    with net.layer("self_attn"):
        q = net.heads(
            net.linear(h, config.heads * config.head, "q_proj", config.biases), config.heads
        )
        v = net.heads(
            net.linear(h, config.groups * config.head, "v_proj", config.biases), config.groups
        )
        k = q
        if config.head_norms:
            k = net.linear(h, config.groups * config.head, "k_proj", config.biases)
            k = net.rms_norm(net.heads(k, config.groups), "k_norm", config.epsilon)
            q = net.rms_norm(q, "q_norm", config.epsilon)
        q = net.rope(q, angles)
        k = net.rope(k, angles) if config.head_norms else _rotated_keys(net, h, angles)
        net.output(f"keys.{number}", k)
        net.output(f"values.{number}", v)
        if before is not None:
            k, v = net.concat((before[0], k), 1), net.concat((before[1], v), 1)
        if config.score_cap is None:
            mixed = net.attention(q, k, v, mask=mask, scale=config.score_scale)
        else:
            scale = config.score_scale or config.head**-0.5
            mixed = capped_attention(net, q, k, v, mask, scale, config.score_cap)
        mixed = net.linear(mixed, config.width, "o_proj", config.output_biases)
    names = ("post_attention_layernorm", None, None)
    if config.result_norms:
        names = ("pre_feedforward_layernorm", names[0], "post_feedforward_layernorm")
    before_mlp, after_attention, after_mlp = names
    x = x + _normed(net, mixed, after_attention)
    h = net.rms_norm(x, before_mlp, config.epsilon)
    with net.layer("mlp"):
        gate = net.linear(h, config.hidden, "gate_proj", config.mlp_biases)
        up = net.linear(h, config.hidden, "up_proj", config.mlp_biases)
        silu = config.activation == "silu"
        inner = net.silu_gate(gate, up) if silu else net.unary(config.activation, gate) * up
        y = net.linear(inner, config.width, "down_proj", config.mlp_biases)
    return x + _normed(net, y, after_mlp)


def _normed(net: _Net, x: Value, name: str | None) -> Value:
    """What a part of a layer gives, with its norm if it has one."""
    return x if name is None else net.rms_norm(x, name, net.config.epsilon)


def _rotated_keys(net: _Net, h: Value, angles: tuple[Value, Value]) -> Value:
    """Keys with their rotation, by two products: keys, and keys with their halves exchanged.

    They are a result of the model as well, and so cannot be made inside of an attention kernel.
    """
    config, (cos, sin) = net.config, angles
    narrow, half, tokens = config.groups * config.head, config.head // 2, h.shape[1]
    y = net.linear(h, narrow, "k_proj", config.biases)
    path = net.path("k_proj")

    def exchanged(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(config.groups, 2, half, -1)
        return np.stack((-parts[:, 1], parts[:, 0]), 1).reshape(array.shape)

    turned = {}
    for kind in ("weight", "bias") if config.biases else ("weight",):
        array = as_floats(net.given[f"{path}.{kind}"])
        later = isinstance(array, Deferred)
        name = f"{path}.exchanged.{kind}"
        turned[name] = as_weight(array.mapped(exchanged)) if later else exchanged(array)
    net.given = {**net.given, **turned}
    other = net.linear(h, narrow, "k_proj.exchanged", config.biases)
    wide = [
        net.reshape(net.concat([table] * (2 * config.groups), 2), (1, tokens, narrow))
        for table in (cos, sin)
    ]
    return net.heads(y * wide[0] + other * wide[1], config.groups)


def head(config: DecoderConfig, weights: Weights, rows: int, name: str = "decoder") -> Imported:
    """Logits [1, rows, vocabulary] of hidden states."""
    net = _Net(name, config, _head_weights(config, weights))
    x = net.input("hidden", (1, rows, config.width))
    logits = net.linear(x, config.vocabulary, "lm_head", bias=False)
    cap = config.logit_cap
    net.output(
        "logits", logits if cap is None else net.unary("elementwise_tanh", logits * (1 / cap)) * cap
    )
    return net.build()


def _head_weights(config: DecoderConfig, weights: Weights) -> Weights:
    source = "model.embed_tokens.weight" if config.tied else "lm_head.weight"
    return {"lm_head.weight": tensor(weights, source, (config.vocabulary, config.width))}


def weight_names(config: DecoderConfig) -> list[str]:
    """The published names of everything a network of this configuration has."""
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    if not config.tied:
        names.append("lm_head.weight")
    parts = ["input_layernorm", "post_attention_layernorm"]
    parts += [f"self_attn.{p}_proj" for p in "qkvo"]
    parts += [f"mlp.{p}_proj" for p in ("gate", "up", "down")]
    parts += ["self_attn.q_norm", "self_attn.k_norm"] if config.head_norms else []
    norms = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
    parts += norms if config.result_norms else ()
    biased = [f"self_attn.{p}_proj" for p in "qkv"] if config.biases else []
    biased += ["self_attn.o_proj"] if config.output_biases else []
    biased += [f"mlp.{p}_proj" for p in ("gate", "up", "down")] if config.mlp_biases else []
    for number in range(config.layers):
        names += [f"model.layers.{number}.{part}.weight" for part in parts]
        names += [f"model.layers.{number}.{part}.bias" for part in biased]
    return names


def check_names(config: DecoderConfig, weights: Weights) -> None:
    """Every weight is there, and nothing that would be left out without a word."""
    wanted = set(weight_names(config))
    missing = sorted(wanted - weights.keys())
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise TilewrightError("TW6403", f"the weights lack {missing[0]}{more}")
    allowed = {"lm_head.weight"} if config.tied else set()
    extra = sorted(name for name in weights.keys() - wanted - allowed if "rotary_emb" not in name)
    if extra:
        more = f" and {len(extra) - 1} others" if len(extra) > 1 else ""
        raise TilewrightError(
            "TW6403",
            f"there is no place for the weights {extra[0]}{more}",
            hint="the configuration does not fit the weights",
        )


def weight_shape(config: DecoderConfig, name: str) -> tuple[int, ...]:
    """The shape of a weight by its published name."""
    wide, narrow = config.heads * config.head, config.groups * config.head
    shapes = {
        "embed_tokens.weight": (config.vocabulary, config.width),
        "lm_head.weight": (config.vocabulary, config.width),
        "q_proj.weight": (wide, config.width),
        "k_proj.weight": (narrow, config.width),
        "v_proj.weight": (narrow, config.width),
        "o_proj.weight": (config.width, wide),
        "gate_proj.weight": (config.hidden, config.width),
        "up_proj.weight": (config.hidden, config.width),
        "down_proj.weight": (config.width, config.hidden),
        "q_proj.bias": (wide,),
        "k_proj.bias": (narrow,),
        "v_proj.bias": (narrow,),
        "gate_proj.bias": (config.hidden,),
        "up_proj.bias": (config.hidden,),
        "q_norm.weight": (config.head,),
        "k_norm.weight": (config.head,),
    }
    return shapes.get(".".join(name.split(".")[-2:]), (config.width,))


def drawn_weights(config: DecoderConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded weights of a configuration: variance 1 / inputs, norms near 1."""
    random = np.random.default_rng(seed)
    found = {}
    for name in weight_names(config):
        shape = weight_shape(config, name)
        noise = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 2:
            gain = np.float32(1.0 if "embed" in name else shape[1] ** -0.5)
            found[name] = noise * gain
        elif name.endswith("bias"):
            found[name] = np.float32(0.02) * noise
        else:
            found[name] = np.float32(1 - config.norm_offset) + np.float32(0.1) * noise
    return found
