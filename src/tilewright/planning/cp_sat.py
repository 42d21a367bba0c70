"""Exact planning by CP-SAT: rectangles of time and addresses that must not overlap."""

from __future__ import annotations

from tilewright.planning.sections import Problem


def solve(problem: Problem, deterministic_time: float, seed: int) -> tuple[str, list[int], float]:
    """(status, unit offsets, deterministic time used).

    One worker and a limit in deterministic time, so the answer does not depend on the machine.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts, times, places = [], [], []
    for index, item in enumerate(problem.items):
        highest = min(item.highest, problem.capacity - item.size)
        if item.lowest == item.highest:
            highest = item.highest
        if item.lowest > highest:
            return "infeasible", [], 0.0
        start = model.new_int_var(item.lowest, highest, f"offset{index}")
        if item.alignment > 1:
            slot = model.new_int_var(0, highest // item.alignment, f"slot{index}")
            model.add(start == item.alignment * slot)
        starts.append(start)
        places.append(model.new_fixed_size_interval_var(start, item.size, f"place{index}"))
        times.append(
            model.new_fixed_size_interval_var(item.first, item.last - item.first, f"time{index}")
        )
    model.add_no_overlap_2d(times, places)
    # Across addresses the items also share the sections, which CP-SAT bounds by energy.
    spans = [item.last - item.first for item in problem.items]
    model.add_cumulative(places, spans, problem.sections)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = deterministic_time
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    used = float(solver.response_proto.deterministic_time)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "solved", [solver.value(start) for start in starts], used
    return ("infeasible" if status == cp_model.INFEASIBLE else "limit"), [], used
