"""Buffer assignment and code together: which tensors stay in VMEM is tried until every kernel has its room.

How much VMEM a kernel uses is known only when it is lowered. A kernel that lacks some asks for
more, and fewer tensors stay around it. Where its area no longer grows, its loop bodies may be shorter;
where that is not enough either, nothing else stays in VMEM while it runs. Products are cut into
smaller parts then (`smaller_parts.py`). Every kernel goes these steps once for each of its cuts, so the
search ends: with code, or with the name of the kernel that lacks room when all of VMEM is its own.

Error codes: TW1708 a kernel does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment, place, starved
from tilewright.targets.atlas.model.handing_over import (
    hand_over,
    in_vain,
    without_begun,
)
from tilewright.targets.atlas.model.kernel_code import KernelCode, LaunchRefused, Pending
from tilewright.targets.atlas.model.kernel_records import over_images
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram, StoredTensor
from tilewright.targets.atlas.model.layer_loops import can_be_copied
from tilewright.targets.atlas.model.link import Generator
from tilewright.targets.atlas.model.prefetching import choose, idle_readers, narrowed, without
from tilewright.targets.atlas.model.residency import Demands
from tilewright.targets.atlas.model.smaller_parts import cut_smaller
from tilewright.targets.atlas.profile import Profile

LEAST = 4096  # bytes that a kernel asks for at least
ASKED = 6  # times a kernel may ask for more
LARGE = 8  # a part of VMEM that is much for a kernel whose loops may as well be short
# Kernels that go through their operands once, element by element: they wait for transfers whatever
# the length of their loops.
PASSING = ("pointwise", "quantise", "move", "copy", "split_heads", "from_heads")
NO_ADDRESSES = ("TW1406", "TW1408")  # the memory planner found none


def fit(
    program: LaunchProgram, profile: Profile, fuse: bool
) -> tuple[BufferAssignment, list[KernelCode | Pending]]:
    """A buffer assignment at which all calls can be lowered, and the lowered calls."""
    staged: set[StoredTensor] = set()
    search = _Search(program, profile)
    while True:
        try:
            places = place(
                program.launches,
                program.layer_loops,
                profile,
                fuse,
                program.borders(),
                search.demands,
            )
        except TilewrightError as error:
            if error.code not in NO_ADDRESSES or not fuse:
                raise
            search.demands.slack += profile.vmem_bytes // 32
            fuse = search.demands.slack < profile.vmem_bytes // 2
            continue
        waiting = starved(program.launches, places, profile) if fuse else []
        waiting = [
            k
            for k in waiting
            if (left := program.launches[k].operands["a"]) not in staged
            and can_be_copied(left.layout)
        ]
        if waiting:
            staged.add(_stage(program, waiting))
            search = search.again()
            continue
        made, lacking = search.generator.lower(places, search.short)
        if not lacking:
            return (
                search.handing_over(*search.prefetching(places, made)) if fuse else (places, made)
            )
        try:
            for index, lack in lacking.items():
                search.ask(index, lack, places)
        except LaunchRefused as refused:
            if not cut_smaller(program.launches[refused.launch]):
                raise
            search = search.again()


@dataclass
class _Search:
    """What calls have asked for so far."""

    program: LaunchProgram
    profile: Profile
    demands: Demands = field(default_factory=Demands)
    short: set[int] = field(default_factory=set)  # calls whose loop bodies may be short
    areas: dict[int, list[int]] = field(default_factory=dict)  # call -> sizes of its areas

    def __post_init__(self) -> None:
        self.generator = Generator(self.profile, self.program.launches, self.program.layer_loops)

    def again(self) -> _Search:
        """A search from the beginning, for a program that has changed, which knows what was made."""
        search = _Search(self.program, self.profile)
        search.generator.traces, search.generator.made = self.generator.traces, self.generator.made
        return search

    def ask(self, index: int, lack: int, places: BufferAssignment) -> None:
        """The next step for a call that lacks so many bytes."""
        area = places.areas[index]
        seen = self.areas.setdefault(index, [])
        seen.append(area.end - area.start)
        grows = len(seen) == 1 or (seen[-1] > seen[-2] and len(seen) < ASKED)
        call = self.program.launches[index]
        if call.kernel in PASSING and lack > self.profile.vmem_bytes // LARGE:
            grows = False
        if index in self.demands.alone:
            self._refuse(index, lack, seen[-1])
        elif index not in self.short and grows:
            # Kernels over images are slow to lower: they do not ask for little.
            images = over_images(call.kernel)
            least = self.profile.vmem_bytes // 16 if images else LEAST
            self.demands.more[index] = self.demands.more.get(index, 0) + max(least, lack)
        elif index not in self.short:
            self.short.add(index)
        else:
            self.demands.alone.add(index)

    def prefetching(
        self, places: BufferAssignment, made: list[KernelCode | Pending]
    ) -> tuple[BufferAssignment, list[KernelCode | Pending]]:
        """The same with weights that come under the work of earlier calls, where calls still fit and
        move that much less."""
        before = [one.use for one in made]
        found = choose(self.program, places, before, self.profile)
        while found:
            now = narrowed(places, found, self.profile)
            lowered, lacking = self.generator.lower(now, self.short)
            if lacking:
                found = without(found, lacking)
                continue
            vain = idle_readers(found, before, [one.use for one in lowered])
            if not vain:
                return now, lowered
            found = [one for one in found if one.reader not in vain]
        return places, made

    def handing_over(
        self, places: BufferAssignment, made: list[KernelCode | Pending]
    ) -> tuple[BufferAssignment, list[KernelCode | Pending]]:
        """The same with first tiles that the call before loads, where calls still fit and find them."""
        turning = {t for loop in self.program.layer_loops for t in loop.own}
        now = hand_over(self.program, places, [one.use for one in made], self.profile)
        while now.begun:
            lowered, lacking = self.generator.lower(now, self.short)
            # A call that has the room lacks registers for what it brings.
            overloaded = {index for index, lack in lacking.items() if not lack}
            refused = {*lacking, *(one.reader for one in now.begun if one.carrier in overloaded)}
            if not lacking:
                uses = [one.use for one in lowered]
                refused = in_vain(now, uses, turning, self.profile)
            if not refused:
                return now, lowered
            now = without_begun(now, refused, places)
        return places, made

    def _refuse(self, index: int, lack: int, has: int) -> None:
        call = self.program.launches[index]
        operands = {name: t for name, t in call.operands.items() if not t.layout.is_vector}
        largest = max(operands.values(), key=lambda t: t.layout.bytes, default=call.output)
        shape = "x".join(str(size) for size in largest.layout.shape)
        error = TilewrightError(
            "TW1708",
            f"{call.name} does not fit: even with short loops it needs {_kib(has + lack)} KiB of "
            f"VMEM, and {self.profile.name} has {_kib(has)} KiB for it",
            hint=f"its largest operand is {largest.name} ({shape}, {_kib(largest.layout.bytes)} "
            "KiB); split it in the model, or run the layer on the host",
        )
        raise LaunchRefused(error, index)


def _kib(bytes: int) -> int:
    return -(-bytes // 1024)


def _stage(program: LaunchProgram, waiting: Sequence[int]) -> StoredTensor:
    """Copy the left operand of the first of these launches to VMEM, for it and for those right behind
    it that wait for the same; the copy."""
    index = waiting[0]
    source = program.launches[index].operands["a"]
    same = [k for k in waiting if program.launches[k].operands["a"] is source]
    readers = [program.launches[k] for number, k in enumerate(same) if k == index + number]
    layout = source.layout
    taken = {made.name for one in program.launches for made in one.results.values()}
    names = (f"{source.name}.staged{'~' * (k > 1)}{k if k > 1 else ''}" for k in count(1))
    out = StoredTensor(next(n for n in names if n not in taken), layout, "activation")
    options = {"rank": len(layout.shape), "dtype": layout.dtype}
    makers = [one for one in program.launches if one.output is source]
    noted = (makers[-1].scale, makers[-1].largest) if makers else (None, None)
    copy = Launch(f"{source.name} to VMEM", "copy", {"x": source}, out, options, (), 0, *noted)
    for reader in readers:
        reader.operands = {p: out if t is source else t for p, t in reader.operands.items()}
    program.insert(index, copy)
    return out
