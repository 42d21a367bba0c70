"""npu-plan-memory: addresses and flags for the transfers of abstract instructions.

Error codes: TW1430 a wait without a transfer, TW1431 a transfer nobody waits for, TW1432 a wait
inside a loop for a transfer outside it, TW1433 regions that run into each other; and those of
planning: TW1406 and TW1408 when a region is too small, TW1420 when flags run out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from tilewright.dialects.locations import error_at, location_of
from tilewright.dialects.xdsl_api import (
    Block,
    Context,
    IntegerAttr,
    ModuleOp,
    ModulePass,
    Operation,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.planning.buffers import Buffer, align_up
from tilewright.planning.flags import Transfer, assign_flags
from tilewright.planning.liveness import Loop, Step, lifetimes
from tilewright.planning.plan import STRATEGIES, Region, plan
from tilewright.targets.atlas.dialect.npu_isa import (
    DmaInstruction,
    DmaLoadMxu0Op,
    DmaLoadMxu1Op,
    DmaStoreOp,
    DmaWaitOp,
)

REGIONS = ("load", "weight", "store")
KEEPS = ("none", "stores", "all")
LOOPS = ("scf.for", "scf.while", "scf.forall", "scf.parallel", "affine.for")
# Where the regions begin when nothing is planned and nothing else is said.
MONOTONIC_BASES = {"load": 0, "weight": 0x2000, "store": 0x5000}


@dataclass
class _Dma:
    """A transfer and the wait that ends it."""

    op: DmaInstruction
    name: str
    region: str
    size: int
    issue: int
    wait: DmaWaitOp | None = None
    wait_position: int = 0


@dataclass
class _Function:
    """The transfers of a function and its code as liveness reads it."""

    op: Operation
    transfers: list[_Dma] = field(default_factory=list)
    steps: int = 0
    code: list[Step | Loop] = field(default_factory=list)


@dataclass(frozen=True)
class PlanNPUMemory(ModulePass):
    """Give every transfer a base address and a flag; a wait gets the flag of the oldest transfer
    not yet waited for.

    Activations, weights and stores have a region each. A buffer is live from its transfer to the
    wait for it; what is stored stays live to the end of the function.

    before: npu_isa.dma_load rd=2, base=111, flag=9
            npu_isa.dma_wait flag=99
    after:  npu_isa.dma_load rd=2, base=0, flag=0
            npu_isa.dma_wait flag=0

    With plan=none nothing is reused: addresses only grow and flags are given out in turn.
    """

    name = "npu-plan-memory"

    plan: str = field(default="auto", metadata={"meaning": "one of " + ", ".join(STRATEGIES)})
    load_base: int | None = field(default=None, metadata={"meaning": "where activations begin"})
    weight_base: int | None = field(default=None, metadata={"meaning": "where weights begin"})
    store_base: int | None = field(default=None, metadata={"meaning": "where stores begin"})
    load_capacity: int | None = field(default=None, metadata={"meaning": "bytes of activations"})
    weight_capacity: int | None = field(default=None, metadata={"meaning": "bytes of weights"})
    store_capacity: int | None = field(default=None, metadata={"meaning": "bytes of stores"})
    alignment: int = field(default=32, metadata={"meaning": "of planned addresses, in bytes"})
    flags: int = field(default=3, metadata={"meaning": "flags the machine has"})
    keep: str = field(
        default="stores",
        metadata={"meaning": "what stays live to the end: none, stores or all"},
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._check_options()
        for function in op.walk():
            if function.name.endswith(".func") and function.regions and function.regions[0].blocks:
                self._plan_function(_read_function(function))

    def _check_options(self) -> None:
        for option, value, known in (("plan", self.plan, STRATEGIES), ("keep", self.keep, KEEPS)):
            if value not in known:
                raise TilewrightError(
                    "TW1303",
                    f"npu-plan-memory: {option} is {value}",
                    hint=f"choose one of {', '.join(known)}",
                )
        for option, value in (("alignment", self.alignment), ("flags", self.flags)):
            if value < 1:
                raise TilewrightError(
                    "TW1303", f"npu-plan-memory: {option} is {value}", hint="it is one or more"
                )

    def _plan_function(self, function: _Function) -> None:
        if not function.transfers:
            return
        try:
            flags = assign_flags(
                [
                    Transfer(t.name, t.issue, t.wait_position, location_of(t.op))
                    for t in function.transfers
                ],
                self.flags,
                rotate=self.plan == "none",
            )
            offsets, ends = self._offsets(function)
        except TilewrightError as error:
            place = location_of(function.op)
            raise (error.at(place) if place else error) from None
        bases = self._bases(function, ends)
        for transfer in function.transfers:
            _set(transfer.op, "base", bases[transfer.region] + offsets[transfer.name])
            _set(transfer.op, "flag", flags[transfer.name])
            assert transfer.wait is not None
            _set(transfer.wait, "flag", flags[transfer.name])

    def _offsets(self, function: _Function) -> tuple[dict[str, int], dict[str, int]]:
        """Offsets within the regions, and the bytes each region takes."""
        alignment = 1 if self.plan == "none" else self.alignment
        kept = {"none": (), "stores": ("store",), "all": REGIONS}[self.keep]
        live = lifetimes(
            function.code, outputs=[t.name for t in function.transfers if t.region in kept]
        )
        # A transfer without a size still has an address of its own.
        buffers = [
            Buffer(
                t.name,
                max(1, t.size),
                live[t.name].lower,
                live[t.name].upper,
                region=t.region,
            )
            for t in function.transfers
        ]
        capacities = (self.load_capacity, self.weight_capacity, self.store_capacity)
        result = plan(
            buffers,
            regions=[Region(n, c, alignment) for n, c in zip(REGIONS, capacities, strict=True)],
            strategy=self.plan,
        )
        return result.offsets, {name: part.peak for name, part in result.regions.items()}

    def _bases(self, function: _Function, ends: dict[str, int]) -> dict[str, int]:
        """Where each region begins: as asked, else one after the other."""
        given = dict(zip(REGIONS, (self.load_base, self.weight_base, self.store_base), strict=True))
        bases: dict[str, int] = {}
        top = 0
        for name in REGIONS:
            base = given[name]
            if base is None:
                base = MONOTONIC_BASES[name] if self.plan == "none" else top
            bases[name] = base
            top = max(top, align_up(base + ends[name], self.alignment))
        used = sorted((bases[n], bases[n] + ends[n], n) for n in REGIONS if ends[n])
        for (_, end, low), (start, _, high) in pairwise(used):
            if start < end:
                raise error_at(
                    function.op,
                    "TW1433",
                    f"the {low} region ends at {end}, the {high} region begins at {start}",
                    f"set {high}-base to {end} or more"
                    + (", or plan with reuse" if self.plan == "none" else ""),
                )
        return bases


def _set(op: Operation, name: str, value: int) -> None:
    op.properties[name] = IntegerAttr(value, i64)


def _region_of(op: DmaInstruction) -> str:
    if isinstance(op, DmaStoreOp):
        return "store"
    return "weight" if isinstance(op, DmaLoadMxu0Op | DmaLoadMxu1Op) else "load"


def _read_function(op: Operation) -> _Function:
    function = _Function(op)
    pending: deque[_Dma] = deque()
    for block in op.regions[0].blocks:
        _read_block(function, block, function.code, pending, False)
    _check_waited(pending)
    return function


def _read_block(
    function: _Function,
    block: Block,
    code: list[Step | Loop],
    pending: deque[_Dma],
    outer_pending: bool,
) -> None:
    """Number the steps of a block and pair its waits with its transfers, oldest first."""
    for op in block.ops:
        position = function.steps
        function.steps += 1
        if isinstance(op, DmaInstruction):
            region = _region_of(op)
            size = 0 if op.size is None else op.size.value.data
            dma = _Dma(op, f"{region}{len(function.transfers)}", region, size, position)
            function.transfers.append(dma)
            pending.append(dma)
            code.append(Step(defines=(dma.name,)))
        elif isinstance(op, DmaWaitOp):
            if not pending:
                raise _unmatched(op, outer_pending)
            dma = pending.popleft()
            dma.wait, dma.wait_position = op, position
            code.append(Step(uses=(dma.name,)))
        else:
            code.append(Step())
        for inner in (b for region in op.regions for b in region.blocks):
            # A body may run any number of times, so its transfers and waits must pair up in it.
            inner_code: list[Step | Loop] = []
            inner_pending: deque[_Dma] = deque()
            _read_block(function, inner, inner_code, inner_pending, outer_pending or bool(pending))
            _check_waited(inner_pending)
            if op.name in LOOPS:
                code.append(Loop(tuple(inner_code)))
            else:
                code.extend(inner_code)


def _unmatched(op: DmaWaitOp, outer_pending: bool) -> TilewrightError:
    if outer_pending:
        return error_at(
            op,
            "TW1432",
            "waits for a transfer that is issued outside this body",
            "wait for it before the loop or branch, or issue it inside",
        )
    return error_at(
        op,
        "TW1430",
        "no transfer is left to wait for",
        "every wait ends one load or store before it",
    )


def _check_waited(pending: deque[_Dma]) -> None:
    if pending:
        raise error_at(
            pending[0].op,
            "TW1431",
            "nothing waits for this transfer in the same body",
            "add npu_isa.dma_wait after it",
        )
