"""`captune verify`: capture a list for real, replay the workload's steps through it, hold the profile to its word."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from services.capture.probes.base import Way
from services.capture.readings import Progress
from services.capture.replay_job import ReplayJob, ReplayList, ReplayReport, sample_window
from services.capture.spec import Device
from services.capture.verification import compare
from services.cli.context import output
from services.cli.export import RecommendationId
from services.cli.in_engine import InEngine, parse_also
from services.cli.options import Json, MaxLength, ProfileName, Regret, Sizes, choose_engine_or_none, given_lists
from services.cli.output import number, percent, progress, table
from services.cli.score import scorecard_of
from services.cli.workload import Asked, Workload, open_profile, without_source, workload_command
from services.contract.recommendation import RecommendationModel
from services.contract.verification import ListFigures, SizeFailureModel, VerificationModel
from tuner.budget import DEFAULT_REGRET, Budget
from tuner.cost_profile import CostProfile
from tuner.dispatch import DispatchTable
from tuner.engines.base import Lists
from tuner.recommendation import Scorecard
from workloads.errors import BadUsage
from workloads.models.config import builtin_names

MOST_REPLAYED = 20
"""Distinct steps replayed in an engine, where one reading takes seconds; several workloads share them."""

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="M", help="Shape or folder to run; default: the profile's, if it is built in."),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Most recorded steps to replay.")]
Where = Annotated[Device, typer.Option("--device", help="auto takes the GPU where there is one.")]


InTheEngine = Annotated[
    bool,
    typer.Option(
        "--in-engine", help="Start the engine itself, profile it, and compare lists inside it (a GPU machine)."
    ),
]
Trace = Annotated[str | None, typer.Option("--trace", metavar="SOURCE", help="The same as SOURCE.")]
Records = Annotated[
    Path | None, typer.Option("--records", metavar="DIR", help="In the engine: one file a start; a run goes on there.")
]
Starts = Annotated[
    int, typer.Option("--starts", metavar="N", min=1, help="In the engine: starts of default and tuned, all told.")
]
ProfileStarts = Annotated[
    int, typer.Option("--profile-starts", metavar="N", min=1, help="In the engine: starts that read sizes.")
]
Serve = Annotated[
    float,
    typer.Option("--serve-s", metavar="S", min=0, help="In the engine: seconds of arrivals to send; 0 sends none."),
]
Repeats = Annotated[
    int, typer.Option("--repeats", metavar="N", min=1, help="In the engine: readings a full step and start, at most.")
]
WayOption = Annotated[Way, typer.Option("--way", help="In the engine: how it is reached.")]
PythonOption = Annotated[
    str, typer.Option("--python", metavar="CMD", help="In the engine: the Python that has the engine installed.")
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="SOURCE[@LOAD]",
        help="In the engine: another workload that the same list is to serve, at a load of its own; may be repeated.",
    ),
]
LimitS = Annotated[
    float | None,
    typer.Option(
        "--limit-s",
        metavar="S",
        min=1,
        help="In the engine: no start begins that would be over later; the same command goes on another time.",
    ),
]
OnRay = Annotated[
    bool,
    typer.Option(
        "--ray", help="In the engine: start it on a GPU of the cluster that RAY_ADDRESS names, or of a local Ray."
    ),
]
Gpus = Annotated[
    int, typer.Option("--gpus", metavar="N", min=1, help="With --ray: engines at a time, each on GPUs of its own.")
]
Ready = Annotated[float, typer.Option("--ready-s", metavar="S", min=1, help="In the engine: longest start.")]


@without_source
@workload_command
def verify(
    asked: Asked,
    profile: ProfileName = None,
    sizes: Sizes = None,
    recommendation: RecommendationId = None,
    model: Model = None,
    steps: Steps = 64,
    device: Where = "auto",
    in_engine: InTheEngine = False,
    trace: Trace = None,
    records: Records = None,
    starts: Starts = 5,
    profile_starts: ProfileStarts = 2,
    serve_s: Serve = 60.0,
    repeats: Repeats = 3,
    way: WayOption = "server",
    python: PythonOption = "python",
    ready_s: Ready = 900.0,
    also: Also = None,
    limit_s: LimitS = None,
    ray: OnRay = False,
    gpus: Gpus = 1,
    max_length: MaxLength = None,
    regret: Regret = DEFAULT_REGRET,
    as_json: Json = False,
) -> None:
    """Capture a list on this machine in the engine's order, replay recorded steps through it, and say how far the
    profile was off. With --in-engine: profile the engine itself, choose a list, and compare it with the default and
    with powers of two inside the engine, over several starts of it."""
    asked = _with_source(asked, trace)
    if gpus > 1 and not ray:
        raise BadUsage("is for --ray; without it, start one command for each GPU, in the same folder", field="--gpus")
    if in_engine:
        if profile is not None:
            raise BadUsage("is not needed with --in-engine: the engine itself is profiled", field="--profile")
        others = tuple(parse_also(text, asked.serving.load) for text in also or ())
        replayed = min(steps, max(1, MOST_REPLAYED // (1 + len(others))))
        wanted = InEngine(
            model=model,
            records=records,
            way=way,
            python=python,
            starts=starts,
            profile_starts=profile_starts,
            serve_s=serve_s,
            replay_steps=replayed,
            repeats=repeats,
            ready_s=ready_s,
            limit_s=limit_s,
            also=others,
            budget=Budget(regret, max_length),
            gpus=gpus if ray else None,
        )
        _emit_in_engine(*_in_engine(asked, recommendation, sizes, wanted), as_json)
        return
    if ray:
        raise BadUsage("is for --in-engine; a list is replayed on the worker of RAY_ADDRESS anyway", field="--ray")
    if also:
        raise BadUsage("is for --in-engine, where one list serves several workloads", field="--also")
    if profile is None:
        raise BadUsage("needs the cost profile that predicted: --profile NAME or FILE", field="--profile")
    if (recommendation is None) == (sizes is None):
        raise BadUsage("give either --recommendation or --sizes", field="--sizes")
    stored: Lists | None = None
    if recommendation is not None:
        asked, kept = _stored(recommendation, asked)
        stored = kept.lists
    workload, found = asked.open(), open_profile(profile)
    lists = stored if stored is not None else given_lists(sizes, workload.choice)
    assert lists is not None
    predicted = scorecard_of(workload, found, lists)
    job = _job(workload, found, lists, _model(model, found), device, steps)
    report = _replayed(job)
    answer = _answer(found, job, report, predicted)
    output(as_json).emit(answer.model_dump(mode="json"), lambda console: _draw(console, answer))


def _with_source(asked: Asked, trace: str | None) -> Asked:
    if bool(asked.source) == (trace is not None):
        raise BadUsage("give the recorded traffic once, as SOURCE or as --trace SOURCE", field="SOURCE")
    return asked if trace is None else replace(asked, source=trace)


def _in_engine(asked: Asked, recommendation: str | None, sizes: str | None, wanted: InEngine) -> tuple[Asked, InEngine]:
    """With the lists of a stored recommendation or of --sizes, where they are given; else a list is tuned there."""
    if recommendation is not None and sizes is not None:
        raise BadUsage("give either --recommendation or --sizes", field="--sizes")
    if recommendation is not None:
        asked, kept = _stored(recommendation, asked)
        return asked, replace(
            wanted, lists=kept.lists, lists_from=f"recommendation {recommendation}", recommendation=kept
        )
    if sizes is not None:
        lists = given_lists(sizes, choose_engine_or_none(asked.engine, asked.sets))
        return asked, replace(wanted, lists=lists, lists_from="--sizes")
    return asked, wanted


def _emit_in_engine(asked: Asked, wanted: InEngine, as_json: bool) -> None:
    # Solver and study come along with it, which no other command that replays lists needs.
    from services.cli.verify_engine import verify_in_engine
    from services.cli.verify_engine_text import draw

    found = verify_in_engine(asked, wanted)
    output(as_json).emit(found.model_dump(mode="json"), lambda console: draw(console, found))


def _stored(recommendation_id: str, asked: Asked) -> tuple[Asked, RecommendationModel]:
    """A stored recommendation, and the workload as its engine sees it."""
    from services.cli.stored import local_store
    from services.views import recommendation_view

    with local_store() as store:
        found = recommendation_view(store.recommendations.get(recommendation_id))
    if asked.engine not in (None, found.engine):
        raise BadUsage(f"{recommendation_id} was made for {found.engine}", field="--engine")
    kept = [f"{key}={value}" for key, value in found.options.items()]
    return replace(asked, engine=found.engine, sets=[*kept, *(asked.sets or ())]), found


def _model(model: str | None, profile: CostProfile) -> str:
    name = model or str((profile.model or {}).get("name", ""))
    if model is None and name not in builtin_names():
        raise BadUsage(f"profile '{profile.name}' does not name a built-in model; give one", field="--model")
    return name


def _job(workload: Workload, profile: CostProfile, lists: Lists, model: str, device: Device, steps: int) -> ReplayJob:
    from services.capture.job import plan_job

    choice, observed = workload.choice, workload.observe(profile, lists)
    family = observed.decode_family
    if choice is None:
        rule = DispatchTable.plain(family, np.array(next(iter(lists.values())), dtype=np.int64)).families[family]
    else:
        if choice.engine.step_tokens_per_request(choice.options) > 1:
            raise BadUsage("steps that verify drafts cannot be replayed yet, only plain decode", field="--set")
        effective = choice.engine.effective(lists, choice.options)
        rule = choice.engine.dispatch(effective, choice.options).families[family]
    window = sample_window(observed.steps, family, name=workload.name, limit=steps)
    spec = replace(plan_job(model, device=device, sizes=tuple(rule.buckets.tolist())), iterations=2)
    return ReplayJob(spec, (ReplayList("list", rule),), (window,))


def _replayed(job: ReplayJob) -> ReplayReport:
    from services.capture.job import describe
    from services.capture.pool import replay_lists

    with progress("verifying") as advance:

        def told(at: Progress) -> None:
            advance(at.done, describe(at), at.total)

        return replay_lists(job, told)


def _answer(profile: CostProfile, job: ReplayJob, report: ReplayReport, predicted: Scorecard) -> VerificationModel:
    (pair,) = report.pairs
    (window,) = job.windows
    cost = profile.families.get("decode_full")
    compared = [] if cost is None else compare(job.lists, job.windows, report.cases, report.measured_ms(), cost)
    profile_device = str(profile.device["name"]) if profile.device and "name" in profile.device else None
    device = str(report.device["name"])
    return VerificationModel(
        device=device,
        profile=profile.name,
        profile_device=profile_device,
        same_device=device == profile_device,
        model=str(report.model["name"]),
        attention=str(report.software["attention"]),
        lists=dict(predicted.lists),
        captured=tuple(report.size_s),
        steps_replayed=len(window.steps),
        steps_stood_for=pair.steps,
        predicted=ListFigures(
            exact_hit_rate=predicted.exact_hit_rate,
            hit_rate=predicted.hit_rate,
            padding_waste=predicted.padding_waste,
            mean_step_ms=predicted.mean_step_ms,
            tpot_ms=predicted.tpot_ms,
            capture_s=predicted.capture_s,
            memory_mib=predicted.memory_mib,
        ),
        measured=ListFigures(
            exact_hit_rate=pair.exact_hit_rate,
            hit_rate=pair.hit_rate,
            padding_waste=pair.padding_waste,
            mean_step_ms=pair.mean_step_ms,
            tpot_ms=pair.tpot_ms,
            capture_s=report.capture_s,
            memory_mib=report.memory_mib,
        ),
        step_error=compared[0].error if compared else None,
        clipped_share=report.clipped_share,
        failures=tuple(SizeFailureModel(**dataclasses.asdict(failure)) for failure in report.failures),
        software=dict(report.software),
        notes=tuple(_notes(profile, report, device, profile_device)),
    )


def _notes(profile: CostProfile, report: ReplayReport, device: str, profile_device: str | None) -> list[str]:
    notes = []
    if device != profile_device:
        notes.append(
            f"measured on {device}, predicted for {profile_device or 'an unknown device'}: rates can be compared, "
            "times and memory cannot"
        )
    own, theirs = report.software.get("attention"), (profile.software or {}).get("attention")
    if theirs is not None and own != theirs:
        notes.append(f"the profile was measured with attention {theirs}, this replay ran {own}")
    if report.clipped_share > 0:
        notes.append(f"{report.clipped_share:.0%} of the replayed steps had their context cut to the memory here")
    return notes


def _draw(console: Console, answer: VerificationModel) -> None:
    console.print(
        f"captured {len(answer.captured)} sizes of {answer.model} on {answer.device} ({answer.attention}), replayed "
        f"{answer.steps_replayed} steps that stand for {answer.steps_stood_for:,.0f}",
        markup=False,
    )
    before, after = answer.predicted, answer.measured
    rows = [
        ("hit rate", percent(before.hit_rate), percent(after.hit_rate)),
        ("exact hits", percent(before.exact_hit_rate), percent(after.exact_hit_rate)),
        ("padding", percent(before.padding_waste), percent(after.padding_waste)),
        ("mean step ms", number(before.mean_step_ms), number(after.mean_step_ms)),
        ("ms per token", number(before.tpot_ms), number(after.tpot_ms)),
        ("capture s", number(before.capture_s, 2), number(after.capture_s, 2)),
        ("graph memory MiB", number(before.memory_mib, 0), number(after.memory_mib, 0)),
    ]
    console.print(table("", ("", f"predicted by {answer.profile}", "measured here"), rows))
    if answer.same_device:
        console.print(f"the profile was off by {percent(answer.step_error, 2)} on the replayed steps")
    for failure in answer.failures:
        console.print(f"[yellow]size {failure.size}: {failure.kind}[/yellow] {escape(failure.message)}")
    for note in answer.notes:
        console.print(f"note: {escape(note)}")
