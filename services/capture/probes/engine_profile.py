"""From the starts of one engine to a CostProfile whose software names it: same file, pages and report as any other."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from services.capture.probes.prompt_costs import MIXED_MEASUREMENT, mixed_cost, prefill_cost
from services.capture.probes.readings import captured_by, measured, median_ms, spread_ms
from services.capture.probes.records import StartRecord
from services.capture.probes.step_terms import StepTerms, TermPoint, fit_terms
from services.capture.probes.step_time import StepProtocol
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.engines.base import Engine
from workloads.errors import MeasurementFailed
from workloads.histogram import Unit
from workloads.models.config import ModelConfig

_BYTES_PER_VALUE = 2  # bfloat16, what these engines load such configs as


def terms_of(starts: Sequence[StartRecord], engine: Engine) -> StepTerms:
    """The price of real rows and KV tokens, from the starts that measured it.

    Raises:
        MeasurementFailed: none did.
    """
    points = []
    for start in measured(starts, "steps"):
        buckets = captured_by(start, engine)
        for timing in start.steps:
            bucket = min((size for size in buckets if size >= timing.rows), default=None)
            if bucket is not None:
                points.append(TermPoint(bucket, timing.rows, timing.context_tokens, timing.step_ms))
    return fit_terms(points)


def build_engine_profile(
    starts: Sequence[StartRecord],
    *,
    engine: Engine,
    model: ModelConfig,
    dummy_weights: bool,
    context_tokens: int,
    protocol: StepProtocol,
    command: str | None = None,
) -> CostProfile:
    """Medians over starts, every step moved to `context_tokens` by the fitted price of a KV token.

    Sizes come from the starts with purpose `profile`; before there is any, from the coarse ones with purpose `steps`.
    Where mixed steps run in graphs of the same list, they are a second family (`prompt_costs.mixed_cost`); what
    capturing a size costs, both graphs of it, is counted with decode steps.

    Raises:
        MeasurementFailed: no start measured any size, or nothing prices rows and KV tokens.
    """
    terms = _believable(terms_of(starts, engine), starts, engine, context_tokens)
    mixed = mixed_cost(starts, engine)
    versions = sorted({start.version for start in starts if start.version})
    device = next((start.device for start in starts if start.device), None)
    return CostProfile(
        name=_name(device, engine, model),
        families={engine.decode_family: _family(starts, engine, terms, context_tokens), **mixed},
        prefill=prefill_cost(starts),
        device={"name": device or "unknown"},
        model={
            "name": model.name,
            "architecture": model.architecture,
            "parameters": model.parameters,
            "dtype": "bfloat16",
            "kv_bytes_per_token": model.kv_values_per_token * _BYTES_PER_VALUE,
            "weights": "random" if dummy_weights else "loaded",
        },
        software={
            "engine": f"{engine.name}@{versions[0] if len(versions) == 1 else engine.version}",
            "measurement": _protocol(starts, terms, protocol) | ({"mixed": MIXED_MEASUREMENT} if mixed else {}),
        },
        recorded_at=max(start.started_at for start in starts),
        command=command,
        starts=max(1, len(measured(starts, "profile"))),
    )


def capture_terms(starts: Sequence[StartRecord]) -> tuple[tuple[float, float], tuple[float, float]]:
    """((fixed s, s per size), (pool MiB, MiB per size)) of lists that end where the longest one seen does; nan where
    lists of different lengths are missing.

    An engine reports what a whole list took, and starts with lists of several lengths are there anyway. Seconds are a
    line over the number of sizes. Memory is a pool in proportion to the largest size, which every graph shares, and so
    much for each: vLLM 0.23.0 took 205 MiB for 3 sizes up to 128, 768 for 11 up to 512 and 1,065 for 62 up to 512.
    """
    return _line(starts), _pool(starts)


def _family(starts: Sequence[StartRecord], engine: Engine, terms: StepTerms, context_tokens: int) -> FamilyCost:
    captured = _by_size(_sized(starts), engine, terms, context_tokens, in_graph=True)
    eager = _by_size(measured(starts, "steps"), engine, terms, context_tokens, in_graph=False)
    if not captured:
        raise MeasurementFailed("no start measured any size inside the engine")
    # Above the largest captured size a step without a graph says what a bucket costs at most; see `eager_only`.
    readings = captured | {size: values for size, values in eager.items() if size > max(captured)}
    sizes = sorted(readings)
    (fixed_s, size_s), (pool_mib, size_mib) = capture_terms(starts)
    unit: Unit = "tokens" if engine.name == "vllm" else "requests"
    count = len(sizes)
    return FamilyCost(
        unit=unit,
        sizes=np.array(sizes, dtype=np.int64),
        step_ms=np.array([median_ms(readings[size]) for size in sizes]),
        replay_ms=np.full(count, np.nan),
        fallback_ms=np.array([median_ms(eager[n]) if n in eager else np.nan for n in sizes]),
        spread_ms=np.array([spread_ms(readings[size]) for size in sizes]),
        capture_s=np.full(count, size_s),
        memory_mib=np.full(count, size_mib),
        starts=np.array([len(readings[size]) for size in sizes], dtype=np.int64),
        context_tokens=float(context_tokens),
        attention_ms_per_mtoken=terms.attention_ms_per_mtoken,
        row_ms=terms.row_ms,
        row_curve=terms.row_curve,
        pool_mib=0.0 if np.isnan(pool_mib) else pool_mib,
        capture_fixed_s=0.0 if np.isnan(fixed_s) else fixed_s,
    )


def _believable(terms: StepTerms, starts: Sequence[StartRecord], engine: Engine, context_tokens: int) -> StepTerms:
    """The fit, held against every full step that it is to be taken off."""
    readings = _by_size(_sized(starts), engine, terms, context_tokens, in_graph=True)
    full_ms = {size: statistics.median(values) for size, values in readings.items()}
    return terms.within(full_ms, context_tokens).rounded()


def _sized(starts: Sequence[StartRecord]) -> list[StartRecord]:
    return measured(starts, "profile") or measured(starts, "steps")


def _by_size(
    starts: Sequence[StartRecord], engine: Engine, terms: StepTerms, context_tokens: int, *, in_graph: bool
) -> dict[int, list[float]]:
    """size -> one value a start, of full buckets or of steps that no bucket holds."""
    found: dict[int, list[float]] = {}
    for start in starts:
        buckets = captured_by(start, engine)
        own: dict[int, list[float]] = {}
        for timing in start.steps:
            if (timing.rows in buckets) if in_graph else (timing.rows > max(buckets, default=0)):
                moved_tokens = timing.rows * (context_tokens - timing.context_tokens)
                own.setdefault(timing.rows, []).append(
                    timing.step_ms + terms.attention_ms_per_mtoken * 1e-6 * moved_tokens
                )
        for size, values in own.items():
            found.setdefault(size, []).append(statistics.median(values))
    return found


def _line(starts: Sequence[StartRecord]) -> tuple[float, float]:
    """Seconds: fixed, and per size. The time of recording is finer than the engine's whole seconds of capture, where
    lists of different lengths have it; what surrounds it is fixed."""
    seen = [start for start in starts if start.effective and start.capture_s is not None]
    fine = [start for start in seen if start.recording_s is not None]
    if len({_count(start) for start in fine}) < 2:
        return _fitted_line([(_count(start), start.capture_s or 0.0) for start in seen])
    fixed_s, size_s = _fitted_line([(_count(start), start.recording_s or 0.0) for start in fine])
    around_s = statistics.fmean((start.capture_s or 0.0) - (start.recording_s or 0.0) for start in fine)
    return round(fixed_s + max(0.0, around_s), 4), size_s


def _fitted_line(pairs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Fixed and per size; nan where there are not two lengths."""
    if len({count for count, _ in pairs}) < 2:
        return float("nan"), float("nan")
    counts, values = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    slope = max(0.0, float(np.polyfit(counts, values, 1)[0]))
    return max(0.0, round(float(values.mean() - slope * counts.mean()), 4)), round(slope, 5)


def _pool(starts: Sequence[StartRecord]) -> tuple[float, float]:
    """MiB: the pool of the longest list seen, and per size."""
    rows = [
        (_largest(start), _count(start), start.graph_memory_mib)
        for start in starts
        if start.effective and start.graph_memory_mib is not None
    ]
    if len({(largest, count) for largest, count, _ in rows}) < 2:
        return float("nan"), float("nan")
    largest, counts, values = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    columns = np.column_stack((largest, counts))
    by_largest, by_size = np.linalg.lstsq(columns, values, rcond=None)[0]
    if by_largest < 0:  # noise, or an engine whose pool does not grow: all of it by number
        by_largest, by_size = 0.0, float(counts @ values / (counts @ counts))
    elif by_size < 0:
        by_largest, by_size = float(largest @ values / (largest @ largest)), 0.0
    return round(float(by_largest) * float(largest.max()), 4), round(float(by_size), 5)


def _count(start: StartRecord) -> int:
    return sum(len(sizes) for sizes in start.effective.values())


def _largest(start: StartRecord) -> int:
    return max(size for sizes in start.effective.values() for size in sizes)


def _protocol(starts: Sequence[StartRecord], terms: StepTerms, protocol: StepProtocol) -> dict[str, Any]:
    fit: Mapping[str, Any] = {
        "attention_ms_per_mtoken": round(terms.attention_ms_per_mtoken, 4),
        "row_ms": round(terms.row_ms, 6),
        "rows": terms.row_curve.rows.tolist(),
        "median_residual_share": round(terms.median_residual_share, 4),
        "worst_residual_share": round(terms.worst_residual_share, 4),
        "limited": terms.limited,
    }
    return {
        "fallback": "steps above the captured sizes of the first start",
        "how": "equal requests through the engine's interface, two output lengths, difference over steps",
        "protocol": asdict(protocol),
        "starts": {purpose: len(measured(starts, purpose)) for purpose in ("steps", "profile")},
        "step_model": fit,
        "capture": "by lists of different lengths: seconds a line over their number of sizes, MiB a pool in proportion "
        "to the largest size and so much for each",
        "prefill": "time to the only token of one prompt through the interface, the client included; in graphs as "
        "far as they were captured",
    }


def _name(device: str | None, engine: Engine, model: ModelConfig) -> str:
    short = re.sub(r"^(NVIDIA|AMD)\s+|\s+(HBM3e?|SXM\d?|PCIe)\b.*$", "", device or "unknown")
    release = ".".join(str(part) for part in engine.version.release[:2])
    return f"{re.sub(r'[^a-z0-9.]+', '-', short.lower()).strip('-')}-{engine.name}-{release}-{model.name}"
