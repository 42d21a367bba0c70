"""How long a program of a million instructions takes in every form.

    python benchmarks/asm_speed.py [--count 1000000] [--write]

The program is random: every instruction of the table, random operands, a label every
hundred lines. Times are CPU seconds of the one process. `--write` keeps the table in benchmarks/results/asm_speed.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.encoding import decode, encode, operand_name, operand_range
from tilewright.targets.atlas.images import parse_hex, print_hex
from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program_json import parse_json, print_json
from tilewright.targets.atlas.text_isa import parse_text_isa, print_text_isa

GOAL = 5.0  # seconds for a million instructions


def random_assembly(count: int, seed: int = 1) -> str:
    """Assembly with every instruction, labels, and branches to labels near by."""
    chooser = random.Random(seed)
    lines = []
    for index in range(count):
        if index % 100 == 0:
            lines.append(f"block{index // 100}:")
        row = chooser.choice(OPCODES)
        shown = []
        for operand in row.operands:
            low, high, step = operand_range(operand)
            if operand.immediate is not None and operand.immediate.exact:
                low = 0
            if operand.kind.value == "m":
                high = 62
            shown.append(operand_name(operand, chooser.randrange(low, high + 1, step)))
        if row.is_conditional:
            shown[-1] = f"block{index // 100}"
        elif row.mnemonic == "jal":
            shown[-1] = f"block{chooser.randrange(max(0, index - 20000), index + 1) // 100}"
        if row.has_channel:
            text = f"{row.mnemonic}.ch{shown[-1]} {', '.join(shown[:-1])}"
        elif row.memory:
            text = f"{row.mnemonic} {shown[0]}, {shown[1]}({shown[2]})"
        else:
            text = f"{row.mnemonic} {', '.join(shown)}"
        lines.append(f"    {text}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    profile = load_profile("atlas-v1")
    text = random_assembly(options.count)
    rows: list[tuple[str, float, float]] = []

    def measure(name: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = action()
        seconds = time.process_time() - start
        size = len(result) / 1e6 if isinstance(result, str | bytes) else 0.0
        rows.append((name, seconds, size))
        return result

    program = measure("assemble .S", lambda: assemble(text, profile))
    words = measure("encode", lambda: encode(program, profile))
    decoded = measure("decode", lambda: decode(words, profile))
    printed = measure("disassemble", lambda: disassemble(decoded))
    again = measure("assemble the disassembly", lambda: assemble(printed, profile))
    assert again.same_code(decoded)
    hexed = measure("write .hex", lambda: print_hex(program, profile))
    assert measure("read .hex", lambda: parse_hex(hexed, profile)).same_code(decoded)
    form = measure("write text form", lambda: print_text_isa(program))
    assert measure("read text form", lambda: parse_text_isa(form)).same_code(program)
    document = measure("write .json", lambda: print_json(program, profile))
    assert measure("read .json", lambda: parse_json(document, profile)).same_code(program)

    goal = GOAL * options.count / 1e6
    table = ["| step | CPU seconds | million/s | of the goal |", "|---|---|---|---|"]
    for name, seconds, _ in rows:
        rate = options.count / seconds / 1e6
        table.append(f"| {name} | {seconds:.2f} | {rate:.2f} | {100 * seconds / goal:.0f} % |")
    heading = f"{len(program):,} instructions, {len(text) / 1e6:.1f} MB of assembly; goal {goal:g} s a step"
    print(heading, *table, sep="\n")
    if options.write:
        machine = (
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
        note = f"{datetime.date.today()}, {machine}"
        target = Path(__file__).parent / "results" / "asm_speed.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(["# Program forms", "", note, "", heading, "", *table]) + "\n")


if __name__ == "__main__":
    main()
