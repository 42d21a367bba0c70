"""`tilewright analyze-quant`: count precisions before and after a lowering, and hold them to limits."""

from __future__ import annotations

import fnmatch

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError

HELP = """Compare which precisions two MLIR files compute in.

Counts ops by signature, such as `linalg.matmul bf16*bf16->f32` or
`arith.truncf f32->bf16`, in BEFORE and in AFTER, and prints both columns.
Limits apply to AFTER; when one is broken the exit code is 1, so the command
works as a gate in a build.

\b
  tilewright analyze-quant in.mlir out.mlir --max-f32-ops 0
  tilewright analyze-quant in.mlir out.mlir --max 'linalg.softmax f32=0'
  tilewright analyze-quant in.mlir out.mlir --min '*matmul f8E4M3FN*=300'
"""


@click.command("analyze-quant", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", metavar="BEFORE.mlir")
@click.argument("after", metavar="AFTER.mlir")
@click.option("--max-f32-ops", type=int, metavar="N", help="At most N ops of AFTER compute in f32.")
@click.option(
    "--max",
    "most",
    multiple=True,
    metavar="SIGNATURE=N",
    help="At most N ops of AFTER have this signature; * matches anything. Repeatable.",
)
@click.option(
    "--min",
    "least",
    multiple=True,
    metavar="SIGNATURE=N",
    help="At least N ops of AFTER have this signature. Repeatable.",
)
@click.option(
    "--no-more-f32", is_flag=True, help="AFTER has no more ops that compute in f32 than BEFORE."
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts and gates as JSON.")
def command(
    before: str,
    after: str,
    max_f32_ops: int | None,
    most: tuple[str, ...],
    least: tuple[str, ...],
    no_more_f32: bool,
    as_json: bool,
) -> int:
    from tilewright.frontend.mlir import read_wrapped
    from tilewright.report.precision import count_precisions, f32_compute_ops

    limits = [(*_limit(text), "at most") for text in most]
    limits += [(*_limit(text), "at least") for text in least]
    counts = [count_precisions(read_wrapped(path)) for path in (before, after)]
    f32 = [f32_compute_ops(c) for c in counts]
    gates = []
    if max_f32_ops is not None:
        gates.append(_gate("ops that compute in f32", "at most", max_f32_ops, f32[1]))
    if no_more_f32:
        gates.append(_gate("ops that compute in f32", "at most", f32[0], f32[1]))
    for pattern, number, kind in limits:
        found = sum(n for s, n in counts[1].items() if fnmatch.fnmatchcase(s, pattern))
        gates.append(_gate(pattern, kind, number, found))
    if as_json:
        print_json(
            {
                "before": {"file": before, "counts": counts[0], "f32_ops": f32[0]},
                "after": {"file": after, "counts": counts[1], "f32_ops": f32[1]},
                "gates": gates,
                "passed": all(gate["passed"] for gate in gates),
            }
        )
    else:
        _print_table(counts[0], counts[1], f32)
        for gate in gates:
            word = "pass" if gate["passed"] else "FAIL"
            click.echo(f"{word}  {gate['what']}: {gate['found']}, {gate['kind']} {gate['limit']}")
    return 0 if all(gate["passed"] for gate in gates) else 1


def _gate(what: str, kind: str, limit: int, found: int) -> dict[str, object]:
    passed = found <= limit if kind == "at most" else found >= limit
    return {"what": what, "kind": kind, "limit": limit, "found": found, "passed": passed}


def _limit(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.strip().isdigit():
        raise TilewrightError(
            "TW0020",
            f"cannot read the limit {text!r}",
            hint="write it as SIGNATURE=N, for example 'linalg.softmax f32=0'",
        )
    return pattern.strip(), int(number)


def _print_table(before: dict[str, int], after: dict[str, int], f32: list[int]) -> None:
    """Both columns and the change, a line per signature."""
    rows = [(s, before.get(s, 0), after.get(s, 0)) for s in sorted({*before, *after})]
    rows.append(("ops that compute in f32", f32[0], f32[1]))
    width = max(len(row[0]) for row in rows)
    click.echo(f"{'signature':<{width}}  {'before':>7}  {'after':>7}  {'change':>7}")
    for signature, old, new in rows:
        change = f"{new - old:+d}" if new != old else "="
        click.echo(f"{signature:<{width}}  {old:>7}  {new:>7}  {change:>7}")
