"""Inner loops of the code generator (native/atlas_codegen)."""

_Held = tuple[list[tuple[int, int]], list[tuple[int, int]], list[list[int]], int]

def list_schedule(
    nodes: list[tuple[int, ...]],
    after: list[list[tuple[int, int]]],
    rows: list[list[tuple[int, int, int]]],
    operands: list[list[tuple[int, int, int]]],
    registers: list[tuple[int, int, int, bool, int]],
    pairs: int,
    channels: list[int],
    held: _Held,
    reserved: list[int],
    pinned: list[tuple[int, int]],
    limits: tuple[int, int, int, int, bool, bool, int],
    reserves: list[tuple[int, int]],
) -> (
    tuple[
        list[tuple[int, int]],
        list[tuple[int, int, int]],
        list[list[int]],
        list[int],
        list[int],
        list[int],
        int,
        int,
        _Held,
    ]
    | None
): ...
