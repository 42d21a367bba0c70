"""Programs for the machine in every form, machine profiles, and instances of the memory planner."""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine_programs import random_policy

from fuzzing.mutations import json_text, mutated_bytes, mutated_json, mutated_text
from fuzzing.running import Keep, Subject
from tilewright.errors import TilewrightError
from tilewright.planning.minimalloc_csv import parse_instance, write_instance
from tilewright.planning.plan import Limits, plan
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.files import FORMS, format_program, parse_program
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.native import NativeMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import parse_text_isa

CONFORMANCE = Path(__file__).parents[1] / "targets" / "atlas" / "conformance.toml"
PROFILES = Path(__file__).parents[2] / "src" / "tilewright" / "targets" / "atlas" / "profiles"
SUFFIX = {"assembly": ".S", "text": ".txt", "hex": ".hex", "binary": ".bin", "json": ".json"}
CYCLES = 20_000
DIRECTIVES = """.equ SIZE, 1024
start: li x1, SIZE
  addi x2, x1, (3 * 4) - 1
loop: bne x1, x2, loop
  nop
  nop
  vli.all m0, 0x3f80
  dma.load.ch0 x1, x2, x3
  dma.wait.ch0
  ecall
.dram 0x100
table: .word 1, 2, SIZE + 4
       .byte 0x7f, 3
       .balign 32
.vmem 64
       .dword 1 << 40
"""


@dataclass
class Sources:
    """The conformance programs in one form."""

    contents: list[bytes]
    profiles: list[Profile]


def _programs() -> list[tuple[Program, Profile, str]]:
    found = []
    for case in tomllib.loads(CONFORMANCE.read_text())["case"]:
        profile = load_profile(case["profile"])
        read = parse_text_isa if profile.name == "atlas-v0" else assemble
        found.append((read(case["program"], profile), profile, case["program"]))
    return found


def sources_of(form: str) -> Sources:
    """Valid programs in a form."""
    contents, profiles = [], []
    for program, profile, text in _programs():
        written = "text" if profile.name == "atlas-v0" else "assembly"
        try:
            content = text.encode() if form == written else format_program(program, form, profile)
        except TilewrightError:
            continue  # a negative delay has no word
        contents.append(content)
        profiles.append(profile)
    if form == "assembly":
        contents += [DIRECTIVES.encode()] * 8
        profiles += [load_profile("atlas-v1")] * 8
    return Sources(contents, profiles)


def _run_program(form: str, sources: Sources, choose: random.Random, keep: Keep) -> None:
    number = choose.randrange(len(sources.contents))
    content, profile = sources.contents[number], sources.profiles[number]
    if form == "binary":
        content = mutated_bytes(content, choose, sources.contents)
    elif form == "json":
        document = mutated_json(json.loads(content), choose)
        content = json_text(document, choose).encode("utf-8", "surrogatepass")
    elif choose.random() < 0.1:
        content = mutated_bytes(content, choose, sources.contents)
    else:
        others = [other.decode() for other in choose.sample(sources.contents, 3)]
        content = mutated_text(content.decode(), choose, others).encode("utf-8", "surrogatepass")
    keep.bytes(content, SUFFIX[form])
    given = form if choose.random() < 0.7 else None
    use_program(parse_program(content, f"program{SUFFIX[form]}", profile, given), profile, choose)


def use_program(program: Program, profile: Profile, choose: random.Random) -> None:
    """Everything a program is good for; what one of them refuses stops only that one."""
    for form in FORMS:
        try:
            again = parse_program(format_program(program, form, profile), "again", profile, form)
        except TilewrightError:
            continue  # the form cannot hold it
        assert len(again) == len(program), form
    lint(program, profile, 500)
    policy = random_policy(choose.getrandbits(32)) if choose.random() < 0.5 else Policy()
    for kind, cycles in ((NativeMachine, CYCLES), (PythonMachine, 300)):
        machine = kind(profile, policy)
        machine.load(program)
        machine.run(max_cycles=cycles)


# --- profiles ---------------------------------------------------------------------------


def _profiles() -> list[str]:
    texts = [path.read_text() for path in sorted(PROFILES.glob("*.toml"))]
    small = (
        'base = "atlas-v1"\nname = "mine"\n[dma]\nlink_bytes = 8\n[timing]\npop = ["MXU", 4, 2]\n'
    )
    return [*texts, small, small]


def _run_profile(texts: list[str], choose: random.Random, keep: Keep) -> None:
    text = mutated_text(choose.choice(texts), choose, texts)
    profile = load_profile(keep.file(text, "mine.toml"))
    program = assemble(DIRECTIVES, load_profile("atlas-v1"))
    for kind in (NativeMachine, PythonMachine):
        machine = kind(profile, Policy())
        machine.load(program)
        machine.run(max_cycles=200)


# --- memory planning --------------------------------------------------------------------

INSTANCE = """id,lower,upper,size
b0,0,5,8
b1,2,7,4
b2,5,9,16
b3,0,9,2
"""


def _run_instance(seeds: Any, choose: random.Random, keep: Keep) -> None:
    text = keep.text(mutated_text(INSTANCE, choose), ".csv")
    buffers = parse_instance(text, "instance.csv")
    parse_instance(write_instance(buffers), "again.csv")
    if len(buffers) <= 200:
        strategy = choose.choice(("none", "first-fit", "best-fit", "exact"))
        plan(
            buffers,
            choose.choice((16, 64, 1 << 20)),
            strategy=strategy,
            limits=Limits(work=1_000_000, cp_sat_time=0.01),
        )


SUBJECTS = [
    *(
        Subject(
            form,
            lambda form=form: sources_of(form),
            lambda seeds, choose, keep, form=form: _run_program(form, seeds, choose, keep),
        )
        for form in FORMS
    ),
    Subject("profile", _profiles, _run_profile),
    Subject("planner", lambda: None, _run_instance),
]
