"""Designs written by hand, right and wrong: hangs, races, and what the checker says to do."""

from __future__ import annotations

import pytest

from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.mlir_parse import parse_design

OBJECT = "memref<128xi8>"
CALL = f"func.call @f(%vt, %wt) : ({OBJECT}, {OBJECT}) -> ()\n"


def take(fifo: str, how: str, value: str = "v", many: int = 1) -> str:
    view = f"!aie.objectfifosubview<{OBJECT}>"
    return (
        f"%{value} = aie.objectfifo.acquire @{fifo}({how}, {many}) : {view}\n"
        f"%{value}t = aie.objectfifo.subview.access %{value}[0] : {view} -> {OBJECT}\n"
    )


def give(fifo: str, how: str, many: int = 1) -> str:
    return f"aie.objectfifo.release @{fifo}({how}, {many})\n"


def loop(body: str, many: int = 4) -> str:
    return (
        "%z = arith.constant 0 : index\n%o = arith.constant 1 : index\n"
        f"%n = arith.constant {many} : index\nscf.for %i = %z to %n step %o {{\n{body}}}\n"
    )


def stage(source: str, sink: str, many: int = 1) -> str:
    """One object after the other from one FIFO into the next."""
    return (
        take(source, "Consume", many=many) + take(sink, "Produce", "w") + CALL
        + give(source, "Consume", many) + give(sink, "Produce")
    )  # fmt: skip


def move(buffer: str, fifo: str, offset: int, identity: int, many: int, token: bool) -> str:
    return (
        f"aiex.npu.dma_memcpy_nd(%{buffer}[0, 0, 0, {offset}][1, 1, 1, {many}][0, 0, 0, 1])"
        f" {{id = {identity} : i64, issue_token = {str(token).lower()}, metadata = @{fifo}}}"
        " : memref<512xi8>\n"
    )


def wait(fifo: str) -> str:
    return f"aiex.npu.dma_wait {{symbol = @{fifo}}}\n"


FILL, DRAIN = move("x", "in", 0, 1, 512, False), move("y", "out", 0, 2, 512, True)


def design(
    first: str = loop(stage("in", "middle")),
    second: str = loop(stage("middle", "out")),
    sequence: str = FILL + DRAIN + wait("out"),
    depth: int = 2,
    more: str = "",
) -> str:
    """Two cores in a row: shim, core, core, shim."""
    fifo = f"!aie.objectfifo<{OBJECT}>"
    return f"""
module {{ aie.device(npu2) {{
func.func private @f({OBJECT}, {OBJECT})
%s = aie.tile(0, 0)
%a = aie.tile(0, 2)
%b = aie.tile(0, 3)
aie.objectfifo @in(%s, {{%a}}, {depth} : i32) : {fifo}
aie.objectfifo @middle(%a, {{%b}}, {depth} : i32) : {fifo}
aie.objectfifo @out(%b, {{%s}}, {depth} : i32) : {fifo}
{more}
%k1 = aie.core(%a) {{
{first}aie.end
}}
%k2 = aie.core(%b) {{
{second}aie.end
}}
aiex.runtime_sequence(%x: memref<512xi8>, %y: memref<512xi8>) {{
{sequence}}} }} }}"""


def fifo(name: str, source: str, sink: str) -> str:
    return f"aie.objectfifo @{name}(%{source}, {{%{sink}}}, 1 : i32) : !aie.objectfifo<{OBJECT}>"


BACK, LATE = fifo("back", "b", "a"), fifo("late", "a", "b")
HALVES = [move("x", "in", 0, 1, 256, False), move("x", "in", 256, 1, 256, False)]

WRONG = {
    "await before the fill": (
        design(sequence=DRAIN + wait("out") + FILL), "deadlock", "awaits come after all transfers"),
    "a circle of cores": (
        design(
            take("back", "Consume", "u") + give("back", "Consume") + loop(stage("in", "middle")),
            loop(stage("middle", "out")) + take("back", "Produce", "u") + give("back", "Produce"),
            more=BACK),
        "deadlock", "no number of slots helps"),
    "too few slots": (
        design(
            loop(stage("in", "middle")) + take("late", "Produce", "u") + give("late", "Produce"),
            take("late", "Consume", "u") + give("late", "Consume") + loop(stage("middle", "out")),
            depth=1, more=LATE),
        "deadlock", "finishes with 2 slots in @middle"),
    "a token nobody gives": (
        design(sequence=FILL + DRAIN + wait("out") + wait("out")),
        "deadlock", "the tokens that tasks give"),
    "a fill that is too short": (
        design(sequence=move("x", "in", 0, 1, 384, False) + DRAIN + wait("out")),
        "flow_balance", "brings 3 objects"),
    "a core that stops early": (
        design(second=loop(stage("middle", "out"), 3)), "flow_balance", "carries 384"),
    "more objects held than there are": (
        design(loop(stage("in", "middle", 3))), "core_programs", "waits for itself"),
    "an input that is not released": (
        design(loop(take("in", "Consume") + take("middle", "Produce", "w") + CALL
                    + give("middle", "Produce"))),
        "core_programs", "waits for itself"),
    "an object released twice": (
        design(loop(stage("in", "middle") + give("in", "Consume"))),
        "core_programs", "does not hold"),
    "an object used after its release": (
        design(loop(take("in", "Consume") + take("middle", "Produce", "w") + give("in", "Consume")
                    + CALL + give("middle", "Produce"))),
        "core_programs", "not held"),
    "a descriptor rewritten under its task": (
        design(sequence="".join(HALVES) + DRAIN + wait("out")), "tokens", "is rewritten"),
    "an end without an await": (design(sequence=FILL + DRAIN), "tokens", "not awaited"),
    "drains over each other": (
        design(sequence=FILL + move("y", "out", 0, 2, 256, True)
               + move("y", "out", 128, 3, 256, True) + 2 * wait("out")),
        "dram_coverage", "written 0 to 2 times"),
    "a drain into what is being read": (
        design(sequence=FILL + move("x", "out", 0, 2, 512, True) + wait("out")),
        "dram_coverage", "times"),
    "more tasks than the queue takes": (
        design(sequence="".join(move("x", "in", 64 * i, i, 64, False) for i in range(8))
               + move("y", "out", 0, 9, 512, True) + wait("out")),
        "task_queue", "room for 5"),
    "a run that is no whole word": (
        design(sequence=move("x", "in", 0, 1, 510, False) + DRAIN + wait("out")),
        "shim_transfers", "multiple"),
}  # fmt: skip


def test_a_row_of_cores_is_legal() -> None:
    for depth in (1, 2, 5):
        assert all(check.ok for check in check_design(parse_design(design(depth=depth))))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_designs_are_refused_with_the_reason(name: str) -> None:
    text, check, words = WRONG[name]
    found = {c.name: c.detail for c in check_design(parse_design(text)) if not c.ok}
    assert words in found.get(check, ""), found
