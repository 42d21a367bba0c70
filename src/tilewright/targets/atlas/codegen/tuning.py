"""Constants of the code generator that a tuner may set: all in one place.

None of them changes what a program computes, only how fast it is and how long compiling takes. The
values are what the kernel library and the models were measured with
(`tests/data/golden_cycles.json`).

    with tuned(body_instructions=2000):
        kernel.compile(...)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from tilewright.errors import TilewrightError


@dataclass
class Tuning:
    """Limits and shares by which the code generator decides."""

    # Unrolling and buffers (lower_nest.py, inner_loop.py, padding.py)
    straight_instructions: int = 1500  # instructions up to which a whole kernel is unrolled
    body_instructions: int = 3000  # longest loop body that unrolling may make
    joined_instructions: int = 1500  # of small kernels that share one schedule
    few_bytes: int = 8192  # up to here straight code loads register by register
    kept_registers: int = 24  # tensor registers that loaded tiles may keep in straight code
    lagging_body: int = (
        300  # statements of a body whose results may leave late; shorter ones save a register
    )
    deferred_stores: int = 2  # stores of an iteration that may still run in the next
    wasted_loads: float = (
        0.012  # share of a loop's transfers that is worth a second copy of its body
    )
    wasted_drains: int = 20  # times the longest operation that such loads take at least
    last_body_ops: int = 900  # longest body for that
    bare_body_ops: int = 6000  # and where that copy is not scheduled anew
    around_body_ops: int = 2000  # and for a last iteration that loads ahead for the loop around
    exposed_loads: float = (
        0.03  # share of a loop's time in which its first loads would keep all waiting
    )
    spill_bytes: int = 16 * 1024  # VMEM left for tiles that wait between uses
    roomy_bytes: int = 64 * 1024  # free VMEM with which constants take some for a copy
    row_copies: int = 4  # of a row that are loaded rather than made by the vector unit
    padded_share: float = (
        0.75  # of a tile that is worth transfers of its own where the rest is cleared
    )

    # Tables made on chip (tables.py)
    table_words: int = 256  # most words of one; more would be more program than table
    line_words: int = 128  # and of a line that is repeated

    # Kernels that share one schedule (join_routines.py)
    joined_reach: int = 2  # kernels that a tile in registers waits for, at most

    # Spilling (spilling.py)
    live_registers: int = 28  # tensor registers a piece may fill with tiles that are still needed
    waiting_registers: int = 16  # of these, with computed tiles that are needed only much later
    waiting_statements: int = 12  # statements until then

    # List scheduling and register allocation (list_schedule.py, routine.py)
    transfer_haste: int = (
        12  # cycles before the engine is free in which the next transfer is prepared
    )
    spare_channels: int = 3  # left to others by transfers that nothing here waits for
    window_instructions: int = 96  # looked at for each issue, the first in program order
    window_ahead: int = 64  # of these, transfers for a later piece, and what makes their addresses
    result_registers: int = 8  # kept free for results while loads run ahead
    working_scalars: int = 14  # scalar registers a loop body has for addresses and rare constants

    # Loop shifting (loop_shifting.py, shifted_loop.py)
    shifted_ops: int = 1500  # longer bodies stay as they are
    shift_cuts: int = 32  # places at which a body is tried to be cut
    early_share: float = 0.03  # share of a half's work that may have run long before the rest of it
    worthwhile_interval: float = 0.97  # an interval this much shorter is worth the longer program
    near_bound: float = 1.01  # times the bound: close enough to stop looking
    shift_ops_tried: int = 4000  # instructions scheduled in search of the best shift
    shifts_tried: int = 8  # at most
    shift_registers: int = 20  # tensor registers that stay free for values within the kernel
    shift_spare_registers: int = 8  # of these, not counted on when the halves are put side by side

    # Which way a straight loop goes (straight_loop.py)
    enough: float = 1.04  # times the bound; beyond, other ways are tried as well
    plain_body: int = (
        600  # instructions of a body that is left plain where it is close to the bound
    )
    plain_close: float = 1.09  # times the bound, for that
    doubled_ops: int = 500  # longest body of which two iterations become one
    doubled_trips: int = 6  # fewest iterations for that

    # Modulo scheduling (modulo_loop.py, modulo_place.py, modulo_scalars.py, loop_graph.py)
    modulo_channels: int = (
        4  # for transfers of one iteration; each keeps scalar registers until its wait
    )
    modulo_head: int = 40  # cycles at the start for scalar instructions
    modulo_work: int = 100_000  # cycles tried for one loop, in all
    modulo_attempts: int = 12  # with longer times in slots
    modulo_steps: int = 3000  # longer bodies stay as they are
    wait_patience: int = 600  # cycles by which a wait comes later than its transfer should take
    tight_share: float = (
        0.6  # of the interval from which a unit's idle cycles are kept in useful lengths
    )
    slot_patience: int = 300  # cycles a value waits for a slot that others use already
    slot_growth: float = 1.02  # times a slot was taken in vain, for the next attempt
    weight_lead: int = 400  # cycles by which weights may come before their product
    step_tries: int = 400  # cycles at which a step is tried before its loads
    pack_ahead: int = 4  # steps of a unit that may change places
    pointer_ahead: int = 120  # cycles before its first use from which a pointer must have stopped
    scalar_reach: int = 100  # cycles before its use within which a value is computed
    transfer_addresses: int = (
        16  # cycles from one transfer to the next, in which its addresses are made
    )

    # The exact solver (exact_schedule.py)
    solver_instructions: int = 120  # longest piece that it gets
    solver_work: float = 4.0  # deterministic time, the same on every machine


TUNING = Tuning()


@contextmanager
def tuned(**changes: float) -> Iterator[Tuning]:
    """Other values while a block runs; an unknown name or a negative number is an error."""
    known = {field.name: getattr(TUNING, field.name) for field in fields(Tuning)}
    for name, value in changes.items():
        if name not in known or value < 0:
            raise TilewrightError(
                "TW1459",
                f"{name} = {value} is no setting of the code generator",
                hint="codegen/tuning.py lists them; all are zero or more",
            )
    for name, value in changes.items():
        setattr(TUNING, name, value)
    try:
        yield TUNING
    finally:
        for name in changes:
            setattr(TUNING, name, known[name])
