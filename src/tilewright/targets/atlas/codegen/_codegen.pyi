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
    limits: tuple[int, int, int, int, int, bool, bool, int],
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
        _Held,
    ]
    | None
): ...

class LoopBody:
    def __init__(
        self,
        steps: list[tuple[int, ...]],
        before: list[list[tuple[int, int, int]]],
        after: list[list[tuple[int, int, int]]],
        reads: list[list[int]],
        slots: list[list[int]],
        touches: list[tuple[int, list[int]]],
        parts: int,
        registers_hold: bool,
    ) -> None: ...
    def place(
        self,
        interval: int,
        way: tuple[int, bool, bool, bool],
        limits: tuple[float, float, int, int, int, int],
        usual: list[int],
        work: int,
    ) -> tuple[bool, bool, list[tuple[int, int]], list[int], list[int], int]: ...

class SlotReservations:
    def __init__(self, interval: int) -> None: ...
    def __len__(self) -> int: ...
    def put(self, holder: int, span: tuple[int, int]) -> None: ...
    def drop(self, holder: int) -> None: ...
    def meeting(self, span: tuple[int, int], holder: int) -> list[int]: ...

class UnitReservations:
    def __init__(self, interval: int) -> None: ...
    def take(self, tick: int, length: int) -> None: ...
    def drop(self, tick: int) -> None: ...
    def gap(self, tick: int) -> tuple[int, int] | None: ...
    def first(self, tick: int, length: int, limit: int, grain: int = 0) -> int | None: ...
    def last(self, tick: int, length: int, limit: int, grain: int = 0) -> int | None: ...
