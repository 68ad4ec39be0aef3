"""`captune lint`: what an engine would really capture when asked for a list, and what is wrong with asking."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from services.cli.context import output
from services.cli.options import EngineChoice, EngineName, Json, Sets, Sizes, choose_engine, raw_sizes
from services.cli.output import sizes_text, table
from services.cli.running import Running, choice_of, read_running
from tuner.engines.base import Effective, Lists, Problem
from workloads.errors import BadUsage

Default = Annotated[bool, typer.Option("--default", help="Look at the list the engine makes by itself.")]
PrefillSizes = Annotated[
    str | None, typer.Option("--prefill-sizes", metavar="64,128", help="Prefill list, for engines that take one.")
]


def lint(
    engine: EngineName = None,
    sizes: Sizes = None,
    prefill_sizes: PrefillSizes = None,
    default: Default = False,
    running: Running = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Check a capture list, or what runs today, against the rules of one engine; exits 1 when there is an error."""
    notes: tuple[str, ...] = ()
    if running is None:
        choice, lists = asked_lists(engine, sets, sizes, prefill_sizes, default)
    else:
        present = read_running(running, engine)
        notes = present.notes[len(present.engine.notes) :]
        if default or sizes is not None or prefill_sizes is not None:
            choice, lists = asked_lists(present.engine.spec, sets, sizes, prefill_sizes, default)
            choice = choice_of(present, sets)
        else:
            choice = choice_of(present, sets)
            lists = present.lists or choice.engine.default_lists(choice.options)
    effective = choice.engine.effective(lists, choice.options)
    problems = choice.engine.lint(lists, choice.options)
    document = {
        "engine": choice.engine.spec,
        "requested": {name: list(asked) for name, asked in lists.items()},
        "effective": {name: list(captured) for name, captured in effective.families.items()},
        "graphs": effective.graphs,
        "changes": [change_document(effective, i) for i in range(len(effective.changes))],
        "refused": effective.refused,
        "problems": [problem_document(problem) for problem in problems],
        "options": choice.raw,
        "notes": [*choice.engine.notes, *notes],
    }
    output(as_json).emit(document, lambda console: _draw(console, choice, lists, effective, problems))
    if any(problem.severity == "error" for problem in problems):
        raise typer.Exit(1)


def asked_lists(
    engine: str | None, sets: list[str] | None, sizes: str | None, prefill_sizes: str | None, default: bool
) -> tuple[EngineChoice, Lists]:
    """The engine and the lists a command was asked about, `--default` or `--sizes`.

    Raises:
        BadUsage: no engine, neither or both of the two, a prefill list for an engine without one.
    """
    if engine is None:
        raise BadUsage("say which engine: --engine vllm@0.33.0", field="--engine")
    if default == (sizes is not None or prefill_sizes is not None):
        raise BadUsage("give either --sizes or --default", field="--sizes")
    choice = choose_engine(engine, sets)
    if default:
        return choice, choice.engine.default_lists(choice.options)
    lists: dict[str, tuple[int, ...]] = {}
    if sizes is not None:
        lists[choice.engine.list_names[0]] = tuple(raw_sizes(sizes))
    if prefill_sizes is not None:
        if "prefill" not in choice.engine.list_names:
            raise BadUsage(f"{choice.engine.name} takes no prefill list", field="--prefill-sizes")
        lists["prefill"] = tuple(raw_sizes(prefill_sizes))
    return choice, lists


def change_document(effective: Effective, index: int) -> dict[str, object]:
    change = effective.changes[index]
    return {
        "list": change.list_name,
        "requested": change.requested,
        "effective": change.effective,
        "reason": change.reason,
    }


def problem_document(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "message": problem.message,
        "severity": problem.severity,
        "fix": list(problem.fix) if isinstance(problem.fix, tuple) else problem.fix,
    }


def _draw(
    console: Console, choice: EngineChoice, lists: Lists, effective: Effective, problems: tuple[Problem, ...]
) -> None:
    console.print(f"[bold]{choice.engine.spec}[/bold]: {effective.graphs} graphs")
    for name, asked in lists.items():
        console.print(f"asked     {name} ({len(asked)}): {sizes_text(asked)}")
    for name, captured in effective.families.items():
        console.print(f"captured  {name} ({len(captured)}): {sizes_text(captured)}")
    if effective.refused:
        console.print(f"[red]refused[/red]   {effective.refused}")
    if problems:
        rows = [(p.severity, p.code, p.message) for p in problems]
        console.print(table("", ("severity", "code", "what is wrong"), rows))
    else:
        console.print("no problems")
