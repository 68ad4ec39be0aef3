"""What a reader of the figures must know besides: sentences, the gravest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.capture.probes.experiment import DEFAULT, TUNED
from services.capture.probes.prediction import Prediction
from services.capture.probes.records import Comparison, StartRecord
from tuner.engines.base import Engine

Predictions = Mapping[tuple[str, str], Prediction | None]
"""(workload, list) -> the profile held against what was measured."""


def notes_of(
    records: Sequence[StartRecord], comparison: Comparison, predictions: Predictions, engine: Engine, options: Any
) -> tuple[str, ...]:
    """All of them."""
    compared = [record for record in records if record.purpose == "compare"]
    return (
        *(note for of in comparison.workloads if (note := of.overload_note)),
        *_missed(predictions),
        *_rules(compared, comparison, engine, options),
        *_requests(compared, comparison),
        *_starts(records, compared),
    )


def _missed(predictions: Predictions) -> Iterator[str]:
    for (workload, name), found in predictions.items():
        if found is not None and not found.held:
            yield (
                f"target missed: {workload}, {name}: the profile predicts {found.step_ms:.3f} ms a step, measured were "
                f"{found.measured_ms:.3f} ms ({found.error_share:+.1%}, tolerated {found.tolerated_share:.1%}); most "
                f"of it: {found.mostly}"
            )


def _rules(compared: Sequence[StartRecord], comparison: Comparison, engine: Engine, options: Any) -> Iterator[str]:
    name = engine.list_names[0]
    rule = tuple(engine.default_lists(options)[name])
    own = next((r.effective.get(name, ()) for r in compared if r.name == DEFAULT and r.effective), rule)
    if tuple(own) != rule:
        yield f"the engine captured {len(own)} sizes by default, our rules of {engine.spec} say {len(rule)}"
    tuned = comparison.lists[TUNED]
    said = engine.lint(tuned, options) if tuned is not None else ()
    yield from (f"lint of the tuned list: {problem.message}" for problem in said if problem.severity == "error")
    versions = sorted({record.version for record in compared if record.version})
    if any(version != str(engine.version) for version in versions):
        yield f"rules of {engine.version} were used, the engine calls itself {', '.join(versions)}"


def _requests(compared: Sequence[StartRecord], comparison: Comparison) -> Iterator[str]:
    if not any(record.runs for record in compared):
        yield "no requests were served: what users would see is not known"
    for of in comparison.workloads:
        about = f"{of.name}: " if len(comparison.workloads) > 1 else ""
        runs = [record.runs[of.name] for record in compared if of.name in record.runs]
        failed = [run.served for run in runs if run.served.failed]
        if failed:
            yield f"{about}{sum(f.failed for f in failed)} requests failed; the first: {failed[0].first_error}"
        clipped = max((run.clipped_requests for run in runs), default=0)
        if clipped:
            yield f"{about}{clipped} requests were cut to the longest that the engine takes"
        unread = next((run.census_unread for run in runs if run.census_unread), None)
        if unread:
            yield f"{about}the steps that the engine logged could not be counted: {unread}"
        adjusted = [run.served for run in runs if run.served.uncaptured_ttft_ms is not None]
        if runs and len(adjusted) == len(runs):
            yield (
                f"{about}changes of TPOT and TTFT are read beside the TTFT of the {adjusted[0].uncaptured_requests} "
                "prompts that are too long for any graph: no list has a part in it, and what it differs by from start "
                "to start is in the others, too; unadjusted changes stand below them"
            )
        preempted = sum(run.preemptions or 0 for run in runs)
        if preempted:
            yield f"{about}{preempted} times a running request lost its KV cache to others, over all starts"


def _starts(records: Sequence[StartRecord], compared: Sequence[StartRecord]) -> Iterator[str]:
    cold = sum(record.compile_cache == "cold" for record in compared)
    if cold:
        yield f"{cold} of the comparing starts had to compile first: their start-up seconds are left out"
    for record in records:
        if record.failed_cases:
            cases = ", ".join(f"{case.rows} at {case.context_tokens}" for case in record.failed_cases)
            yield f"start {record.number} ({record.name}): no reading of {cases}"
