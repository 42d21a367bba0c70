"""Random kernels as data: made from a seed, run by the tile language, printed, and made smaller.

A kernel is a list of sections, each a nest of loops over a batch, rows, columns, a contraction or
nothing at all. A level of a nest loads and combines tiles, carries states through the loop inside
it, and writes results; what an earlier section wrote can be read by a later one. Choices are
numbers that are taken modulo what there is to choose from, so that any part of a kernel can be
left out and a kernel remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.tile.kernel import Kernel, kernel_of

SIDE = 32
WHOLE = 4  # most tiles of a dimension that is not looped over
UNARY = ("exp", "tanh", "sin", "cos", "relu", "square", "abs", "sigmoid", "silu", "gelu", "recip")
BINARY = ("add", "sub", "mul", "max", "min", "div")
REDUCTIONS = ("row_sum", "row_max", "row_min", "col_sum", "col_max", "col_min")
DIMENSIONS = ("B", "M", "N", "K", "R")


@dataclass(frozen=True)
class Op:
    """One more tile for the pool of its level."""

    kind: str  # load, unary, binary, scalar, reduce, product, cast, park
    choice: int  # which tensor or function
    a: int = 0
    b: int = 0
    number: float = 1.0


@dataclass(frozen=True)
class Write:
    """A tile of the pool goes to an output (or to a scratch tensor) of the section's own."""

    pick: int
    dtype: str = "bf16"
    scratch: bool = False
    batched: bool = True


@dataclass(frozen=True)
class Carried:
    """A state through the loop of a level: its start, and what it becomes in each step."""

    first: float | None  # None: a tile of the pool
    pick: int
    op: int
    other: int


@dataclass(frozen=True)
class Level:
    """What happens inside some loops: operations, a loop with what is in it, what follows."""

    ops: tuple[Op, ...] = ()
    dimension: str = ""  # of the loop inside; none where this is empty
    size: int = 32
    unroll: int = 0
    steps: bool = False
    carried: tuple[Carried, ...] = ()
    inner: Level | None = None
    after: tuple[Op, ...] = ()
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True)
class Section:
    """One nest, or a tile on chip that every iteration of a nest changes (`running`)."""

    nest: Level
    running: bool = False


@dataclass(frozen=True)
class Spec:
    """A whole kernel: sizes, how inputs lie, steering, sections."""

    seed: int
    profile: str
    sizes: dict[str, int]
    batched: tuple[bool, ...]  # x, y, f, g have the leading dimension
    turned: bool = False  # g is [N, K]
    panels: bool = False  # g in column panels
    depth: int = 2
    stationary: str = "weights"
    loops: bool = True  # loops of the IR stay loops of the program
    resident: int = 0  # which tensors are in VMEM before and after, a bit for each
    sections: tuple[Section, ...] = field(default=())


class _Maker:
    """Draws a spec."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 20])
        self.seed = seed

    def below(self, count: int) -> int:
        return int(self.random.integers(count))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def spec(self) -> Spec:
        # A nest with many iterations has tiles of few sizes, and the other way round.
        trips = self._trips(300)
        long = str(self.random.choice(["B", "M", "N", "K"], p=[0.3, 0.3, 0.25, 0.15]))
        few = 3 if trips < 12 else 2 if trips < 50 else 1
        sizes = {name: self._extent(few) for name in ("M", "N", "K")}
        sizes["B"] = 1 + self.below(few)
        sizes["R"] = 1 + self.below(4 if trips < 50 else 2)
        if long == "B":
            sizes["B"] = trips
        else:
            sizes[long] = max(1, SIDE * trips - (self.below(SIDE) if self.chance(0.6) else 0))
        self.trips = trips
        count = 1 + (self.below(3) if trips < 40 else self.below(2))
        sections = tuple(self._section(sizes) for _ in range(count))
        return Spec(
            self.seed,
            str(self.random.choice(["atlas-v0", "atlas-v1"])),
            sizes,
            self._batched(long),
            self.chance(0.3),
            self.chance(0.2),
            int(self.random.choice([2, 2, 2, 3, 4])),
            str(self.random.choice(["weights", "weights", "activations"])),
            self.chance(0.7) or trips > 12,
            self._resident(),
            sections,
        )

    def _batched(self, long: str) -> tuple[bool, ...]:
        """Which of x, y, f and g have the leading dimension; weights seldom do."""
        share = 0.7 if long == "B" else 0.3
        return (*(self.chance(share) for _ in range(3)), self.chance(share / 2))

    def _resident(self) -> int:
        """No tensors, all of them, some, or all but what layers have as weights (v, c, g)."""
        every = (1 << 16) - 1
        return int(self.random.choice([0, 0, every, self.below(1 << 16), every & ~0b101100]))

    def _trips(self, most: int) -> int:
        """From 1 to `most`, small numbers as likely as large ones."""
        return int(min(most, np.exp(self.random.uniform(0, np.log(most + 1)))))

    def _extent(self, tiles: int) -> int:
        whole = SIDE * (1 + self.below(tiles))
        return whole if self.chance(0.4) else whole - self.below(SIDE)

    def _section(self, sizes: dict[str, int]) -> Section:
        tiles = {n: -(-sizes[n] // SIDE) for n in ("M", "N", "K")}
        needed = [n for n in ("M", "N") if tiles[n] > WHOLE or self.chance(0.6)]
        needed += ["B"] if sizes["B"] > 3 or self.chance(0.4) else []
        needed += ["K"] if tiles["K"] > WHOLE or self.chance(0.2) else []
        needed += ["R"] if self.chance(0.15) else []
        self.random.shuffle(needed)
        if "K" in needed:  # sums are innermost, or all of K would be in every product
            needed = [n for n in needed if n != "K"] + ["K"]
        if self.chance(0.3):
            return Section(self._layer(needed))
        running = self.chance(0.08) and {"M", "N"} <= set(needed) and "K" not in needed
        return Section(self._level(needed, 0), running)

    def _level(self, loops: list[str], depth: int) -> Level:
        last = not loops
        ops = tuple(self._op(first=k == 0) for k in range(self.below(3) + (3 if last else 1)))
        if last:
            writes = (self._write(),) + ((self._write(),) if self.chance(0.25) else ())
            return Level(ops, writes=writes)
        inner = self._level(loops[1:], depth + 1)
        writes: tuple[Write, ...] = ()
        if loops[0] == "K":  # results are the sums
            inner = replace(inner, writes=())
            writes = (self._write(),)
        elif self.chance(0.25):
            writes = (self._write(),)
        carried = tuple(
            Carried(
                [0.0, 0.0, -1.0, None][self.below(4)], self.below(8), self.below(4), self.below(8)
            )
            for _ in range(int(self.random.choice([0, 0, 1, 2])))
        )
        return Level(
            ops,
            loops[0],
            SIDE * (1 + self.below(2) * self.below(2)),
            int(self.random.choice([0, 0, 0, 1, 2, 3])),
            self.chance(0.4) and (self.trips <= 12 or self.chance(0.1)),
            carried,
            inner,
            tuple(self._op() for _ in range(self.below(3))),
            writes,
        )

    def _layer(self, loops: list[str]) -> Level:
        """A short body, as of a linear layer: a product, factors and offsets, a function."""
        if not loops:
            ops = [Op("product", 0)]
            for _ in range(self.below(3)):
                ops += [Op("load", 2 + self.below(2)), Op("binary", self.below(5), -1, -2)]
            if self.chance(0.4):
                ops.append(Op("unary", self.below(60), -1))
            write = Write(-1, "fp8" if self.chance(0.5) else "bf16")
            return Level(tuple(ops), writes=(write,))
        inner = self._layer([name for name in loops[1:] if name != "K"])
        return Level((), loops[0], SIDE, int(self.random.choice([0, 0, 0, 2])), inner=inner)

    def _op(self, first: bool = False) -> Op:
        kinds = ("load", "unary", "binary", "scalar", "reduce", "product", "cast", "park")
        shares = (0.25, 0.18, 0.22, 0.08, 0.1, 0.11, 0.04, 0.02)
        kind = "load" if first else str(self.random.choice(kinds, p=shares))
        number = float(np.round(self.random.normal(), 2))
        return Op(kind, self.below(60), self.below(12), self.below(12), number)

    def _write(self) -> Write:
        dtype = "fp8" if self.chance(0.2) else "bf16"
        return Write(self.below(8), dtype, self.chance(0.2), self.chance(0.9))


def make(seed: int) -> Spec:
    """The kernel of a seed."""
    return _Maker(seed).spec()


# --- running it ------------------------------------------------------------------------------


@dataclass
class _Place:
    """Where in a nest we are: the index of each dimension, and tiles that can be used here."""

    index: dict[str, Any]
    pool: list[Any]

    def inside(self, dimension: str, index: Any) -> _Place:
        """One loop further in: tiles whose shape that changes stay behind."""
        gone = {"M": ("full", "column"), "N": ("full", "row")}.get(dimension, ())
        pool = [tile for tile in self.pool if _kind(tile) not in gone]
        return _Place({**self.index, dimension: index}, pool)

    def pick(self, number: int) -> Any:
        return self.pool[number % len(self.pool)]


def _kind(tile: Any) -> str:
    return getattr(tile, "kind", None) or tile.tiles().kind


def _binary(name: str, a: Any, b: Any) -> Any:
    if name == "max":
        return tw.maximum(a, b)
    if name == "min":
        return tw.minimum(a, b)
    if name == "div":
        return a / (tw.abs(b) + 0.5)
    return {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b}[name]()


@dataclass(frozen=True)
class _Made:
    """A tensor that a section writes: its name, form and dimensions."""

    name: str
    write: Write
    dimensions: tuple[str | int, ...]
    read_back: bool = False


class Body:
    """The function of a spec: the same choices whenever it runs."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.made = outputs_of(spec)

    def __call__(self, **tensors: Any) -> None:
        spec = self.spec
        self.tensors = tensors
        self.readable: list[_Made] = []
        tw.options(depth=spec.depth, stationary=spec.stationary)
        for number, section in enumerate(spec.sections):
            mine = [m for m in self.made if m.name.startswith(f"out_{number}_")]
            for made in (m for m in mine if m.write.scratch and m.dimensions):
                kind = tw.fp8 if made.write.dtype == "fp8" else tw.bf16
                shape = tuple(spec.sizes[d] if isinstance(d, str) else d for d in made.dimensions)
                tensors[made.name] = tw.scratch(kind[shape])
            self.writes = iter(mine)
            self.total = None
            if section.running:
                self.total = tw.scratch(tw.bf16[SIDE, SIDE], on_chip=True)
                self.total[:, :] = 0.0
            self._level(section.nest, _Place({}, []), mine, ())
            self.readable += [m for m in mine if len(m.dimensions) > 1 and 1 not in m.dimensions]

    def _level(self, level: Level, at: _Place, mine: list[_Made], path: tuple[int, ...]) -> None:
        for op in level.ops:
            self._run(op, at)
        if level.inner is not None:
            self._loop(level, level.inner, at, mine, path)
        for op in level.after:
            self._run(op, at)
        for k, write in enumerate(level.writes):
            made = next(m for m in mine if m.name.endswith("_".join(map(str, ("", *path, k)))))
            self._write(made, write, at)

    def _loop(
        self, level: Level, inner: Level, at: _Place, mine: list[_Made], path: tuple[int, ...]
    ) -> None:
        name, spec = level.dimension, self.spec
        unroll: Any = level.unroll or False
        states = []
        for carried in level.carried:
            known = at.inside(name, None).pool  # what keeps its shape through the loop
            first = carried.first
            start = known[carried.pick % len(known)] if first is None and known else first or 0.0
            states.append((carried, tw.state(start)))
        total = tw.zeros() if name == "K" else None
        if name in ("B", "R"):
            loop: Any = tw.each(spec.sizes[name], unroll=unroll)
        elif level.steps:
            loop = tw.steps(spec.sizes[name], level.size, unroll=unroll or None)
        else:
            loop = tw.grid(spec.sizes[name], level.size, unroll=unroll)
        for index in loop:
            place = at.inside(name, index)
            place.pool += [state.tiles() for _, state in states if state.held is not None]
            self._level(inner, place, mine, (*path, 0))
            if total is not None:
                total += self._factors(place)
            for carried, state in states:
                self._carry(carried, state, place)
        at.pool += [state.tiles() for _, state in states if state.held is not None]
        if total is not None:
            at.pool.append(total.tiles() * 0.125)

    def _carry(self, carried: Carried, state: Any, at: _Place) -> None:
        """Set a state to something of its shape: a reduction where the loop changes shapes."""
        name = {"M": "col_sum", "N": "row_sum"}
        looped = list(at.index)[-1]
        if not at.pool:
            return
        tile = at.pick(carried.pick)
        if looped in name:
            reduce = name[looped] if carried.op % 2 else name[looped].replace("sum", "max")
            tile = getattr(tw, reduce)(tile)
        if state.held is not None and (
            _kind(state.held) != _kind(tile) or state.held.shape != tile.tiles().shape
        ):
            return
        before = state if state.held is not None or state.first is not None else tile
        joined = _binary(("add", "max", "sub", "min")[carried.op % 4], before, tile)
        state.set(tw.tanh(joined * 0.5) if carried.op % 4 in (0, 2) else joined)

    def _tensor(self, name: str, batched: bool, at: _Place, *index: Any) -> Any:
        lead = (at.index.get("B", 0),) if batched else ()
        return self.tensors[name][(*lead, *index)]

    def _factors(self, at: _Place) -> Any:
        """f @ g at this place."""
        m, n, k = (at.index.get(name, slice(None)) for name in ("M", "N", "K"))
        f = self._tensor("f", self.spec.batched[2], at, m, k)
        if self.spec.turned:
            return f @ self._tensor("g", self.spec.batched[3], at, n, k).T
        return f @ self._tensor("g", self.spec.batched[3], at, k, n)

    def _fits(self, *names: str) -> bool:
        """Whether all of these dimensions, not looped over, are short enough for one body."""
        return all(-(-self.spec.sizes[name] // SIDE) <= WHOLE for name in names)

    def _load(self, op: Op, at: _Place) -> Any:
        m, n = at.index.get("M", slice(None)), at.index.get("N", slice(None))
        free = [name for name in ("M", "N") if name not in at.index]
        sources: list[Any] = []
        if self._fits(*free):
            sources += [lambda: self._tensor("x", self.spec.batched[0], at, m, n)]
            sources += [lambda: self._tensor("y", self.spec.batched[1], at, m, n)]
            for made in self.readable:
                lead = "B" in made.dimensions
                sources.append(lambda made=made, lead=lead: self._tensor(made.name, lead, at, m, n))
        if "N" in at.index or self._fits("N"):
            sources.append(lambda: self.tensors["v"][n])
        if "M" in at.index or self._fits("M"):
            sources.append(lambda: self.tensors["c"][m, :])
        return sources[op.choice % len(sources)]() if sources else None

    def _run(self, op: Op, at: _Place) -> None:
        if op.kind == "product":
            made = self._product(at)
        elif op.kind == "load" or not at.pool:
            made = self._load(op, at)
        else:
            made = self._combined(op, at)
        if made is None:
            return
        if made.dtype == "fp8":
            at.pool.append(tw.to_bf16(made))
        else:
            at.pool.append(made)

    def _combined(self, op: Op, at: _Place) -> Any:
        a, b = at.pick(op.a), at.pick(op.b)
        if op.kind == "unary":
            name = UNARY[op.choice % len(UNARY)]
            return getattr(tw, name)(tw.minimum(a, 4.0) if name == "exp" else a)
        if op.kind == "binary":
            return _binary(BINARY[op.choice % len(BINARY)], a, b)
        if op.kind == "scalar":
            name = BINARY[op.choice % 5]
            return _binary(name, a, op.number) if op.b % 2 else _binary(name, op.number, a)
        if op.kind == "reduce":
            return getattr(tw, REDUCTIONS[op.choice % len(REDUCTIONS)])(a)
        if op.kind == "cast":
            scale = (None, 4, 0.3)[op.choice % 3]
            return tw.to_bf16(tw.to_fp8(a, scale), scale)
        assert op.kind == "park"
        return tw.park(a)

    def _product(self, at: _Place) -> Any:
        """All of f @ g at this place, if it is not too much."""
        free = [name for name in ("M", "N", "K") if name not in at.index]
        if not self._fits(*free) or "K" in at.index:
            return None
        return self._factors(at).tiles()

    def _write(self, made: _Made, write: Write, at: _Place) -> None:
        if made.write.dtype == "none":
            return
        tile: Any = at.pick(write.pick) if at.pool else 1.0
        kinds = [_kind(t) for t in at.pool]
        index = [at.index[d] if d in at.index else slice(None) for d in made.dimensions if d != 1]
        if 1 in made.dimensions:
            columns = [t for t, kind in zip(at.pool, kinds, strict=True) if kind == "column"]
            tile = columns[write.pick % len(columns)] if columns else 0.5
            index.append(slice(None))
        if (
            self.total is not None
            and not isinstance(tile, float)
            and _kind(tile) == "full"
            and tile.tiles().shape == (SIDE, SIDE)
        ):
            self.total[:, :] = tw.tanh(self.total[:, :] * 0.5 + tile)
            tile = self.total[:, :]
        if made.write.dtype == "fp8":
            tile = tw.to_fp8(tile) if not isinstance(tile, float) else tile
        self.tensors[made.name][tuple(index)] = tile


def outputs_of(spec: Spec) -> list[_Made]:
    """The tensors that a spec writes; every one of them is written whole."""
    found: list[_Made] = []

    def look(level: Level, section: int, around: tuple[str, ...], path: tuple[int, ...]) -> None:
        for k, write in enumerate(level.writes):
            name = "_".join(map(str, ("out", section, "w", *path, k)))
            fits = all(d in around or -(-spec.sizes[d] // SIDE) <= WHOLE for d in ("M", "N"))
            rows = "M" in around or -(-spec.sizes["M"] // SIDE) <= WHOLE
            lead = ("B",) if "B" in around and write.batched else ()
            if not fits and (not rows or "N" in around):
                found.append(_Made(name, replace(write, dtype="none"), ()))
                continue
            column = () if fits else (1,)
            dtype = write.dtype if fits else "bf16"
            dimensions = (*lead, "M", *(column or ("N",)))
            found.append(_Made(name, replace(write, dtype=dtype), dimensions))
        if level.inner is not None:
            look(level.inner, section, (*around, level.dimension), (*path, 0))

    for number, section in enumerate(spec.sections):
        look(section.nest, number, (), ())
    later = f"out_{len(spec.sections) - 1}_"
    found = [replace(made, read_back=not made.name.startswith(later)) for made in found]
    if all(made.write.scratch for made in found if made.dimensions):
        return [replace(made, write=replace(made.write, scratch=False)) for made in found]
    return found


def kernel_from(spec: Spec) -> Kernel:
    """The kernel of a spec."""
    lead = [("B",) if one else () for one in spec.batched]
    g = tw.fp8[(*lead[3], *(("N", "K") if spec.turned else ("K", "N")))]
    kinds: dict[str, Any] = {
        "x": tw.bf16[(*lead[0], "M", "N")],
        "y": tw.bf16[(*lead[1], "M", "N")],
        "v": tw.bf16["N"],
        "c": tw.bf16["M", 1],
        "f": tw.fp8[(*lead[2], "M", "K")],
        "g": g.panels() if spec.panels else g,
    }
    body = Body(spec)
    for made in body.made:
        if not made.write.scratch and made.write.dtype != "none":
            kind = tw.fp8 if made.write.dtype == "fp8" else tw.bf16
            kinds[made.name] = kind[made.dimensions]
    return kernel_of(f"random_{spec.seed}", kinds, body)


def arrays_for(spec: Spec, kernel: Kernel) -> list[np.ndarray]:
    """Inputs: ordinary numbers, and now and then very large and very small ones."""
    random = np.random.default_rng([spec.seed, 21])
    arrays = []
    for name in kernel.inputs:
        sizes = kernel.specs[name].sizes
        shape = tuple(spec.sizes[s] if isinstance(s, str) else s for s in sizes)
        values = random.normal(size=shape)
        wild = random.random(shape) < 0.01
        arrays.append(np.where(wild, values * 10.0 ** random.integers(-30, 30, shape), values))
    return arrays


# --- making it smaller -----------------------------------------------------------------------


def smaller(spec: Spec) -> list[Spec]:
    """Kernels with one thing less, the largest cuts first."""
    found: list[Spec] = []
    for k in range(len(spec.sections)):
        if len(spec.sections) > 1:
            found.append(replace(spec, sections=spec.sections[:k] + spec.sections[k + 1 :]))
    for k, section in enumerate(spec.sections):
        for nest in _smaller_levels(section.nest):
            fewer = (*spec.sections[:k], replace(section, nest=nest), *spec.sections[k + 1 :])
            found.append(replace(spec, sections=fewer))
        if section.running:
            fewer = (
                *spec.sections[:k],
                replace(section, running=False),
                *spec.sections[k + 1 :],
            )
            found.append(replace(spec, sections=fewer))
    for name, size in spec.sizes.items():
        unit = 1 if name in ("B", "R") else SIDE
        for less in (unit, size // 2 // unit * unit, size // unit * unit, size - unit):
            if 0 < less < size:
                found.append(replace(spec, sizes={**spec.sizes, name: less}))
    plain = Spec(spec.seed, spec.profile, spec.sizes, (False,) * 4)
    for name in ("batched", "turned", "panels", "depth", "stationary", "resident"):
        if getattr(spec, name) != getattr(plain, name):
            found.append(replace(spec, **{name: getattr(plain, name)}))
    return found


def _smaller_levels(level: Level) -> list[Level]:
    found: list[Level] = []
    for name in ("ops", "after", "carried", "writes"):
        rows = getattr(level, name)
        for k in range(len(rows)):
            found.append(replace(level, **{name: rows[:k] + rows[k + 1 :]}))
    if level.inner is not None:
        found.append(level.inner)
        found += [replace(level, inner=inner) for inner in _smaller_levels(level.inner)]
        for name, plain in (("unroll", 0), ("size", SIDE), ("steps", False)):
            if getattr(level, name) != plain:
                found.append(replace(level, **{name: plain}))
    return found


def shown(item: Any) -> str:
    """A spec as Python text that makes it again, defaults left out."""
    if is_dataclass(item) and not isinstance(item, type):
        parts = [
            f"{f.name}={shown(getattr(item, f.name))}"
            for f in fields(item)
            if getattr(item, f.name) != f.default
        ]
        return f"{type(item).__name__}({', '.join(parts)})"
    if isinstance(item, tuple):
        inside = ", ".join(map(shown, item))
        return f"({inside},)" if len(item) == 1 else f"({inside})"
    return repr(item)
