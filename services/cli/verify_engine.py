"""`captune verify --in-engine`: profile a real engine, choose a list, compare it with the default in that engine."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from functools import partial

from db.store import Store
from services.capture.probes.base import Launch
from services.capture.probes.choose import choose_probe
from services.capture.probes.evidence import Evidence, weigh
from services.capture.probes.experiment import TUNED, Experiment, typical_context
from services.capture.probes.model_folder import ProbedModel, probed_model
from services.capture.probes.records import ExperimentPlan, Folder, plain_lists
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.cli.in_engine import InEngine
from services.cli.options import EngineChoice
from services.cli.output import progress
from services.cli.verify_engine_text import report_text
from services.cli.workload import Asked, Workload
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.plain import plain
from services.contract.recommendation import VERDICTS, RecommendationModel
from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engine_verdict import EngineThresholds
from tuner.recommendation import Recommendation
from workloads.errors import BadUsage, Conflict
from workloads.traces.records import Traffic

FIT_SHARE = 0.7
NO_ORDER = "this traffic has no order in time: lists were compared on the traffic that they were chosen on"
RECOMMENDATION_FILE = "recommendation.json"
REPORT_FILE = "report.md"
_OWN_LENGTH = ("max_model_len", "context_length")


def verify_in_engine(asked: Asked, wanted: InEngine, budget: Budget) -> EngineEvidenceModel:
    """Whatever is still to be measured, and then the answer from all records.

    Raises:
        BadUsage: something is missing, or the folder holds another experiment.
        EngineFailed: the engine could not be profiled; what was recorded stays.
    """
    if wanted.records is None:
        raise BadUsage("say where every start is recorded: --records DIR", field="--records")
    if wanted.model is None:
        raise BadUsage("say which model the engine runs: --model NAME, FOLDER or config.json", field="--model")
    if asked.engine is None:
        raise BadUsage("say which engine: --engine vllm@0.23.0", field="--engine")
    workload = asked.open()
    assert workload.choice is not None
    probe = choose_probe(workload.choice.engine.name, wanted.way)
    folder = Folder(wanted.records)
    model = probed_model(wanted.model, wanted.records)
    plan = folder.agree(_plan(workload, workload.choice, wanted, model))
    experiment = Experiment(
        plan=plan,
        starter=Starter(probe, _launch(workload.choice, wanted, model), folder),
        engine=workload.choice.engine,
        options=workload.choice.options,
        model=model.config,
        longest_tokens=_longest_tokens(workload.choice, model),
        traffic=workload.read.traffic,
        serving=workload.serving,
        budget=budget,
        starts=wanted.starts,
        on_recommended=partial(_keep, folder, workload.choice),
    )
    before = len(folder.starts())
    with folder.claimed(), progress("in the engine") as advance:
        profile, comparison = replace(experiment, told=advance).run()
    records = folder.starts()
    evidence = weigh(records, comparison, profile, experiment.engine, experiment.options, plan.thresholds)
    device = next((record.device for record in records if record.device), None)
    answer = _answer(plan, evidence, profile, device, str(folder.path))
    if len(records) > before:
        answer = answer.model_copy(update={"recommendation_id": _store(folder, wanted, profile, answer)})
    folder.write_text(REPORT_FILE, report_text(answer))
    return answer


def _plan(workload: Workload, choice: EngineChoice, wanted: InEngine, model: ProbedModel) -> ExperimentPlan:
    traffic: Traffic = workload.read.traffic
    return ExperimentPlan(
        engine=choice.engine.spec,
        options=choice.raw,
        way=wanted.way,
        model=model.config.name,
        dummy_weights=model.dummy_weights,
        workload=workload.name,
        workload_digest=traffic.digest(),
        load=workload.serving.load,
        fit_share=1.0 if workload.read.kind == "histogram" else FIT_SHARE,
        serve_s=wanted.serve_s,
        context_tokens=typical_context(traffic),
        replay_steps=wanted.replay_steps,
        profile_starts=wanted.profile_starts,
        protocol=StepProtocol(repeats=wanted.repeats),
        thresholds=EngineThresholds(),
        lists=None if wanted.lists is None else plain_lists(wanted.lists),
        lists_from=wanted.lists_from,
        command=shlex.join(["captune", *sys.argv[1:]]),
    )


def _launch(choice: EngineChoice, wanted: InEngine, model: ProbedModel) -> Launch:
    return Launch(
        engine=choice.engine,
        raw_options=choice.raw,
        lists=None,
        model=model.folder,
        vocabulary=model.config.vocab_size,
        dummy_weights=model.dummy_weights,
        command=tuple(shlex.split(wanted.python)),
        ready_s=wanted.ready_s,
    )


def _longest_tokens(choice: EngineChoice, model: ProbedModel) -> int:
    given = [getattr(choice.options, name, None) for name in _OWN_LENGTH]
    return next((int(tokens) for tokens in given if tokens), model.longest_tokens)


def _keep(folder: Folder, choice: EngineChoice, found: Recommendation) -> None:
    """The whole recommendation as a file: what is stored in the end, once the engine has confirmed it or not."""
    model = RecommendationModel.from_domain(found, engine=choice.engine.spec, options=choice.raw)
    folder.write_text(RECOMMENDATION_FILE, model.model_dump_json(indent=1) + "\n")


def _answer(
    plan: ExperimentPlan, evidence: Evidence, profile: CostProfile, device: str | None, records: str
) -> EngineEvidenceModel:
    return EngineEvidenceModel.model_validate(
        {
            "engine": plan.engine,
            "way": plan.way,
            "model": plan.model,
            "device": device,
            "workload": plan.workload,
            "load": plan.load,
            "records": records,
            "profile": profile.name,
            "verdict": evidence.decision.verdict,
            "reasons": evidence.decision.reasons,
            "lists": plain(evidence.lists),
            "changes": plain(evidence.decision.changes),
            "thresholds": plain(plan.thresholds) | {"written_at": plan.written_at},
            "notes": (*evidence.notes, *([NO_ORDER] if plan.fit_share == 1 else ())),
        }
    )


def _store(folder: Folder, wanted: InEngine, profile: CostProfile, answer: EngineEvidenceModel) -> str | None:
    """Keep the profile, and the recommendation with the engine's verdict in place of the profile's.

    A profile whose name is taken by another one stays in the folder only. Lists that were given as sizes have no
    recommendation to carry the verdict.
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
