"""What lint can find: the table of codes, one finding, and the report of a program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.program import Program

ERROR, WARNING, NOTE = "error", "warning", "note"
_RANK = {ERROR: 0, WARNING: 1, NOTE: 2}


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding. `fault` is what the machine raises, None where it stays silent."""

    code: str
    severity: str
    title: str
    fault: str | None
    fix: str  # what `--fix` inserts: "delay", "wait", "slots" or "" for nothing
    meaning: str


_ROWS = [
    Code("TW2001", ERROR, "unit busy", "structural", "delay",
         "an instruction is issued to a unit that still works on an older one"),
    Code("TW2002", ERROR, "tensor register conflict", "bank_conflict", "delay",
         "an operation takes a tensor register that one in flight holds; sharing a source counts"),
    Code("TW2003", ERROR, "VMEM conflict", "bank_conflict", "delay",
         "a tensor access or DMA touches a VMEM block that an operation in flight holds"),
    Code("TW2004", ERROR, "channel busy", "channel_busy", "wait",
         "a DMA instruction uses a channel whose last operation is not done"),
    Code("TW2005", ERROR, "read too early", None, "delay",
         "a register is read before the operation that produces it is done"),
    Code("TW2006", ERROR, "overwritten too early", None, "delay",
         "a register is overwritten before an older operation reads it: operands are read when "
         "an operation completes"),
    Code("TW2007", ERROR, "written out of order", None, "delay",
         "an older operation in flight writes the same register later and wins"),
    Code("TW2008", ERROR, "VMEM order", None, "delay",
         "bytes of VMEM are read or written before an older access to them is done, and the "
         "machine does not notice"),
    Code("TW2009", ERROR, "register of a pending DMA changed", None, "wait",
         "a DMA reads its addresses and count when it completes; one of them changes before"),
    Code("TW2010", WARNING, "DMA'd memory used without a wait", None, "wait",
         "enough ticks have passed for the DMA to be done, but no dma.wait says so"),
    Code("TW2011", WARNING, "register of a DMA changed without a wait", None, "wait",
         "enough ticks have passed for the DMA to be done, but no dma.wait says so"),
    Code("TW2012", WARNING, "DMA issued over work in flight", None, "delay",
         "a DMA touches what an older operation still works on; it comes out right only because "
         "the engine happens to finish later"),
    Code("TW2013", WARNING, "DMA never waited for", None, "wait",
         "the program ends and no dma.wait followed the last operation of a channel"),
    Code("TW2014", WARNING, "wait without DMA", None, "",
         "no operation was started on the channel since the wait before"),
    Code("TW2015", ERROR, "halt drops work", None, "delay",
         "the machine halts while an operation is in flight; its result is lost"),
    Code("TW2016", ERROR, "control transfer in a delay slot", "delay_slot", "",
         "a branch or jump stands in the delay slots of another, taken or not"),
    Code("TW2017", ERROR, "delay slots missing at the end", "illegal", "slots",
         "a control transfer is followed by fewer instructions than the machine has delay slots"),
    Code("TW2018", ERROR, "illegal target", "illegal", "",
         "a control transfer goes to a negative or misaligned address"),
    Code("TW2019", WARNING, "target outside the program", None, "",
         "a control transfer names an address that is not an instruction and not the end"),
    Code("TW2020", ERROR, "unknown target", "illegal", "",
         "a jalr whose target lint cannot know: nothing behind it can be checked"),
    Code("TW2021", ERROR, "pair register 63", "pair_range", "",
         "a register pair starts at m63"),
    Code("TW2022", ERROR, "outside VMEM", "bounds", "",
         "an access reaches beyond the end of VMEM"),
    Code("TW2023", ERROR, "outside DRAM", "bounds", "",
         "a transfer reaches beyond the end of DRAM"),
    Code("TW2024", ERROR, "transfer too long", "bounds", "",
         "a transfer is longer than the profile allows"),
    Code("TW2025", ERROR, "misaligned", "misaligned", "",
         "an address or DMA count is not a multiple of what the access needs"),
    Code("TW2026", ERROR, "negative delay", "illegal", "",
         "the count of a delay is negative"),
    Code("TW2027", ERROR, "missing instruction", "illegal", "",
         "the profile does not have the instruction"),
    Code("TW2028", WARNING, "scale register never set", None, "",
         "a scale register is used before seli or seld wrote it: packing gives zeros, unpacking "
         "divides by zero"),
    Code("TW2029", WARNING, "program too large", None, "",
         "the program does not fit into instruction memory"),
    Code("TW2030", NOTE, "register never written", None, "",
         "a register is read that nothing wrote before; it is zero only after reset"),
    Code("TW2031", NOTE, "code never reached", None, "",
         "no path leads to these instructions"),
    Code("TW2032", WARNING, "program never ends", None, "",
         "no path leads to the end of the program or to a halt"),
    Code("TW2033", NOTE, "summarised", None, "",
         "the program runs longer than lint executes step by step; the rest was checked by a "
         "fixpoint over loops"),
    Code("TW2034", ERROR, "not decided", None, "",
         "the program has more different pipeline situations than lint follows; it is not shown "
         "to be free of hazards"),
    Code("TW2035", WARNING, "number wraps", None, "",
         "a number is written as positive that twelve bits hold as a negative one: 2048 is read as "
         "-2048, 4095 as -1"),
]  # fmt: skip

CODES: dict[str, Code] = {row.code: row for row in _ROWS}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong, at one instruction."""

    code: str
    severity: str
    message: str
    index: int  # instruction
    line: int  # of the source, 0 unknown
    may: bool = False  # a path or an unknown value decides
    other: int = -1  # the older instruction it collides with, -1 none
    other_line: int = 0
    hint: str | None = None
    tick: int = 0  # when it happens, where that is known
    need: int = 0  # ticks by which waiting would cure it, 0 if it would not
    detail: str = ""  # "MRF", "VMEM", register names

    @property
    def fault(self) -> str | None:
        return CODES[self.code].fault

    def to_json(self, program: Program) -> dict[str, object]:
        return {
            "code": self.code,
            "severity": self.severity,
            "may": self.may,
            "message": self.message,
            "file": program.source,
            "line": self.line or None,
            "instruction": self.index,
            "related_line": self.other_line or None,
            "related_instruction": self.other if self.other >= 0 else None,
            "fault": self.fault,
            "cycle": self.tick or None,
            "cycles_needed": self.need or None,
            "hint": self.hint,
        }


@dataclass
class Report:
    """All findings of a program, in program order."""

    program: Program
    profile: str
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0  # instructions executed abstractly
    exact: bool = True  # every scalar value and every branch was known

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == WARNING]

    @property
    def clean(self) -> bool:
        """Whether nothing worse than a note was found."""
        return not any(f.severity != NOTE for f in self.findings)

    def to_json(self) -> dict[str, object]:
        counts = {s: sum(f.severity == s for f in self.findings) for s in (ERROR, WARNING, NOTE)}
        return {
            "schema": "tilewright.lint/1",
            "program": self.program.source,
            "profile": self.profile,
            "instructions": len(self.program),
            "clean": self.clean,
            "exact": self.exact,
            "steps": self.steps,
            "counts": counts,
            "findings": [f.to_json(self.program) for f in self.findings],
        }


class Collector:
    """Findings by place: the same thing seen again keeps its surest and longest form."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._found: dict[tuple[str, int, int, str], Finding] = {}

    def add(self, finding: Finding) -> None:
        key = (finding.code, finding.index, finding.other, finding.detail)
        known = self._found.get(key)
        if known is None:
            self._found[key] = finding
        elif finding.may != known.may:
            if known.may:
                self._found[key] = replace(finding, need=max(finding.need, known.need))
        elif finding.need > known.need:
            self._found[key] = replace(finding, tick=known.tick)

    def doubtful(self) -> list[tuple[tuple[str, int, int, str], Finding]]:
        """Findings that are only possible, with their keys."""
        return [(key, finding) for key, finding in self._found.items() if finding.may]

    def confirm(self, key: tuple[str, int, int, str]) -> None:
        """What was only possible happens on every path."""
        self._found[key] = replace(self._found[key], may=False)

    def findings(self) -> list[Finding]:
        return sorted(
            self._found.values(), key=lambda f: (f.index, _RANK[f.severity], f.code, f.other)
        )
