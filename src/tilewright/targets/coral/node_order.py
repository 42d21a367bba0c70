"""The order in which a program's nodes run, where it decides what fits."""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.coral.program import Node, Program, Value


def larger_last(program: Program) -> Program:
    """The same nodes in an order in which operands with less behind them are made first.

    What a large value is made of then stands together, with nothing in between.
    """
    definitions = program.definitions()
    behind: dict[Value, int] = {}  # the largest value that one depends on
    for node in program.nodes:
        behind[node.output] = max([node.output.bytes, *(behind.get(v, 0) for v in node.inputs)])
    made: dict[Node, None] = {}
    waiting = [definitions[v] for v in reversed(program.outputs) if v in definitions]
    while waiting:
        node = waiting[-1]
        operands = [definitions[v] for v in dict.fromkeys(node.inputs) if v in definitions]
        missing = [n for n in operands if n not in made]
        if node in made or not missing:
            waiting.pop()
            made.setdefault(node)
            continue
        waiting.append(min(missing, key=lambda n: behind[n.output]))
    return replace(program, nodes=list(made))
