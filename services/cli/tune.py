"""`captune tune`: from a recorded trace to a recommended list with its evidence and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Annotated

import typer
from optuna.storages import BaseStorage
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
)
from services.cli.output import progress, sizes_text
from services.cli.scorecard import draw_scorecards
from services.cli.solve import ObjectiveChoice
from services.cli.workload import Asked, Workload, open_profile, workload_command
from services.contract.recommendation import VERDICTS, RecommendationModel
from tuner.budget import DEFAULT_REGRET, Budget
from tuner.cost_profile import CostProfile
from tuner.recommend import recommend
from tuner.recommendation import Objective, SamplerName, Trial, TuneRequest
from workloads.errors import BadUsage
from workloads.serving.goodput import Slo


@workload_command
def tune(
    asked: Asked,
    profile: ProfileName = None,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Measure this model here first.")] = None,
    max_length: MaxLength = None,
    max_memory_mib: MaxMemory = None,
    max_capture_s: MaxCapture = None,
    max_tail: MaxTail = 1.0,
    regret: Regret = DEFAULT_REGRET,
    objective: ObjectiveChoice = "step",
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="Optuna trials, the default included.")] = 24,
    holdout: Annotated[
        float, typer.Option("--holdout", metavar="SHARE", help="Last part kept out of a rehearsal.")
    ] = 0.3,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    sampler: Annotated[
        SamplerName, typer.Option("--sampler", help="Optuna's sampler; gp needs the extra 'gp'.")
    ] = "tpe",
    search: Annotated[
        list[str] | None,
        typer.Option("--search", metavar="OPTION=A,B", help="An engine option that trials vary beside the list."),
    ] = None,
    keep_study: Annotated[
        bool,
        typer.Option(
            "--keep-study",
            help="Keep trials in the database: an equal request goes on from them, several at once share them.",
        ),
    ] = False,
    slo_ttft_ms: Annotated[
        float | None, typer.Option("--slo-ttft-ms", metavar="MS", help="Time to first token promised, for goodput.")
    ] = None,
    slo_tpot_ms: Annotated[
        float | None, typer.Option("--slo-tpot-ms", metavar="MS", help="Time per token promised, for goodput.")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the recommendation in the database.")] = True,
    as_json: Json = False,
) -> None:
    """Find, check and explain the list that an engine should capture for this traffic."""
    if asked.engine is None:
        raise BadUsage("say which engine: --engine vllm@0.33.0", field="--engine")
    if (profile is None) == (model is None):
        raise BadUsage("give either --profile P or --model M (measured here first)", field="--profile")
    budget = Budget(regret, max_length, max_memory_mib, max_capture_s, max_tail)
    slo = Slo(slo_ttft_ms, slo_tpot_ms)
    workload = asked.open()
    workload = replace(workload, serving=replace(workload.serving, slo=slo))
    costs = open_profile(profile) if profile is not None else _measured(str(model))
    request = tune_request(workload, costs, budget, objective, trials=trials, holdout_share=holdout, seed=seed)
    request = replace(request, sampler=sampler, search=searched_options(search or ()))
    answer = tuned(request, save=save, keep_study=keep_study)
    output(as_json).emit(
        {"recommendation": answer.model_dump(mode="json")},
        lambda console: draw_recommendation(console, workload.name, answer),
    )


def tune_request(
    workload: Workload,
    profile: CostProfile,
    budget: Budget,
    objective: Objective = "step",
    *,
    trials: int = 24,
    holdout_share: float = 0.3,
    seed: int = 0,
) -> TuneRequest:
    """The request that a workload with an engine makes.

    Raises:
        BadUsage: no engine, or a share or count out of range.
    """
    if workload.choice is None:
        raise BadUsage("say which engine: --engine vllm@0.33.0", field="--engine")
    if trials < 1:
        raise BadUsage("must be at least 1", field="--trials")
    if not 0 < holdout_share < 1:
        raise BadUsage("must be between 0 and 1", field="--holdout")
    return TuneRequest(
        traffic=workload.read.traffic,
        trace_name=workload.name,
        engine=workload.choice.engine,
        options=workload.choice.options,
        profile=profile,
        raw_options=workload.choice.raw,
        serving=workload.serving,
        budget=budget,
        objective=objective,
        trials=trials,
        holdout_share=holdout_share,
        seed=seed,
    )


def searched_options(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`--search` pairs: option name -> its values.

    Raises:
        BadUsage: no `=`, no value, or one twice; the engine itself judges names and values, trial by trial.
    """
    searched = {}
    for text in texts:
        name, equals, values = text.partition("=")
        parts = tuple(part.strip() for part in values.split(","))
        if (
            not name.strip()
            or not equals
            or not all(parts)
            or len(set(parts)) != len(parts)
            or name.strip() in searched
        ):
            raise BadUsage(f"takes OPTION=VALUE,VALUE with every value once, not '{text}'", field="--search")
        searched[name.strip()] = parts
    return searched


def tuned(request: TuneRequest, *, save: bool, keep_study: bool = False) -> RecommendationModel:
    """Run the job with a progress bar; stored, and so with an id, when `save`.

    Args:
        keep_study: keep the study in the database, where an equal request finds it.
    """
    with progress("tuning", total=request.trials) as advance:

        def on_trial(trial: Trial) -> None:
            advance(trial.number + 1, f"trial {trial.number} ({trial.source})")

        with study_storage() if keep_study else nullcontext() as storage:
            recommendation = recommend(request, storage=storage, alone=storage is None, on_trial=on_trial)
    model = RecommendationModel.from_domain(recommendation, engine=request.engine.spec, options=request.raw_options)
    if not save:
        return model
    from services.cli.stored import local_store
    from services.views import recommendation_view

    with local_store() as store:
        stored = store.recommendations.add(
            model.document(), engine=model.engine, options=model.options, verdict=model.verdict
        )
    return recommendation_view(stored)


@contextmanager
def study_storage() -> Iterator[BaseStorage]:
    """Optuna's storage in the project's database."""
    from services.cli.stored import local_store

    with local_store() as store:
        storage = store.optuna_storage()
        try:
            yield storage
        finally:
            storage.engine.dispose()


def _measured(model: str) -> CostProfile:
    from services.cli.profile import measure_here

    return measure_here(model)


def draw_recommendation(console: Console, trace_name: str, answer: RecommendationModel) -> None:
    """The result for people: verdict first, then the lists, the figures and the reasons."""
    console.print(f"[bold]{VERDICTS[answer.verdict]}[/bold]")
    for name, sizes in answer.lists.items():
        console.print(f"\n{answer.engine}, list '{name}' for {escape(trace_name)}, {len(sizes)} sizes:")
        console.print(f"[bold]{sizes_text(sizes)}[/bold]")
    for name, sizes in answer.default.lists.items():
        console.print(f"\nthe engine's default '{name}', {len(sizes)} sizes:\n{sizes_text(sizes)}")
    console.print()
    draw_scorecards(console, {"tuned": answer.scorecard, "default": answer.default.scorecard})
    console.print()
    for reason in answer.reasons:
        console.print(f"- {escape(reason)}")
    if answer.id is not None:
        console.print(f"\nrecommendation {answer.id}: captune export --recommendation {answer.id}")
