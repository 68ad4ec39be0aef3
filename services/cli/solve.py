"""`captune solve`: the provably best list of every length."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.options import (
    Json,
    MaxCapture,
    MaxLength,
    MaxMemory,
    MaxTail,
    ProfileName,
    Regret,
    choose_engine_or_none,
)
from services.cli.output import number, percent, sizes_text, table
from services.cli.workload import DEFAULT_PROFILE, Asked, Workload, open_profile, without_source, workload_command
from services.contract.scorecard import FrontPointModel
from tuner.budget import DEFAULT_REGRET, Budget
from tuner.case import Case
from tuner.cost_profile import CostProfile
from tuner.front import Front, best_front
from tuner.promise import promised_front
from tuner.recommendation import Objective, Target
from workloads.errors import BadUsage

NO_TRAFFIC = "no traffic: the first list is the shortest that keeps the promise; means count every size once"

ObjectiveChoice = Annotated[
    Objective, typer.Option("--objective", help="step: mean step time. token: mean time per generated token.")
]


TargetChoice = Annotated[
    Target,
    typer.Option(
        "--objective", help="step: mean step time. token: mean time per generated token. p99: 99th percentile step."
    ),
]


@without_source
@workload_command
def solve(
    asked: Asked,
    profile: ProfileName = None,
    max_length: MaxLength = None,
    max_memory_mib: MaxMemory = None,
    max_capture_s: MaxCapture = None,
    max_tail: MaxTail = 1.0,
    regret: Regret = DEFAULT_REGRET,
    objective: TargetChoice = "step",
    as_json: Json = False,
) -> None:
    """The list of least expected step time for every length; without SOURCE, lists that keep --regret at any size."""
    if profile is None and asked.source:
        raise BadUsage("needs a cost profile: --profile NAME or FILE (see captune profile list)", field="--profile")
    budget = Budget(regret, max_length, max_memory_mib, max_capture_s, max_tail)
    if asked.source:
        workload = asked.open()
        front, notes = _front(workload, open_profile(str(profile)), budget, objective), list(workload.read.notes)
    else:
        front, notes = _promised(asked, open_profile(profile or DEFAULT_PROFILE), budget), [NO_TRAFFIC]
        notes += [] if profile else [f"no --profile: step times are those of the shipped profile {DEFAULT_PROFILE}"]
    document = {
        "front": [FrontPointModel.from_domain(point).model_dump(mode="json") for point in front.points],
        "floor_step_ms": front.floor_step_ms,
        "optimal": front.optimal,
        "gap": front.gap,
        "solve_ms": front.solve_ms,
        "notes": notes,
    }
    output(as_json).emit(document, lambda console: _draw(console, document, front))


def _promised(asked: Asked, profile: CostProfile, budget: Budget) -> Front:
    choice = choose_engine_or_none(asked.engine, asked.sets)
    serving = asked.serving
    if choice is None:
        return promised_front(profile, budget, reachable=serving.max_running)
    case = Case(choice.engine, choice.options, profile, serving, budget, "step")
    per_request = choice.engine.step_tokens_per_request(choice.options)
    reachable = None if serving.max_running is None else serving.max_running * per_request
    return promised_front(profile, budget, case, reachable)


def _front(workload: Workload, profile: CostProfile, budget: Budget, objective: Target) -> Front:
    choice = workload.choice
    if choice is None:
        observed = workload.observe(profile)
        family = _only_family(workload, list(observed.histograms), profile)
        return best_front(observed.histograms[family], profile, family, budget=budget, objective=objective)
    case = Case(choice.engine, choice.options, profile, workload.serving, budget, "step")
    observed = case.observe(workload.read.traffic, case.default_lists())
    return case.at_context_of(observed).front(observed, target=objective)


def _only_family(workload: Workload, families: list[str], profile: CostProfile) -> str:
    """The one family that both sides know; without an engine nothing says which of several a list would feed."""
    known = [family for family in families if family in profile.families]
    if not known:
        raise BadUsage(
            f"{workload.name} has steps of {', '.join(families)}, profile '{profile.name}' measured "
            f"{', '.join(profile.families)}",
            field="--profile",
        )
    return "decode_full" if "decode_full" in known else known[0]


def _draw(console: Console, document: dict[str, Any], front: Front) -> None:
    rows = []
    last: tuple[int, ...] | None = None
    for point in front.points:
        if point.sizes != last:
            regret = percent(point.worst_regret)
            rows.append((point.list_length, number(point.mean_step_ms, 4), regret, sizes_text(point.sizes)))
        last = point.sizes
    drawn = table("", ("at most", "mean step ms", "worst regret", "sizes"), rows)
    drawn.columns[-1].justify = "left"  # a list is to be read, not compared digit by digit
    console.print(drawn)
    proven = "proven optimal" if front.optimal else f"within {percent(front.gap, 2)} of the optimum"
    console.print(
        f"{proven}; no list of any length beats {number(front.floor_step_ms, 4)} ms; "
        f"solved in {number(front.solve_ms, 2)} ms"
    )
    for note in document["notes"]:
        console.print(f"note: {escape(note)}")
