"""Buffer descriptors: which walks a DMA engine can do in one, and their words.

A descriptor counts in granules of four bytes. Its dimensions are stored innermost first; the
outermost one has no size field, the length implies it. A walk that is contiguous needs only the
length. The iteration is a further loop around the others that advances once per execution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.device import TileKind
from tilewright.targets.xdna.patterns import Pattern

GRANULE = 4
MAX_DESCRIPTORS = 1 << 12


@dataclass(frozen=True)
class LockUse:
    """A change of a counting lock: acquire waits for `value` and takes it, release gives it."""

    lock: int
    value: int


@dataclass(frozen=True)
class Descriptor:
    """One descriptor in words of four bytes; sizes and strides innermost first.

    `sizes` has one entry less than `strides`: the last loop is implied by the length. A linear
    transfer has neither.
    """

    base: int
    length: int
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    iterations: int = 1
    iteration_stride: int = 0
    acquire: LockUse | None = None
    release: LockUse | None = None
    following: int | None = None

    def pattern(self) -> Pattern:
        """The walk in words, all iterations included."""
        sizes, strides = list(self.sizes), list(self.strides)
        if strides:
            sizes.append(self.length // math.prod(sizes))
        else:
            sizes, strides = [self.length], [1]
        return Pattern(
            (self.iterations, *reversed(sizes)),
            (self.iteration_stride, *reversed(strides)),
            self.base,
        )


def illegal(descriptor: Descriptor, tile: TileKind) -> str | None:
    """Why a tile of this kind cannot execute a descriptor, or None."""
    wrap, step = (1 << tile.wrap_bits) - 1, 1 << tile.step_bits
    if not 1 <= descriptor.length < 1 << tile.length_bits:
        return (
            f"length of {descriptor.length} words; a {tile.name} tile's descriptor holds"
            f" 1 to {(1 << tile.length_bits) - 1}"
        )
    if len(descriptor.strides) > tile.dimensions:
        return (
            f"{len(descriptor.strides)} dimensions; a {tile.name} tile's descriptor has"
            f" {tile.dimensions}"
        )
    if len(descriptor.sizes) != max(0, len(descriptor.strides) - 1):
        return "one size fewer than strides is stored"
    if descriptor.strides and descriptor.length % math.prod(descriptor.sizes):
        return f"length {descriptor.length} is no multiple of the inner sizes"
    for i, size in enumerate(descriptor.sizes):
        if not 1 <= size <= wrap:
            return f"d{i} size of {size}; a {tile.name} tile's wrap field holds 1 to {wrap}"
    for i, stride in enumerate(descriptor.strides):
        if not 1 <= stride <= step:
            return (
                f"d{i} stride of {stride} words; a {tile.name} tile's step field holds 1 to {step}"
            )
    if not 1 <= descriptor.iterations <= 1 << tile.iteration_bits:
        return f"iteration size of {descriptor.iterations}; the field holds 1 to {1 << tile.iteration_bits}"
    if descriptor.iterations > 1 and not 0 <= descriptor.iteration_stride <= step:
        return (
            f"iteration stride of {descriptor.iteration_stride} words; a {tile.name} tile's"
            f" step field holds 0 (repetition) to {step}"
        )
    if descriptor.base < 0:
        return f"base of {descriptor.base} words"
    return None


def _refuse(sentence: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW8020", sentence, hint=hint)


def in_words(pattern: Pattern, element_bytes: int) -> Pattern:
    """A pattern over elements as the same walk over words, or the reason it has none."""
    base = pattern.canonical()
    if any(stride < 0 for stride in base.strides):
        raise _refuse(f"the walk {pattern} goes backwards, a step field has no sign")
    if base.offset * element_bytes % GRANULE:
        raise _refuse(
            f"the walk begins at byte {base.offset * element_bytes}, not at a multiple of {GRANULE}",
            f"nearest legal offset: {base.offset * element_bytes // GRANULE * GRANULE // element_bytes}",
        )
    run = base.run * element_bytes
    if run % GRANULE:
        raise _refuse(
            f"contiguous runs of {run} bytes are no multiple of the granule of {GRANULE} bytes",
            f"make the innermost size a multiple of {GRANULE // math.gcd(GRANULE, element_bytes)}"
            " elements; a DMA engine cannot transpose smaller elements, the core has to",
        )
    outer = len(base.sizes) - (1 if base.strides[-1] == 1 else 0)
    for stride in base.strides[:outer]:
        if stride * element_bytes % GRANULE:
            raise _refuse(
                f"a stride of {stride} elements is {stride * element_bytes} bytes, no multiple of"
                f" the granule of {GRANULE}",
                f"nearest legal stride: {max(1, round(stride * element_bytes / GRANULE)) * GRANULE // element_bytes}",
            )
    sizes = (*base.sizes[:outer], run // GRANULE)
    strides = (*(s * element_bytes // GRANULE for s in base.strides[:outer]), 1)
    return Pattern(sizes, strides, base.offset * element_bytes // GRANULE).canonical()


def legalise(
    pattern: Pattern, element_bytes: int, tile: TileKind, iteration: bool = True
) -> list[Descriptor]:
    """Descriptors that together walk the pattern, in order; as few as the fields allow.

    before: a walk of any depth over elements
    after:  legal descriptors; loops that fit no field become several descriptors
    """
    words = in_words(pattern, element_bytes)
    wrap, step = (1 << tile.wrap_bits) - 1, 1 << tile.step_bits
    if words.strides == (1,):
        return _linear(words, tile)
    loops = _fitted(words, wrap)
    kept: list[tuple[int, int]] = []  # innermost first
    length = 1
    while loops:
        size, stride = loops[-1]
        implied = len(loops) == 1 or len(kept) == tile.dimensions - 1
        if not 1 <= stride <= step or len(kept) == tile.dimensions:
            break
        if size > wrap and not implied:
            break
        if length * size >= 1 << tile.length_bits:
            break
        kept.append((size, stride))
        length *= size
        loops.pop()
    if not kept:
        size, stride = loops[-1]
        raise _refuse(f"the innermost loop of {size} words in steps of {stride} fits no descriptor")
    iterations, iteration_stride = 1, 0
    if iteration and loops:
        size, stride = loops[-1]
        if size <= 1 << tile.iteration_bits and 0 <= stride <= step:
            iterations, iteration_stride = size, stride
            loops.pop()
    outer = Pattern(
        tuple(size for size, _ in loops), tuple(stride for _, stride in loops), words.offset
    )
    if outer.count > MAX_DESCRIPTORS:
        raise _refuse(f"the walk {pattern} needs {outer.count} descriptors")
    linear = len(kept) == 1 and kept[0][1] == 1
    made = [
        Descriptor(
            int(base),
            length,
            () if linear else tuple(size for size, _ in kept[:-1]),
            () if linear else tuple(stride for _, stride in kept),
            iterations,
            iteration_stride,
        )
        for base in outer.walk()
    ]
    for descriptor in made:
        reason = illegal(descriptor, tile)
        if reason is not None:
            raise _refuse(reason)
    return made


def _linear(words: Pattern, tile: TileKind) -> list[Descriptor]:
    """A contiguous walk: only the length counts, and long ones are cut."""
    longest = (1 << tile.length_bits) - 1
    total = words.sizes[0]
    pieces = -(-total // longest)
    if pieces > MAX_DESCRIPTORS:
        raise _refuse(f"{total} words need {pieces} descriptors")
    return [
        Descriptor(words.offset + start, min(longest, total - start))
        for start in range(0, total, longest)
    ]


def _fitted(words: Pattern, wrap: int) -> list[tuple[int, int]]:
    """Loops outermost first, those too long for a wrap field split by their largest divisor.

    The outermost loop may be any size while its length is implied, so it is left alone.
    """
    loops: list[tuple[int, int]] = []
    for i, (size, stride) in enumerate(zip(words.sizes, words.strides, strict=True)):
        if size > wrap and (i > 0 or stride == 1):
            inner = max((d for d in range(1, wrap + 1) if size % d == 0), default=1)
            if inner > 1:
                loops.append((size // inner, stride * inner))
                size = inner
        loops.append((size, stride))
    return loops


def legalise_one(
    pattern: Pattern, element_bytes: int, tile: TileKind, iteration: bool = False
) -> Descriptor:
    """The single descriptor of a walk that has to be one, or why there is none."""
    made = legalise(pattern, element_bytes, tile, iteration)
    if len(made) != 1:
        raise _refuse(
            f"the walk {pattern} of {element_bytes}-byte elements needs {len(made)} descriptors of a"
            f" {tile.name} tile",
            f"fields: {tile.dimensions} dimensions, sizes to {(1 << tile.wrap_bits) - 1}, steps to"
            f" {1 << tile.step_bits} words, length to {(1 << tile.length_bits) - 1} words",
        )
    return made[0]


# Register layouts: field -> (word, lowest bit, bits).
_LAYOUTS: dict[str, dict[str, tuple[int, int, int]]] = {
    "core": {
        "length": (0, 0, 14),
        "base": (0, 14, 14),
        "d0_step": (2, 0, 13),
        "d1_step": (2, 13, 13),
        "d2_step": (3, 0, 13),
        "d0_wrap": (3, 13, 8),
        "d1_wrap": (3, 21, 8),
        "iteration_step": (4, 0, 13),
        "iteration_wrap": (4, 13, 6),
        "acquire_lock": (5, 0, 4),
        "acquire_value": (5, 5, 7),
        "acquire_enable": (5, 12, 1),
        "release_lock": (5, 13, 4),
        "release_value": (5, 18, 7),
        "valid": (5, 25, 1),
        "use_next": (5, 26, 1),
        "next": (5, 27, 4),
    },
    "memory": {
        "length": (0, 0, 17),
        "base": (1, 0, 19),
        "use_next": (1, 19, 1),
        "next": (1, 20, 6),
        "d0_step": (2, 0, 17),
        "d0_wrap": (2, 17, 10),
        "d1_step": (3, 0, 17),
        "d1_wrap": (3, 17, 10),
        "d2_step": (4, 0, 17),
        "d2_wrap": (4, 17, 10),
        "d3_step": (5, 0, 17),
        "iteration_step": (6, 0, 17),
        "iteration_wrap": (6, 17, 6),
        "acquire_lock": (7, 0, 8),
        "acquire_value": (7, 8, 7),
        "acquire_enable": (7, 15, 1),
        "release_lock": (7, 16, 8),
        "release_value": (7, 24, 7),
        "valid": (7, 31, 1),
    },
    "shim": {
        "length": (0, 0, 32),
        "base_low": (1, 2, 30),
        "base_high": (2, 0, 16),
        "d0_step": (3, 0, 20),
        "d0_wrap": (3, 20, 10),
        "d1_step": (4, 0, 20),
        "d1_wrap": (4, 20, 10),
        "d2_step": (5, 0, 20),
        "iteration_step": (6, 0, 20),
        "iteration_wrap": (6, 20, 6),
        "acquire_lock": (7, 0, 4),
        "acquire_value": (7, 5, 7),
        "acquire_enable": (7, 12, 1),
        "release_lock": (7, 13, 4),
        "release_value": (7, 18, 7),
        "valid": (7, 25, 1),
        "use_next": (7, 26, 1),
        "next": (7, 27, 4),
    },
}
_WORDS = {"core": 6, "memory": 8, "shim": 8}


def encode(descriptor: Descriptor, tile: TileKind) -> tuple[int, ...]:
    """The register words of a legal descriptor.

    A step of 0 words cannot be stored (fields hold the step less one), so a pure repetition is
    not in the words: the task's repeat count carries it.
    """
    reason = illegal(descriptor, tile)
    if reason is not None:
        raise _refuse(reason)
    fields = {"length": descriptor.length, "valid": 1}
    if "base" in _LAYOUTS[tile.name]:
        fields["base"] = descriptor.base
    else:
        fields["base_low"] = descriptor.base & ((1 << 30) - 1)
        fields["base_high"] = descriptor.base >> 30
    for i, size in enumerate(descriptor.sizes):
        fields[f"d{i}_wrap"] = size
    for i, stride in enumerate(descriptor.strides):
        fields[f"d{i}_step"] = stride - 1
    if descriptor.iterations > 1 and descriptor.iteration_stride:
        fields["iteration_wrap"] = descriptor.iterations - 1
        fields["iteration_step"] = descriptor.iteration_stride - 1
    if descriptor.acquire is not None:
        fields["acquire_enable"] = 1
        fields["acquire_lock"] = descriptor.acquire.lock
        fields["acquire_value"] = -descriptor.acquire.value & 0x7F  # negative: at least that many
    if descriptor.release is not None:
        fields["release_lock"] = descriptor.release.lock
        fields["release_value"] = descriptor.release.value
    if descriptor.following is not None:
        fields["use_next"] = 1
        fields["next"] = descriptor.following
    words = [0] * _WORDS[tile.name]
    for name, value in fields.items():
        word, low, bits = _LAYOUTS[tile.name][name]
        if not 0 <= value < 1 << bits:
            raise _refuse(f"{name} of {value} does not fit its {bits} bits")
        words[word] |= value << low
    return tuple(words)


def decode(words: tuple[int, ...], tile: TileKind, repeat: int = 1) -> Descriptor:
    """The descriptor of register words; `repeat` is the task's number of executions."""
    layout = _LAYOUTS[tile.name]
    if len(words) != _WORDS[tile.name]:
        raise _refuse(f"a {tile.name} descriptor has {_WORDS[tile.name]} words, not {len(words)}")

    def field(name: str) -> int:
        word, low, bits = layout[name]
        return words[word] >> low & ((1 << bits) - 1)

    sizes = []
    for i in range(tile.dimensions - 1):
        size = field(f"d{i}_wrap")
        if size == 0:
            break
        sizes.append(size)
    # The highest used dimension has a step and no wrap; an unused one has step field 0 = 1 word.
    strides = [field(f"d{i}_step") + 1 for i in range(len(sizes) + 1)]
    linear = not sizes and strides == [1]
    iterations = field("iteration_wrap") + 1
    stride = field("iteration_step") + 1 if iterations > 1 else 0
    base = field("base") if "base" in layout else field("base_low") | field("base_high") << 30
    acquire = release = None
    if field("acquire_enable"):
        acquire = LockUse(field("acquire_lock"), -field("acquire_value") & 0x7F)
    if field("release_value"):
        release = LockUse(field("release_lock"), field("release_value"))
    made = Descriptor(
        base,
        field("length"),
        () if linear else tuple(sizes),
        () if linear else tuple(strides),
        iterations,
        stride,
        acquire,
        release,
        field("next") if field("use_next") else None,
    )
    if repeat > 1 and iterations == 1:
        return replace(made, iterations=repeat)
    return made
