"""Random loops over tiles, for the ways in which loops are scheduled."""

from __future__ import annotations

import random

from tilewright.targets.atlas.codegen.routine import Loop, Routine
from tilewright.targets.atlas.codegen.tiles import Tile, Tiles
from tilewright.targets.atlas.codegen.virtual import Place
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.profile import load_profile

TILE = 2048
OUT = 1 << 18  # DRAM address of the results
STATE = 1 << 19
ANY_GAIN = 1e6  # overlap whether it is faster or not


def random_loop(profile: str, seed: int, trips: int) -> Routine:
    """A loop over tiles: double-buffered loads, random work, parked tiles, a running state,
    products, and stores that wait at once or in the next iteration."""
    choose = random.Random(seed)
    routine = Routine(load_profile(profile))
    count = choose.randint(1, 3)  # tiles per iteration
    half = 8192
    current, following = routine.pointer(0), routine.pointer(half)
    source, target = routine.pointer(0), routine.pointer(OUT)
    state = Tile(routine.carry(2), "bf16")
    before = routine.code()
    Tiles(before).fill(choose.choice([0.0, 1.0, 3.0]), into=state)
    before.dma_load(Place(current, "current"), Place(source, "dram in"), count * TILE)
    body = routine.code()
    tiles = Tiles(body)
    body.dma_load(
        Place(following, "following"), Place(source, "dram in", count * TILE), count * TILE
    )
    values = [tiles.load(Place(current, "current", k * TILE)) for k in range(count)]
    parked = 2 * half
    sites = 0
    values.append(tiles.maximum(values[0], state))  # a loop keeps the tiles it uses
    for step in range(choose.randint(3, 14)):
        a, b = choose.choice(values), choose.choice(values)
        match choose.randrange(8):
            case 0:
                values.append(tiles.add(a, b))
            case 1:
                values.append(tiles.maximum(a, state))
            case 2:
                values.append(tiles.rows("max", a))
            case 3:
                tiles.store(a, parked)
                values.append(tiles.load(parked))
                parked += TILE * choose.randrange(2)
            case 4:
                unit = choose.randrange(2)
                acc = tiles.accumulator(unit)
                weight = tiles.weight(tiles.pack(b), unit)
                tiles.multiply(acc, tiles.pack(a), weight, True)
                values.append(tiles.pop(acc))
            case 5:
                tiles.add(state, a, into=state)
            case 6:
                values.append(tiles.load(Place(current, "current", choose.randrange(count) * TILE)))
            case _:
                values.append(tiles.unary("tanh", a))
        if choose.random() < 0.2:
            buffer = 0xA000 + step * TILE
            tiles.store(values[-1], buffer)
            body.dma_store(Place(target, "dram out", step * TILE), buffer, TILE)
    if choose.random() < 0.7:
        inside, outside = routine.pointer(0x1A000), routine.pointer(0)
        site = routine.site(sites, True, inside, outside, TILE)
        body.wait(site, ("deferred",))
        tiles.store(values[-1], Place(inside, "deferred"))
        body.emit("add", outside, target, body.constant(Kind.X, 15 * TILE))
        body.start(site, "deferred")
    body.advance(source, count * TILE)
    body.advance(target, 16 * TILE)
    body.toggle(current, half)
    body.toggle(following, half)
    after = routine.code()
    Tiles(after).store(state, 0x1C000)
    after.dma_store(STATE, 0x1C000, TILE)
    routine.items += [before, Loop(trips, [body]), after]
    return routine
