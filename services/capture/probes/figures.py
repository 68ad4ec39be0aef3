"""Which figures one start gives: of itself, and of each workload that it served and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.capture.probes.records import ComparedWorkload, ReplayedStep, StartRecord, WorkloadRun
from services.capture.probes.step_time import StepCase, medians_ms
from tuner.intervals import BlockValue

_BESIDE = "uncaptured_ttft_ms"
_READ_BESIDE = ("tpot_ms", "ttft_ms")
"""These scatter with how long prompts without any graph took in that start, which no list has a part in."""

Columns = dict[str, list[BlockValue]]
"""Figure -> one value a start and its GPU, in order of the starts; a figure that no start gives is absent."""


def start_columns(records: Sequence[StartRecord]) -> Columns:
    """`startup_s`, `setup_s`, `capture_s`, `recording_s`, `graph_memory_mib`, `kv_tokens`.

    A start that had to compile first says nothing of the start-up and set-up of its list: those seconds are left out.
    """
    return _columns(
        records,
        [
            {
                "startup_s": None if record.compile_cache == "cold" else record.startup_s,
                "setup_s": None if record.compile_cache == "cold" else record.setup_s,
                "capture_s": record.capture_s,
                "recording_s": record.recording_s,
                "graph_memory_mib": record.graph_memory_mib,
                "kv_tokens": record.kv_tokens,
            }
            for record in records
        ],
    )


def workload_columns(records: Sequence[StartRecord], workload: ComparedWorkload) -> Columns:
    """`mean_step_ms` of the replayed steps; `ttft_ms`, `ttft_p99_ms`, `tpot_ms`, `tpot_p99_ms`,
    `throughput_tokens_per_s`, `failed_rate`, `drain_s` of the served requests, and `uncaptured_ttft_ms`, which time per
    token and time to first token have beside them; their `preemptions`, `exact_rate`,
    `padded_rate`, `fallback_rate` and `padding_waste` where the engine counts them."""
    return _columns(
        records,
        [
            {"mean_step_ms": _mean_step_ms(record, workload.steps)} | _served(record.runs.get(workload.name))
            for record in records
        ],
    )


def _served(run: WorkloadRun | None) -> dict[str, float | None]:
    if run is None:
        return {}
    served, census = run.served, run.census
    found: dict[str, float | None] = {
        "ttft_ms": served.ttft_mean_ms,
        "ttft_p99_ms": served.ttft_p99_ms,
        "tpot_ms": served.tpot_mean_ms,
        "tpot_p99_ms": served.tpot_p99_ms,
        "throughput_tokens_per_s": served.throughput_tokens_per_s,
        "failed_rate": served.failed / served.requests,
        "drain_s": served.drain_s,
        _BESIDE: served.uncaptured_ttft_ms,
        "preemptions": run.preemptions,
    }
    if census is not None:
        found |= {
            "exact_rate": census.exact,
            "padded_rate": census.padded,
            "fallback_rate": census.fallback,
            "padding_waste": census.padding_waste,
        }
    return found


def _mean_step_ms(record: StartRecord, steps: Sequence[ReplayedStep]) -> float | None:
    """Weighted by how many recorded steps each case stands for; None where a case was not read."""
    step_ms = medians_ms(record.steps)
    cases = [(StepCase(step.rows, step.context_tokens), step.weight) for step in steps]
    if not cases or any(case not in step_ms for case, _ in cases):
        return None
    return sum(step_ms[case] * weight for case, weight in cases) / sum(weight for _, weight in cases)


def _columns(records: Sequence[StartRecord], rows: Sequence[Mapping[str, float | None]]) -> Columns:
    columns: Columns = {}
    for record, row in zip(records, rows, strict=True):
        for name, value in row.items():
            if value is not None:
                beside = row.get(_BESIDE) if name in _READ_BESIDE else None
                columns.setdefault(name, []).append(BlockValue(float(value), record.gpu or "", beside))
    return columns
