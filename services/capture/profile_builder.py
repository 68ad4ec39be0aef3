"""Merge what fresh starts measured into one CostProfile. No torch here."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from services.capture.context_terms import median, with_context
from services.capture.readings import Preparation, SizeFailure, SizeReading, StartReport, StepModel
from services.capture.spec import MeasureSpec
from tuner.cost_profile import CostProfile, FamilyCost, PrefillCost
from workloads.arrays import F64
from workloads.errors import MeasurementFailed

_WAYS = {
    "full": "full",
    "compiled": "full",
    "reduce-overhead": "full",
    "piecewise": "piecewise",
    "breakable": "breakable",
    "eager": "eager",
}


def family_of(spec: MeasureSpec) -> str:
    """`decode_full`, `prefill_piecewise`; whole graphs of drafts are plainly `draft`, `target_verify`."""
    way = _WAYS[spec.strategy]
    return spec.family if spec.family in ("draft", "target_verify") and way == "full" else f"{spec.family}_{way}"


def build_profile(
    spec: MeasureSpec,
    reports: Sequence[StartReport],
    failures: tuple[SizeFailure, ...] = (),
    *,
    command: str | None = None,
) -> CostProfile:
    """Medians over starts; `spread_ms` is the standard deviation of the starts' medians, unknown with one start.

    Raises:
        MeasurementFailed: no start measured any size.
    """
    if not any(report.readings for report in reports):
        raise MeasurementFailed("no start measured any size")
    first = reports[0]
    return CostProfile(
        name=profile_name(str(first.device["name"]), str(first.model["name"])),
        families={family_of(spec): _family(spec, reports)},
        prefill=_prefill(reports),
        device=dict(first.device),
        model=dict(first.model),
        software=dict(first.software) | {"measurement": _protocol(spec, reports, failures)},
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        starts=len(reports),
    )


def profile_name(device: str, model: str) -> str:
    """`h200-llama-3.1-8b` for NVIDIA H200 and llama-3.1-8b."""
    short = re.sub(r"^(NVIDIA|AMD)\s+|\s+(HBM3e?|SXM\d?|PCIe)\b.*$", "", device)
    return f"{re.sub(r'[^a-z0-9.]+', '-', short.lower()).strip('-')}-{model}"


def _family(spec: MeasureSpec, reports: Sequence[StartReport]) -> FamilyCost:
    by_size: dict[int, list[SizeReading]] = {}
    for report in reports:
        for reading in report.readings:
            by_size.setdefault(reading.size, []).append(reading)
    sizes = sorted(by_size)

    def column(value: Callable[[SizeReading], float | None]) -> F64:
        return np.array([_median([value(reading) for reading in by_size[size]]) for size in sizes])

    def marginal(of: Callable[[StartReport, int], float | None]) -> F64:
        return np.array([_median([of(report, size) for report in reports]) for size in sizes])

    graphs = spec.strategy != "eager"
    models = [report.step_model for report in reports if report.step_model is not None]
    cost = FamilyCost(
        unit="tokens" if spec.family == "prefill" else "requests",
        sizes=np.array(sizes, dtype=np.int64),
        step_ms=column(lambda r: r.timing.step_ms),
        replay_ms=column(lambda r: r.timing.run_ms if graphs else None),
        fallback_ms=column(lambda r: r.fallback.step_ms if r.fallback else None),
        spread_ms=np.array([_spread([r.timing.step_ms for r in by_size[size]]) for size in sizes]),
        capture_s=marginal(lambda report, size: report.marginal_s.get(size)),
        memory_mib=marginal(lambda report, size: report.marginal_mib.get(size)),
        starts=np.array([len(by_size[size]) for size in sizes], dtype=np.int64),
        context_tokens=1.0,
        pool_mib=median([report.pool_mib for report in reports]),
        capture_fixed_s=median([report.fixed_s for report in reports]),
        lm_head_in_graph=spec.lm_head_in_graph if graphs else None,
    )
    return with_context(cost, models) if models else cost


def _prefill(reports: Sequence[StartReport]) -> PrefillCost | None:
    times: dict[tuple[int, int], list[float]] = {}
    for report in reports:
        for reading in report.prefill:
            times.setdefault((reading.tokens, reading.prefix_tokens), []).append(reading.step_ms)
    if not times:
        return None
    keys = sorted(times, key=lambda key: (key[1], key[0]))
    return PrefillCost(
        tokens=np.array([tokens for tokens, _ in keys], dtype=np.float64),
        prefix_tokens=np.array([prefix for _, prefix in keys], dtype=np.float64),
        step_ms=np.array([round(statistics.median(times[key]), 5) for key in keys]),
    )


def _protocol(spec: MeasureSpec, reports: Sequence[StartReport], failures: tuple[SizeFailure, ...]) -> dict[str, Any]:
    """How it was measured and what it leaves unexplained, as plain values for the file."""
    models = [report.step_model for report in reports if report.step_model is not None]
    samples = [sample for report in reports for sample in report.device_log]
    readings = [reading for report in reports for reading in report.readings]
    return {
        "family": spec.family,
        "tokens_per_request": spec.tokens_per_request,
        **({} if spec.draft is None else {"draft": dataclasses.asdict(spec.draft)}),
        "strategy": spec.strategy,
        "repeats": spec.repeats,
        "iterations": spec.iterations,
        "warmup": spec.warmup,
        "seed": spec.seed,
        "seconds_per_start": [round(report.seconds, 1) for report in reports],
        "phase_s": [{phase: round(spent_s, 2) for phase, spent_s in report.phase_s.items()} for report in reports],
        "against_first_start": _against_first(reports),
        "first_launch_ms": round(median([reading.preparation.first_launch_s * 1e3 for reading in readings]), 3),
        "same_as_eager_share": round(statistics.mean(reading.check.same_as_eager for reading in readings), 3),
        "largest_logit_error": max(
            (reading.check.error for reading in readings if reading.check.error is not None), default=None
        ),
        "capture_split": _capture_split(reports),
        "memory_split": _memory_split(reports),
        "gpu_busy": [
            _rounded(dataclasses.asdict(busy)) | {"launch_bound": busy.launch_bound}
            for report in reports
            for busy in report.busy
        ],
        "step_model": [step_model_document(model) for model in models],
        "probing": [_rounded(dataclasses.asdict(report.probing)) for report in reports if report.probing],
        "failures": [dataclasses.asdict(failure) for failure in failures],
        "device_log": [_rounded(dataclasses.asdict(sample)) for sample in samples],
    }


def step_model_document(model: StepModel) -> dict[str, Any]:
    """A start's fit as plain values for the file, with every reading that it rests on."""
    return {
        "trusted": model.trusted,
        "attention_ms_per_mtoken": round(model.attention_ms_per_mtoken, 4),
        "row_ms": round(model.row_ms, 6),
        "constant_ms": round(model.constant_ms, 6),
        "longest_row_ms_per_ktoken": round(model.longest_row.ms_per_ktoken, 6),
        "unsplit_rows": model.longest_row.unsplit_rows,
        "rows": model.row_curve.rows.tolist(),
        "rows_ms": [round(float(ms), 4) for ms in model.row_curve.rows_ms],
        "median_residual_share": round(model.median_residual_share, 4),
        "p90_residual_share": round(model.p90_residual_share, 4),
        "worst_residual_share": round(model.worst_residual_share, 4),
        "points": [_rounded(dataclasses.asdict(point)) for point in model.points],
    }


def _against_first(reports: Sequence[StartReport]) -> list[dict[str, float]]:
    """Of every start after the first, medians over the sizes that both read: how much longer its steps and its runs
    were, as shares, and what surrounds a run in both, in ms: copies, planning, sampling, which is the host's work."""
    found = []
    for report in reports[1:]:
        first = {reading.size: reading.timing for reading in reports[0].readings}
        pairs = [(first[one.size], one.timing) for one in report.readings if one.size in first]
        if not pairs:
            continue
        found.append(
            {
                "step_share": round(statistics.median(own.step_ms / one.step_ms - 1 for one, own in pairs), 5),
                "run_share": round(statistics.median(own.run_ms / one.run_ms - 1 for one, own in pairs), 5),
                "around_ms": round(statistics.median(own.step_ms - own.run_ms for _, own in pairs), 4),
                "first_around_ms": round(statistics.median(one.step_ms - one.run_ms for one, _ in pairs), 4),
            }
        )
    return found


def _capture_split(reports: Sequence[StartReport]) -> list[dict[str, Any]]:
    """Seconds per size: warm-up, record, instantiation and first launch, medians over starts."""
    by_size: dict[int, list[Preparation]] = {}
    for report in reports:
        for reading in report.readings:
            by_size.setdefault(reading.size, []).append(reading.preparation)
    parts = ("warmup_s", "record_s", "instantiate_s", "first_launch_s")
    return [
        {"size": size} | {part: _median([getattr(one, part) for one in by_size[size]]) for part in parts}
        for size in sorted(by_size)
    ]


def _memory_split(reports: Sequence[StartReport]) -> dict[str, float]:
    """MiB: the pool that the first size of the ladder needs, and for one more size what torch's allocator keeps and
    what the driver takes beside it; medians over sizes and starts. The output buffer is shared by all sizes."""
    ladder = [
        reading
        for report in reports
        for reading in report.readings
        if reading.size in report.marginal_mib and reading.size != max(report.marginal_mib)
    ]
    return {
        "pool_mib": median([report.pool_mib for report in reports]),
        "outputs_mib": median([report.outputs_mib for report in reports]),
        "allocator_mib_per_size": median([reading.reserved_mib for reading in ladder]),
        "driver_mib_per_size": median([reading.memory_mib - reading.reserved_mib for reading in ladder]),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in values.items()}


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 5) if known else float("nan")


def _spread(values: Sequence[float]) -> float:
    return round(statistics.stdev(values), 5) if len(values) > 1 else float("nan")
