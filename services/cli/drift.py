"""`captune drift`: what the list that runs today costs on new traffic, and whether choosing again would pay."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from services.cli.context import output
from services.cli.options import Json, ProfileName, Regret, Sizes, given_lists
from services.cli.output import percent, sizes_text
from services.cli.running import Running, asked_with
from services.cli.scorecard import draw_scorecards
from services.cli.solve import ObjectiveChoice
from services.cli.workload import Asked, open_profile, workload_command
from services.contract.plain import plain
from services.contract.scorecard import FrontPointModel, ScorecardModel
from tuner.budget import DEFAULT_REGRET, Budget
from tuner.case import Case
from tuner.drift import ListDrift, list_drift
from tuner.engines.base import Lists
from workloads.errors import BadUsage


@workload_command
def drift(
    asked: Asked,
    profile: ProfileName = None,
    sizes: Sizes = None,
    recommendation: Annotated[
        str | None, typer.Option("--recommendation", metavar="ID", help="A stored recommendation, with its engine.")
    ] = None,
    running: Running = None,
    regret: Regret = DEFAULT_REGRET,
    objective: ObjectiveChoice = "step",
    as_json: Json = False,
) -> None:
    """What the list that runs today costs on this traffic, beside the best list of its length."""
    if profile is None:
        raise BadUsage("needs a cost profile: --profile NAME or FILE (see captune profile list)", field="--profile")
    if [sizes is not None, recommendation is not None, running is not None].count(True) != 1:
        raise BadUsage("give one of --sizes, --recommendation and --running", field="--sizes")
    chosen_for: dict[int, float] | None = None
    asked, present = asked_with(asked, running)
    if recommendation is not None:
        asked, present, chosen_for = _stored(asked, recommendation)
    if asked.engine is None:
        raise BadUsage("say which engine: --engine vllm@0.33.0", field="--engine")
    workload = asked.open()
    choice = workload.choice
    assert choice is not None
    case = Case(choice.engine, choice.options, open_profile(profile), workload.serving, Budget(regret), objective)
    lists = given_lists(sizes, choice) or present or case.default_lists()
    refused = case.refused(lists)
    if refused is not None:
        raise BadUsage(f"{choice.engine.spec} refuses this list: {refused}", field="--sizes")
    observed = case.observe(workload.read.traffic, lists)
    found = list_drift(case.at_context_of(observed), observed, lists, chosen_for)
    output(as_json).emit(_document(found), lambda console: _draw(console, found))


def _stored(asked: Asked, identity: str) -> tuple[Asked, Lists, dict[int, float]]:
    """The workload with the engine and options of a recommendation (`--set` on top), its lists and its histogram."""
    from services.cli.stored import local_store

    with local_store() as store:
        stored = store.recommendations.get(identity)
    sets = [*(f"{key}={value}" for key, value in stored.options.items()), *(asked.sets or ())]
    histogram = next(iter(stored.document["histogram"].values()))
    lists = {name: tuple(sizes) for name, sizes in stored.lists.items()}
    chosen_for = {int(size): float(steps) for size, steps in histogram.items()}
    return replace(asked, engine=asked.engine or stored.engine, sets=sets), lists, chosen_for


def _document(found: ListDrift) -> dict[str, Any]:
    return {
        "present": ScorecardModel.from_domain(found.present).model_dump(mode="json"),
        "default": ScorecardModel.from_domain(found.default).model_dump(mode="json"),
        "best": FrontPointModel.from_domain(found.best).model_dump(mode="json"),
        **plain({key: value for key, value in asdict(found).items() if key in ("regret", "noise_share", "distance")}),
        "retune": found.retune,
    }


def _draw(console: Console, found: ListDrift) -> None:
    cards = {"present": found.present, "default": found.default}
    draw_scorecards(console, {name: ScorecardModel.from_domain(card) for name, card in cards.items()})
    console.print(f"the best {len(found.best.sizes)} sizes for this traffic: {sizes_text(found.best.sizes)}")
    if found.distance is not None:
        console.print(f"{percent(found.distance)} of steps have other sizes than those that the list was chosen for")
    verdict = "tune again" if found.retune else "keep it"
    console.print(
        f"[bold]{verdict}[/bold]: {percent(found.regret, 2)} above the best list of its length; up to "
        f"{percent(found.noise_share, 2)} is noise"
    )
