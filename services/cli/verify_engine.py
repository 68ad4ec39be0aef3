"""`captune verify --in-engine`: profile a real engine, choose a list, compare it with the default in that engine."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from db.store import Store
from services.capture.probes.base import Launch
from services.capture.probes.choose import choose_probe
from services.capture.probes.compile_cache import cache_in
from services.capture.probes.device import first_visible
from services.capture.probes.experiment import TUNED, Experiment
from services.capture.probes.model_folder import ProbedModel, probed_model
from services.capture.probes.on_ray import run_on_ray
from services.capture.probes.records import ExperimentPlan, Folder, PlannedWorkload, StartRecord, plain_lists
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.capture.probes.time_limit import TimeLimit
from services.capture.probes.workload import EngineWorkload, typical_context
from services.cli.in_engine import InEngine
from services.cli.options import EngineChoice
from services.cli.output import progress, stderr_console
from services.cli.verify_engine_text import report_text
from services.cli.workload import Asked, Workload
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.recommendation import VERDICTS, RecommendationModel
from services.engine_view import read_evidence
from tuner.cost_profile import CostProfile
from tuner.engine_verdict import EngineThresholds
from tuner.recommendation import Recommendation
from workloads.errors import BadUsage, Conflict

FIT_SHARE = 0.7
RECOMMENDATION_FILE = "recommendation.json"
REPORT_FILE = "report.md"
_OWN_LENGTH = ("max_model_len", "context_length")


def verify_in_engine(asked: Asked, wanted: InEngine) -> EngineEvidenceModel:
    """Whatever is still to be measured and fits into the time, and then the answer from all records.

    Raises:
        BadUsage: something is missing, or the folder holds another experiment.
        EngineFailed: the engine could not be profiled; what was recorded stays.
    """
    limit = TimeLimit(wanted.limit_s)
    if wanted.records is None:
        raise BadUsage("say where every start is recorded: --records DIR", field="--records")
    if wanted.model is None:
        raise BadUsage("say which model the engine runs: --model NAME, FOLDER or config.json", field="--model")
    if asked.engine is None:
        raise BadUsage("say which engine: --engine vllm@0.23.0", field="--engine")
    opened = _opened(asked, wanted)
    choice = opened[0].choice
    assert choice is not None
    probe = choose_probe(choice.engine.name, wanted.way)
    folder = Folder(wanted.records)
    model = probed_model(wanted.model, wanted.records)
    workloads = _workloads(opened)
    with folder.deciding():
        plan = folder.agree(_plan(workloads, choice, wanted, model))
    experiment = Experiment(
        plan=plan,
        starter=Starter(probe, _launch(choice, wanted, model), folder),
        engine=choice.engine,
        options=choice.options,
        model=model.config,
        longest_tokens=_longest_tokens(choice, model),
        workloads=workloads,
        budget=wanted.budget,
        starts=wanted.starts,
        profile_starts=wanted.profile_starts,
        limit=limit,
        say=_say,
        on_start=_tell,
        on_recommended=partial(_keep, folder, choice),
    )
    before = len(folder.starts())
    with progress("in the engine") as advance:
        told = replace(experiment, told=advance)
        outcome = told.run() if wanted.gpus is None else run_on_ray(told, wanted.gpus)
    answer = read_evidence(folder.path, len(outcome.left))
    folder.write_text(REPORT_FILE, report_text(answer))
    if outcome.profile is not None and len(folder.starts()) > before:
        answer = answer.model_copy(update={"recommendation_id": _store(folder, wanted, outcome.profile, answer)})
    return answer


def _opened(asked: Asked, wanted: InEngine) -> tuple[Workload, ...]:
    """SOURCE and every --also; with several, names tell file and load.

    Raises:
        BadUsage: two have the same name.
    """
    also = [replace(asked, source=source, serving=replace(asked.serving, load=load)) for source, load in wanted.also]
    opened = tuple(each.open() for each in (asked, *also))
    if len(opened) == 1:
        return opened
    named = {f"{each.name} x{each.serving.load:g}": each for each in opened}
    if len(named) < len(opened):
        names = [f"{each.name} x{each.serving.load:g}" for each in opened]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadUsage(f"'{twice}' is named twice", field="--also")
    return tuple(replace(each, name=name) for name, each in named.items())


def _workloads(opened: Sequence[Workload]) -> tuple[EngineWorkload, ...]:
    return tuple(
        EngineWorkload(
            PlannedWorkload(
                name=each.name,
                digest=each.read.traffic.digest(),
                load=each.serving.load,
                fit_share=1.0 if each.read.kind == "histogram" else FIT_SHARE,
            ),
            each.read.traffic,
            each.serving,
        )
        for each in opened
    )


def _plan(
    workloads: Sequence[EngineWorkload], choice: EngineChoice, wanted: InEngine, model: ProbedModel
) -> ExperimentPlan:
    return ExperimentPlan(
        engine=choice.engine.spec,
        options=choice.raw,
        way=wanted.way,
        model=model.config.name,
        dummy_weights=model.dummy_weights,
        workloads=tuple(workload.plan for workload in workloads),
        serve_s=wanted.serve_s,
        context_tokens=typical_context([workload.traffic for workload in workloads]),
        replay_steps=wanted.replay_steps,
        protocol=StepProtocol(repeats=wanted.repeats),
        thresholds=EngineThresholds(),
        max_length=wanted.budget.max_length,
        regret=None if math.isinf(wanted.budget.regret) else wanted.budget.regret,
        lists=None if wanted.lists is None else plain_lists(wanted.lists),
        lists_from=wanted.lists_from,
        command=shlex.join(["captune", *sys.argv[1:]]),
    )


def _launch(choice: EngineChoice, wanted: InEngine, model: ProbedModel) -> Launch:
    assert wanted.records is not None
    return Launch(
        engine=choice.engine,
        raw_options=choice.raw,
        lists=None,
        model=model.folder,
        vocabulary=model.config.vocab_size,
        dummy_weights=model.dummy_weights,
        command=tuple(shlex.split(wanted.python)),
        ready_s=wanted.ready_s,
        cache=cache_in(wanted.records, first_visible()) if wanted.gpus is None else None,  # else it lies on the node
    )


def _longest_tokens(choice: EngineChoice, model: ProbedModel) -> int:
    given = [getattr(choice.options, name, None) for name in _OWN_LENGTH]
    return next((int(tokens) for tokens in given if tokens), model.longest_tokens)


def _tell(record: StartRecord) -> None:
    """One line a start: where its seconds went, or why it failed."""
    parts = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in record.part_s.items())
    cache = "" if record.compile_cache is None else f", compile cache {record.compile_cache}"
    failed = "" if record.failure is None else f"; failed: {record.failure.sentence}"
    total = f"{record.seconds or 0.0:.0f} s"
    _say(f"start {record.number}, {record.name}: {total} ({parts}){cache}{failed}")


def _say(sentence: str) -> None:
    stderr_console().print(sentence, markup=False, soft_wrap=True)


def _keep(folder: Folder, choice: EngineChoice, found: Recommendation) -> None:
    """The whole recommendation as a file: what is stored in the end, once the engine has confirmed it or not."""
    model = RecommendationModel.from_domain(found, engine=choice.engine.spec, options=choice.raw)
    folder.write_text(RECOMMENDATION_FILE, model.model_dump_json(indent=1) + "\n")


def _store(folder: Folder, wanted: InEngine, profile: CostProfile, answer: EngineEvidenceModel) -> str | None:
    """Keep the profile, and the recommendation with the engine's verdict in place of the profile's.

    A profile whose name is taken by another one stays in the folder only. Lists that were given as sizes, and one list
    for several workloads, have no recommendation to carry the verdict: the folder holds them.
    """
    from services.cli.stored import local_store

    found, file = wanted.recommendation, folder.path / RECOMMENDATION_FILE
    if found is None and wanted.lists is None and file.is_file():
        found = RecommendationModel.model_validate_json(file.read_bytes())
    with local_store() as store:
        with contextlib.suppress(Conflict):
            store.profiles.add(profile)
        return None if found is None else _confirmed(store, found, answer)


def _confirmed(store: Store, found: RecommendationModel, answer: EngineEvidenceModel) -> str:
    seen = {"in_engine": answer.model_dump(mode="json", exclude={"recommendation_id"})}
    compared = next(item.asked for item in answer.lists if item.name == TUNED)
    document = found.document() | {
        "lists": compared or found.lists,
        "verdict": answer.verdict,
        "reasons": [*answer.reasons, f"By the profile alone: {VERDICTS[found.verdict]}"],
        "evidence": {**found.evidence, **seen},
    }
    kept = store.recommendations.add(document, engine=found.engine, options=found.options, verdict=answer.verdict)
    return kept.id
