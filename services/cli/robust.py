"""`captune robust`: one list for several recordings, with the least worst regret over them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from services.cli.context import output
from services.cli.options import Json, MaxCapture, MaxLength, MaxMemory, ProfileName, Regret
from services.cli.output import number, percent, sizes_text, table
from services.cli.solve import ObjectiveChoice
from services.cli.workload import Asked, open_profile, workload_command
from services.contract.plain import plain
from tuner.budget import DEFAULT_REGRET, Budget
from tuner.case import Case
from tuner.robust import Robust, robust_list, shortest_robust
from tuner.traffic import Observed
from workloads.errors import BadUsage


@workload_command
def robust(
    asked: Asked,
    profile: ProfileName = None,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="SOURCE", help="Another recording to serve; may be repeated.")
    ] = None,
    max_length: MaxLength = None,
    max_memory_mib: MaxMemory = None,
    max_capture_s: MaxCapture = None,
    regret: Regret = DEFAULT_REGRET,
    objective: ObjectiveChoice = "step",
    as_json: Json = False,
) -> None:
    """One list for several recordings: the least that any of them takes above its own best list.

    Without --max-length: the shortest that takes within half a per cent of what a third of the default's sizes takes,
    on every recording.
    """
    if asked.engine is None or profile is None:
        raise BadUsage("needs --engine and --profile", field="--engine" if asked.engine is None else "--profile")
    if not also:
        raise BadUsage("name another recording: --also SOURCE", field="--also")
    costs = open_profile(profile)
    seen: dict[str, Observed] = {}
    for source in (asked.source, *also):
        workload = replace(asked, source=source).open()
        choice = workload.choice
        assert choice is not None
        budget = Budget(regret, max_length, max_memory_mib, max_capture_s)
        case = Case(choice.engine, choice.options, costs, workload.serving, budget, objective)
        if source in seen:
            raise BadUsage(f"'{source}' is named twice", field="--also")
        seen[source] = case.observe(workload.read.traffic, case.default_lists())
    a_third = max(1, len(case.sizes_of(case.default_lists())) // 3)
    found = robust_list(case, seen, max_length) if max_length else shortest_robust(case, seen, a_third)
    document = _document(case, found)
    output(as_json).emit(document, lambda console: _draw(console, found))


def _document(case: Case, found: Robust) -> dict[str, Any]:
    return {
        "lists": {name: list(sizes) for name, sizes in case.lists_of(found.sizes).items()},
        "list_length": len(found.sizes),
        "objective": case.objective,
        "worst_regret_of_traces": found.worst_regret,
        "bound": found.bound,
        "gap": found.gap,
        "optimal": found.optimal,
        "worst_regret": found.size_regret,
        "traces": [plain(asdict(of)) for of in found.traces],
    }


def _draw(console: Console, found: Robust) -> None:
    console.print(f"{len(found.sizes)} sizes for all: [bold]{sizes_text(found.sizes)}[/bold]")
    rows = [
        (of.name, number(of.figure_ms, 4), number(of.best_ms, 4), percent(of.regret, 2), number(of.default_ms, 4))
        for of in found.traces
    ]
    console.print(table("", ("recording", "ms", "its own best", "regret", "default"), rows))
    proven = "proven least" if found.optimal else f"no list of that length is below {percent(found.bound, 2)}"
    console.print(f"worst regret {percent(found.worst_regret, 2)}; {proven}")
