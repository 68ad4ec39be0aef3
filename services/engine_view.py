"""From the folder of an experiment inside an engine to the contract's model: what the command answers, at any time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.capture.probes.evidence import ListEvidence, ListOnWorkload, WorkloadEvidence, weigh
from services.capture.probes.experiment import LISTS_FILE
from services.capture.probes.profiling import PROFILE_FILE
from services.capture.probes.records import Comparison, ExperimentPlan, Folder, StartRecord
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.plain import plain
from tuner.engines.registry import engine as engine_named
from tuner.intervals import Interval
from tuner.profile_file import read_profile
from workloads.errors import NotFound

NO_ORDER = "this traffic has no order in time: lists were compared on the traffic that they were chosen on"


def read_evidence(path: Path, left: int = 0) -> EngineEvidenceModel:
    """All that is recorded in a folder, summed up.

    Args:
        left: starts that are still to be done.

    Raises:
        NotFound: there is no experiment.
        BadInput: a file is not what this version writes.
    """
    folder = Folder(path)
    plan = folder.read("plan.json", ExperimentPlan)
    if plan is None:
        raise NotFound(f"'{path}' holds no experiment: there is no plan.json")
    records = folder.starts()
    head = {
        "engine": plan.engine,
        "way": plan.way,
        "model": plan.model,
        "device": next((record.device for record in records if record.device), None),
        "workload": ", ".join(of.name for of in plan.workloads),
        "load": plan.workloads[0].load if len(plan.workloads) == 1 else None,
        "records": str(path),
        "thresholds": plain(plan.thresholds) | {"written_at": plan.written_at},
        "command": plan.command,
        "starts_left": left,
    }
    comparison = folder.read(LISTS_FILE, Comparison)
    if comparison is None:
        return EngineEvidenceModel.model_validate(head | _unfinished(left))
    return EngineEvidenceModel.model_validate(head | _compared(plan, comparison, records, path, left))


def _unfinished(left: int) -> dict[str, Any]:
    """The profile is not complete: nothing was compared yet."""
    reason = f"The engine's profile is not complete: {left} starts are left; the same command goes on."
    empty: dict[str, Any] = dict.fromkeys(("workloads", "lists", "notes"), ()) | {"changes": {}, "profile": None}
    return empty | {"verdict": "inconclusive", "reasons": (reason,)}


def _compared(
    plan: ExperimentPlan, comparison: Comparison, records: tuple[StartRecord, ...], path: Path, left: int
) -> dict[str, Any]:
    engine = engine_named(plan.engine)
    profile = read_profile(path / PROFILE_FILE)
    evidence = weigh(records, comparison, profile, engine, engine.options(plan.options), plan.thresholds)
    decision, loads = evidence.decision, {of.name: of.load for of in plan.workloads}
    only = evidence.workloads[0] if len(evidence.workloads) == 1 else None
    undone = f"{left} starts are left undone by the time limit; the same command goes on with them"
    no_order = [NO_ORDER] if any(of.fit_share == 1 for of in plan.workloads) else []
    return {
        "profile": profile.name,
        "requested_by": comparison.requested_by,
        "verdict": decision.verdict,
        "reasons": decision.reasons,
        "workloads": [_workload(of, loads, decision.workload_changes) for of in evidence.workloads],
        "lists": [_list(item, only) for item in evidence.lists],
        "changes": plain(decision.changes) | ({} if only is None else _changes(only, decision.workload_changes)),
        "notes": (*([undone] if left else ()), *evidence.notes, *no_order),
    }


def _workload(
    of: WorkloadEvidence, loads: Mapping[str, float], changes: Mapping[str, Mapping[str, Interval]]
) -> dict[str, Any]:
    workload = of.workload
    return {
        "name": workload.name,
        "load": loads[workload.name],
        "load_share": workload.load_share,
        "overloaded": workload.overloaded,
        "lists": [_on_workload(item) for item in of.lists],
        "changes": _changes(of, changes),
    }


def _on_workload(item: ListOnWorkload) -> dict[str, Any]:
    found = item.prediction
    return {
        "name": item.name,
        "figures": plain(item.figures),
        "by_rule": plain(item.by_rule),
        "predicted_step_ms": item.predicted_step_ms,
        "prediction": None if found is None else plain(found) | {"held": found.held},
    }


def _list(item: ListEvidence, only: WorkloadEvidence | None) -> dict[str, Any]:
    """With a single workload its figures stand beside those of the list."""
    on = None if only is None else next(of for of in only.lists if of.name == item.name)
    kept = {key: value for key, value in plain(item).items() if key != "columns"}
    return kept | {
        "figures": plain(item.figures | ({} if on is None else on.figures)),
        "by_rule": {} if on is None else plain(on.by_rule),
        "predicted_step_ms": None if on is None else on.predicted_step_ms,
    }


def _changes(of: WorkloadEvidence, changes: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    found: dict[str, Any] = plain(changes.get(of.workload.name, {}))
    return found
