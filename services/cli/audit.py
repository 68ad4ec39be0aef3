"""`captune audit`: what an engine does today with its capture list, read from a log or a trace; no profile needed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.options import (
    Json,
    ProfileName,
    Sizes,
    choose_engine,
    given_lists,
)
from services.cli.output import percent, sizes_text
from services.cli.running import Running, asked_with
from services.cli.workload import DEFAULT_PROFILE, Asked, Workload, open_profile, workload_command
from services.contract.audit import AuditModel
from tuner.audit import Audit, engine_of, options_of
from tuner.audit import audit as run_audit
from tuner.engines.base import Engine, Lists
from workloads.traces.records import StepTrace


@workload_command
def audit(
    asked: Asked,
    sizes: Sizes = None,
    running: Running = None,
    profile: ProfileName = None,
    as_json: Json = False,
) -> None:
    """Share of steps above the ceiling, sizes never used, padding, and the list that runs today."""
    asked, present = asked_with(asked, running)
    workload = asked.open()
    lists = given_lists(sizes, workload.choice) or present
    result, notes = _audit(workload, asked.sets, lists, profile)
    document = AuditModel.from_domain(result, notes=tuple(notes)).model_dump(mode="json")
    output(as_json).emit(document, lambda console: _draw(console, workload, result, notes))


def _audit(
    workload: Workload, sets: Sequence[str] | None, lists: Lists | None, profile: str | None
) -> tuple[Audit, list[str]]:
    observation = workload.read.observation
    choice = workload.choice
    notes = list(workload.read.notes)
    if choice is None:
        spec = engine_of(observation) or "vllm"
        choice = choose_engine(spec, sets)
        if engine_of(observation) is None:
            notes.append(f"the source does not name its engine: judged by the rules of {choice.engine.spec}")
    options = options_of(observation, choice.engine, choice.raw)
    traffic = workload.read.traffic
    if not isinstance(traffic, StepTrace):
        observed = Workload(workload.name, workload.read, choice, workload.serving).observe(
            open_profile(profile or DEFAULT_PROFILE), _for_engine(lists, choice.engine)
        )
        notes.append(f"requests were simulated with the step times of profile '{profile or DEFAULT_PROFILE}'")
        traffic = observed.steps
    return run_audit(traffic, observation, choice.engine, options, _for_engine(lists, choice.engine)), notes


def _for_engine(lists: Lists | None, engine: Engine) -> Lists | None:
    """Sizes that were given before the engine was known, under the name of its first list."""
    if lists is None or set(lists) <= set(engine.list_names):
        return lists
    return {engine.list_names[0]: next(iter(lists.values()))}


def _draw(console: Console, workload: Workload, result: Audit, notes: list[str]) -> None:
    console.print(f"[bold]{escape(workload.name)}[/bold] ({workload.read.format})")
    for name, sizes in result.present_lists.items():
        console.print(f"runs today   {name} ({len(sizes)}): {sizes_text(sizes)}")
    share = result.step_share
    console.print(
        f"steps        {percent(share['exact'])} exact, {percent(share['padded'])} padded, "
        f"{percent(share['fallback'])} without a graph"
    )
    console.print(f"above top    {percent(result.above_ceiling)} of steps are larger than the largest captured size")
    console.print(f"padding      {percent(result.padding_waste)} of executed slots")
    never = result.never_used
    console.print(f"never used   {len(never)} sizes: {sizes_text(never)}" if never else "never used   none")
    for warning in result.warnings:
        console.print(f"[yellow]{warning.code}[/yellow] {escape(warning.message)}")
    for note in notes:
        console.print(f"note: {escape(note)}")
