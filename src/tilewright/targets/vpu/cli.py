"""`tilewright vpu`: schedule, verify, barriers and edges, for studies of the task-list machine."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import click

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import write_atomically


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Study schedules of the VPU: a machine that runs one list of DMA, DPU and SHAVE tasks."""


@command.command()
@click.argument("graph", metavar="GRAPH.json")
@click.option("--cmx", type=int, metavar="BYTES", help="CMX of a tile instead of the graph's.")
@click.option("--ports", type=int, metavar="N", help="DMA ports instead of the graph's.")
@click.option("--barriers", type=int, metavar="N", help="Physical barriers instead of the graph's.")
@click.option("--slots", type=int, metavar="N", help="Slots of a barrier instead of the graph's.")
@click.option("--no-in-place", is_flag=True, help="Never let an output take its input's place.")
@click.option("--exact", is_flag=True, help="Search until the schedule is proven optimal.")
@click.option("-o", "output", metavar="LIST", help="Write the task list; .bin for compact binary.")
@click.option("--trace", metavar="FILE", help="Write a Perfetto trace; Chrome JSON for .json.")
@click.option("--timeline", metavar="FILE.svg", help="Draw the queues over time.")
@click.option("--memory-map", metavar="FILE.svg", help="Draw CMX addresses over time.")
@click.option("--ir", metavar="FILE.mlir", help="Write the schedule as npu_schedule operations.")
@click.option("--metrics", is_flag=True, help="Add efficiency, traffic and occupancy.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def schedule(
    graph: str,
    cmx: int | None,
    ports: int | None,
    barriers: int | None,
    slots: int | None,
    no_in_place: bool,
    exact: bool,
    output: str | None,
    trace: str | None,
    timeline: str | None,
    memory_map: str | None,
    ir: str | None,
    metrics: bool,
    as_json: bool,
) -> int:
    """Schedule a tile graph: addresses, transfers, spills, barriers and times.

    Exits 0, or 2 when the graph is bad or cannot be scheduled, with what is missing.
    """
    from tilewright.targets.vpu import pictures, summary
    from tilewright.targets.vpu.graph_file import read_graph
    from tilewright.targets.vpu.list_file import list_binary, list_text
    from tilewright.targets.vpu.machine import with_values
    from tilewright.targets.vpu.scheduling.schedule import schedule as make

    source = read_graph(graph)
    try:
        machine = with_values(
            source.machine, cmx_bytes=cmx, dma_ports=ports, barriers=barriers, slots=slots
        )
        if ports is not None:  # what took all ports before takes all ports now
            every = source.machine.dma_ports
            source.tasks = [
                replace(t, ports=ports) if t.ports > 1 and t.ports == every else t
                for t in source.tasks
            ]
        source.machine = machine
        made = make(source, in_place=not no_in_place, exact=exact)
    except TilewrightError as error:
        raise error.at(Location(graph)) from None
    if output is not None:
        content = list_text(made.tasks).encode()
        _write(output, list_binary(made.tasks) if output.endswith(".bin") else content)
    if trace is not None:
        pictures.write_trace(made, trace)
    if timeline is not None:
        pictures.write_timeline(made, timeline)
    if memory_map is not None:
        write_atomically(memory_map, pictures.memory_map(made).encode())
    if ir is not None:
        from tilewright.dialects.printing import print_module
        from tilewright.targets.vpu.schedule_text import schedule_module

        _write(ir, print_module(schedule_module(made)).encode())
    result = summary.summary(made)
    if metrics:
        result["metrics"] = summary.metrics(made)
    if as_json:
        _print(result)
    else:
        _print_schedule(result, summary.metrics(made))
    return 0


def _print_schedule(result: dict[str, Any], metrics: dict[str, Any]) -> None:
    proof = "optimal" if result["optimal"] else "not proven optimal"
    bar = result["barriers"]
    click.echo(f"makespan        {result['makespan']} cycles ({proof})")
    click.echo(f"bounds          {result['lower_bound']} plain, {result['strong_bound']} strong")
    click.echo(
        f"efficiency      {metrics['efficiency']:.3f}, {metrics['strong_efficiency']:.3f} of the "
        "strong bound"
    )
    click.echo(f"CMX peak        {result['peak_bytes']} bytes")
    click.echo(
        f"spills          {result['spill_writes']} writes, {result['spill_reads']} reloads, "
        f"{result['spill_bytes']} bytes"
    )
    click.echo(
        f"barriers        {bar['virtual']} virtual on {bar['physical']} physical of {bar['pool']}"
    )
    for queue, reasons in metrics["stalls"].items():
        words = ", ".join(f"{cycles} {why}" for why, cycles in sorted(reasons.items()))
        click.echo(f"idle {queue:<10} {words or 'never'}")


@command.command()
@click.argument("list_file", metavar="LIST.json")
@click.option("--graph", metavar="GRAPH.json", help="Check dataflow and outputs against a graph.")
@click.option("--jitter", type=click.IntRange(0, 10000), default=0, metavar="N",
              help="Run the list under N random timings as well.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Barrier ids reused only where order holds anyway.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def verify(list_file: str, graph: str | None, jitter: int, strict: bool, as_json: bool) -> int:
    """Check a task list: memory, races, dataflow, barriers, deadlock (V1 to V7).

    Exits 0 when everything holds, 1 with findings, 2 for bad input.
    """
    from tilewright.targets.vpu.checker.verify import verify as check
    from tilewright.targets.vpu.dependences import analyse
    from tilewright.targets.vpu.graph_file import read_graph
    from tilewright.targets.vpu.list_file import read_list

    tasks = read_list(list_file)
    source = read_graph(graph) if graph is not None else None
    if source is not None:
        try:
            if source.machine.preset != tasks.machine.preset:
                raise TilewrightError(
                    "TW7033",
                    f"the graph is for {source.machine.preset}, the list for {tasks.machine.preset}",
                    hint="schedule the graph for the machine that the list is for",
                )
            analyse(source)  # a graph that means nothing proves nothing
        except TilewrightError as error:
            raise error.at(Location(str(graph))) from None
    findings = check(tasks, source, jitter, strict)
    if as_json:
        _print({"ok": not findings, "findings": [finding.to_json() for finding in findings]})
    else:
        for finding in findings:
            click.echo(f"{finding.property}  {finding.message}")
        click.echo("ok" if not findings else f"{len(findings)} findings")
    return 1 if findings else 0


@command.command()
@click.argument("list_file", metavar="LIST.json")
@click.option("--pool", type=int, required=True, metavar="N", help="Physical barriers there are.")
@click.option("--slots", type=int, metavar="K", help="Slots of a barrier instead of the list's.")
@click.option("--as-given", is_flag=True, help="Change nothing: assign, or reject.")
@click.option("--strict", is_flag=True, help="Reuse ids only where order holds anyway.")
@click.option("-o", "output", metavar="OUT", help="Write the list with its physical barriers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def barriers(
    list_file: str,
    pool: int,
    slots: int | None,
    as_given: bool,
    strict: bool,
    output: str | None,
    as_json: bool,
) -> int:
    """Assign the physical barriers of a task list, or change it until they suffice.

    Exits 0 when that is possible, 1 when it is not, 2 for bad input.
    """
    from tilewright.targets.vpu.barriers.study import study
    from tilewright.targets.vpu.list_file import list_binary, list_text, read_list
    from tilewright.targets.vpu.machine import with_values

    tasks = read_list(list_file)
    try:
        if pool < 1:
            raise TilewrightError(
                "TW7050",
                f"a pool of {pool} barriers cannot hold any",
                hint="give at least 1; 2 always suffice when the list may be changed",
            )
        tasks.machine = with_values(tasks.machine, barriers=pool, slots=slots)
        answer = study(tasks, pool, as_given, strict)
    except TilewrightError as error:
        raise error.at(Location(list_file)) from None
    if output is not None and answer.tasks is not None:
        content = list_text(answer.tasks).encode()
        _write(output, list_binary(answer.tasks) if output.endswith(".bin") else content)
    if as_json:
        _print(answer.to_json())
    elif answer.feasible:
        click.echo(f"physical      {', '.join(map(str, answer.physical))}")
        click.echo(f"minimum pool  {answer.minimum_pool}")
        click.echo(f"changes       {len(answer.changes)}")
    else:
        click.echo(f"not feasible: {answer.reason}")
    return 0 if answer.feasible else 1


@command.command()
@click.argument("list_file", metavar="LIST.json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def edges(list_file: str, as_json: bool) -> int:
    """Print the address edges (RAW, WAR, WAW) of a list whose tasks stand in one order."""
    from tilewright.targets.vpu.address_edges import address_edges
    from tilewright.targets.vpu.list_file import read_list

    tasks = read_list(list_file)
    if tasks.order is None:
        raise TilewrightError(
            "TW7052", "the list has no order", Location(list_file),
            hint='add "order": ["t0", ...] with all tasks',
        )  # fmt: skip
    missing = [name for name in tasks.tasks if name not in set(tasks.order)]
    if missing:
        raise TilewrightError("TW7052", f"order lacks task {missing[0]!r}", Location(list_file))
    items = [tasks.tasks[name] for name in tasks.order]
    found = [
        [tasks.order[before], tasks.order[task], kind]
        for task, kinds in enumerate(address_edges([(i.reads, i.writes) for i in items]))
        for before, kind in kinds
    ]
    if as_json:
        _print({"edges": found})
    else:
        for before, task, kind in found:
            click.echo(f"{kind}  {before} -> {task}")
    return 0


def _print(value: Any) -> None:
    click.echo(json.dumps(value))


def _write(path: str, content: bytes) -> None:
    if path == "-":
        sys.stdout.buffer.write(content)
    else:
        write_atomically(path, content)
