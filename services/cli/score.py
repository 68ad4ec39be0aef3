"""`captune score`: what a capture list does to a workload under a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.context import output
from services.cli.options import (
    Json,
    ProfileName,
    Sizes,
    given_lists,
)
from services.cli.output import sizes_text
from services.cli.running import Running, asked_with
from services.cli.scorecard import draw_scorecards
from services.cli.workload import Asked, Workload, open_profile, workload_command
from services.contract.scorecard import ScorecardModel
from tuner.cost_profile import CostProfile
from tuner.engines.base import Lists
from tuner.recommendation import Scorecard
from tuner.scorecard import score as score_lists
from tuner.scorecard import score_plain
from workloads.errors import BadUsage


@workload_command
def score(
    asked: Asked,
    profile: ProfileName = None,
    sizes: Sizes = None,
    default: Annotated[bool, typer.Option("--default", help="Score the engine's own list.")] = False,
    running: Running = None,
    as_json: Json = False,
) -> None:
    """Hit rate, padding, step time, regret, capture time and memory of one list."""
    if profile is None:
        raise BadUsage("needs a cost profile: --profile NAME or FILE (see captune profile list)", field="--profile")
    if [default, sizes is not None, running is not None].count(True) != 1:
        raise BadUsage("give one of --sizes, --default and --running", field="--sizes")
    asked, present = asked_with(asked, running)
    if default and asked.engine is None:
        raise BadUsage("needs --engine: a default list is an engine's", field="--default")
    workload = asked.open()
    lists = given_lists(sizes, workload.choice) or present
    model = ScorecardModel.from_domain(scorecard_of(workload, open_profile(profile), lists))
    shown = sizes_text(next(iter(model.lists.values())))
    output(as_json).emit(model.model_dump(mode="json"), lambda console: draw_scorecards(console, {shown: model}))


def scorecard_of(workload: Workload, profile: CostProfile, lists: Lists | None) -> Scorecard:
    """Score `lists` (None: the engine's default) on the steps that the workload makes with them."""
    observed = workload.observe(profile, lists)
    choice = workload.choice
    if choice is None:
        if lists is None:
            raise BadUsage("give --sizes, or --engine with --default", field="--sizes")
        (sizes,) = lists.values()
        return score_plain(sizes, observed.histograms, profile, reachable=observed.reachable)
    asked = lists if lists is not None else choice.engine.default_lists(choice.options)
    effective = choice.engine.effective(asked, choice.options)
    if effective.refused is not None:
        raise BadUsage(f"{choice.engine.spec} refuses this list: {effective.refused}", field="--sizes")
    return score_lists(
        asked,
        effective,
        choice.engine.dispatch(effective, choice.options),
        observed.histograms,
        profile,
        reachable=observed.reachable,
        decode_family=choice.engine.decode_family,
        allowed=choice.engine.allowed(choice.options),
    )
