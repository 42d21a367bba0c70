"""What the program text alone tells: targets, size, code no path reaches, useless waits."""

from __future__ import annotations

from tilewright.targets.atlas.lint.facts import X_BIT, X_MASK, Role
from tilewright.targets.atlas.lint.findings import CODES, Finding
from tilewright.targets.atlas.lint.stepper import Stepper
from tilewright.targets.atlas.wrapping import wrapping_numbers


def static_targets(stepper: Stepper) -> set[int]:
    """Instructions that some branch or jal names."""
    found = set()
    for index, facts in enumerate(stepper.facts):
        if facts.role is Role.TRANSFER and facts.mnemonic != "jalr":
            found.add(index + facts.immediate // 4)
    return found


def passed_by_all(stepper: Stepper, starts: list[int], index: int) -> bool:
    """Whether every way from `starts` to the end leads over an instruction."""
    count, slots = len(stepper.facts), stepper.profile.delay_slots
    turns: dict[int, list[int]] = {}  # last delay slot -> where the stream may go
    for own, facts in enumerate(stepper.facts):
        if facts.role is not Role.TRANSFER:
            continue
        last = own + slots
        if facts.mnemonic == "jalr" or any(k in turns for k in range(own, last)):
            return False  # computed jumps, or transfers in each other's slots: do not guess
        ways = [own + facts.immediate // 4]
        turns[last] = ways if facts.mnemonic == "jal" else [*ways, last + 1]
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        at = waiting.pop()
        if at in seen or at == index:
            continue
        if not 0 <= at < count or stepper.facts[at].role is Role.HALT:
            return False
        seen.add(at)
        waiting += turns.get(at, [at + 1])
    return True


def loop_extents(stepper: Stepper) -> dict[int, int]:
    """First instruction of every loop -> its last, delay slots included."""
    extents: dict[int, int] = {}
    for index, facts in enumerate(stepper.facts):
        if facts.role is Role.TRANSFER and facts.mnemonic != "jalr":
            target = index + facts.immediate // 4
            if 0 <= target <= index:
                end = index + stepper.profile.delay_slots
                extents[target] = max(extents.get(target, 0), end)
    return extents


def live_scalars(stepper: Stepper) -> list[int]:
    """For every instruction the x registers, as bits, that may be read from there on before they
    are written. Never too few: a branch is also taken to fall through."""
    count, slots = len(stepper.facts), stepper.profile.delay_slots
    everything = (1 << 32) - 1
    jumps: dict[int, list[int]] = {}  # last delay slot -> targets
    for own, facts in enumerate(stepper.facts):
        if facts.role is Role.TRANSFER and facts.mnemonic != "jalr":
            target = own + facts.immediate // 4
            for last in range(own, own + slots + 1):  # whatever redirects in the slots do
                jumps.setdefault(last, []).append(target)
    reads = [(f.reads & X_MASK) >> X_BIT for f in stepper.facts]
    kept = [everything & ~((f.writes & X_MASK) >> X_BIT) for f in stepper.facts]
    live = [0] * (count + 1)
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            after = live[index + 1]
            for target in jumps.get(index, ()):
                after |= live[target] if 0 <= target <= count else everything
            if stepper.facts[index].mnemonic == "jalr":
                after = everything
            now = reads[index] | (after & kept[index])
            if now != live[index]:
                live[index], changed = now, True
    return live


def static_findings(stepper: Stepper) -> list[Finding]:
    """Findings that need no execution, or only the record of where execution went."""
    found: list[Finding] = []
    program, profile = stepper.program, stepper.profile
    count = len(program)

    def add(code: str, index: int, message: str, hint: str | None = None) -> None:
        line = program.location(index).line
        found.append(Finding(code, CODES[code].severity, message, index, line, hint=hint))

    if 4 * count > profile.imem_bytes:
        add(
            "TW2029", profile.imem_bytes // 4,
            f"the program takes {4 * count} bytes, instruction memory has {profile.imem_bytes}",
        )  # fmt: skip
    for index, facts in enumerate(stepper.facts):
        if facts.role is Role.TRANSFER and facts.mnemonic != "jalr":
            target = index + facts.immediate / 4
            if not 0 <= target <= count or facts.immediate % 4:
                add("TW2019", index, f"{facts.shown} names a target outside the program")
    for index, message in wrapping_numbers(program):
        add("TW2035", index, message, hint="write the negative number, or load it with li")
    for index in sorted(stepper.waits_idle - stepper.waits_used):
        channel = stepper.facts[index].channel
        add(
            "TW2014", index,
            f"dma.wait.ch{channel} waits for nothing: no DMA was started on the channel before",
            hint="remove it, or check the channel number",
        )  # fmt: skip
    found += _unreached(stepper)
    if count and not stepper.ended:
        add("TW2032", 0, "no path leads to the end of the program")
    return found


def _unreached(stepper: Stepper) -> list[Finding]:
    """One note per stretch of code that no path reaches; nops behind a halt are expected."""
    found: list[Finding] = []
    program, reached = stepper.program, stepper.reached
    count = len(program)
    if any(f.code in ("TW2020", "TW2034") for f in stepper.found.findings()):
        return []  # unknown jumps may lead anywhere
    index = reached.find(0)
    while 0 <= index < count:
        end = reached.find(1, index)
        end = count if end < 0 else end
        first = index
        if index and stepper.facts[index - 1].role is Role.HALT:
            while first < end and _is_nop(stepper, first):
                first += 1
        if first < end:
            number = end - first
            what = "instruction is" if number == 1 else "instructions are"
            found.append(
                Finding(
                    "TW2031", CODES["TW2031"].severity, f"{number} {what} never reached from here",
                    first, program.location(first).line,
                )
            )  # fmt: skip
        index = reached.find(0, end)
    return found


def _is_nop(stepper: Stepper, index: int) -> bool:
    facts = stepper.facts[index]
    return facts.role in (Role.SCALAR, Role.DELAY) and not facts.writes and facts.memory is None
