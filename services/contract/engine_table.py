"""Lists compared inside an engine as tables of text, which the terminal, the folder, the docs and the report share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.contract.engine_evidence import (
    EngineEvidenceModel,
    IntervalModel,
    ListEvidenceModel,
    ListOnWorkloadModel,
    WorkloadEvidenceModel,
)

UNKNOWN = "unknown"
_MIB_PER_GIB = 1024.0

_CHANGES: Mapping[str, str] = {
    "startup_s": "start-up",
    "setup_s": "set-up without compiling",
    "capture_s": "capture",
    "recording_s": "recording graphs",
    "graph_memory_mib": "graph memory",
    "kv_tokens": "KV tokens",
    "mean_step_ms": "mean decode step",
    "tpot_ms": "TPOT",
    "tpot_ms_unadjusted": "TPOT, unadjusted",
    "ttft_ms": "TTFT",
    "ttft_ms_unadjusted": "TTFT, unadjusted",
    "throughput_tokens_per_s": "throughput",
}


@dataclass(frozen=True, slots=True)
class EngineTable:
    """Rows of text under a title; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def transposed(self) -> EngineTable:
        """Rows as columns: for a screen that is narrower than the table."""
        columns, *rows = zip(self.columns, *self.rows, strict=True)
        return EngineTable(self.title, columns, tuple(rows))


def engine_tables(answer: EngineEvidenceModel) -> tuple[EngineTable, ...]:
    """Per workload what every list did, what the tuned one changes and how well the profile knew; then every step."""
    made: list[EngineTable] = []
    for of in answer.workloads:
        # The names of several workloads tell their load.
        about = of.name if len(answer.workloads) > 1 else f"{of.name}, load {of.load:g}"
        made += [
            EngineTable(f"{about}: every list", _LIST_COLUMNS, _list_rows(answer, of)),
            EngineTable(f"{about}: tuned against default", ("", "change", "95 % interval"), _change_rows(answer, of)),
            EngineTable(f"{about}: predicted against measured", _PREDICTION_COLUMNS, _prediction_rows(answer, of)),
        ]
    if answer.lists:
        columns = ("rows at context", *(item.name for item in answer.lists))
        made.append(EngineTable("Replayed steps, ms", columns, _step_rows(answer)))
    return tuple(table for table in made if table.rows)


_LIST_COLUMNS = (
    "list",
    "starts",
    "graphs (sizes)",
    "start-up s",
    "capture s",
    "recording s",
    "graph GiB",
    "KV tokens",
    "mean decode step ms",
    "TPOT ms",
    "TTFT ms",
    "throughput tokens/s",
    "exact",
    "padded",
    "fallback",
)


def _list_rows(answer: EngineEvidenceModel, of: WorkloadEvidenceModel) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            item.name,
            f"{item.starts}",
            f"{item.graphs} ({item.list_length})",
            _interval(item.figures.get("startup_s"), 1),
            _interval(item.figures.get("capture_s"), 1),
            _interval(item.figures.get("recording_s"), 2),
            _interval(item.figures.get("graph_memory_mib"), 2, 1 / _MIB_PER_GIB),
            _interval(item.figures.get("kv_tokens"), 0),
            _interval(on.figures.get("mean_step_ms"), 3),
            _interval(on.figures.get("tpot_ms"), 3),
            _interval(on.figures.get("ttft_ms"), 1),
            _interval(on.figures.get("throughput_tokens_per_s"), 0),
            *(_rate(on, name) for name in ("exact", "padded", "fallback")),
        )
        for item, on in _pairs(answer, of)
    )


def _change_rows(answer: EngineEvidenceModel, of: WorkloadEvidenceModel) -> tuple[tuple[str, ...], ...]:
    changes = {**answer.changes, **of.changes}
    return tuple(
        (what, f"{change.mean:+.1%}", UNKNOWN if change.low is None else f"{change.low:+.1%} to {change.high:+.1%}")
        for name, what in _CHANGES.items()
        if (change := changes.get(name)) is not None
    )


_PREDICTION_COLUMNS = (
    "list",
    "predicted ms",
    "measured ms",
    "off by",
    "start-to-start band",
    "target",
    "",
    "worst regret",
)


def _prediction_rows(answer: EngineEvidenceModel, of: WorkloadEvidenceModel) -> tuple[tuple[str, ...], ...]:
    rows = []
    for item, on in _pairs(answer, of):
        found, regret = on.prediction, _regret(item)
        if found is None:
            rows.append((item.name, _number(on.predicted_step_ms, 3), *([UNKNOWN] * 5), regret))
            continue
        rows.append(
            (
                item.name,
                _number(found.step_ms, 3),
                _interval(on.figures.get("mean_step_ms"), 3),
                f"{found.error_share:+.1%}",
                UNKNOWN if found.band_share is None else f"{found.band_share:.1%}",
                f"within {found.tolerated_share:.1%}",
                "held" if found.held else "missed",
                regret,
            )
        )
    return tuple(rows)


def _step_rows(answer: EngineEvidenceModel) -> tuple[tuple[str, ...], ...]:
    by_list = [{(s.rows, s.context_tokens): s.step_ms for s in item.sizes} for item in answer.lists]
    cases = sorted({case for of in by_list for case in of})
    return tuple(
        (f"{rows} at {context}", *(_interval(of.get((rows, context)), 3) for of in by_list)) for rows, context in cases
    )


def _pairs(
    answer: EngineEvidenceModel, of: WorkloadEvidenceModel
) -> tuple[tuple[ListEvidenceModel, ListOnWorkloadModel], ...]:
    by_name = {on.name: on for on in of.lists}
    return tuple((item, by_name[item.name]) for item in answer.lists)


def _rate(on: ListOnWorkloadModel, name: str) -> str:
    """Of the served steps as the engine counted them; else of the replayed ones, by the dispatch rule."""
    counted = on.figures.get(f"{name}_rate")
    if counted is not None:
        half = _half(counted)
        return f"{counted.mean:.2%}" if half is None else f"{counted.mean:.2%} ± {half:.2%}"
    return UNKNOWN if name not in on.by_rule else f"{on.by_rule[name]:.2%} by rule"


def _interval(of: IntervalModel | None, digits: int, scale: float = 1.0) -> str:
    if of is None:
        return UNKNOWN
    half = _half(of)
    mean = f"{of.mean * scale:,.{digits}f}"
    return mean if half is None else f"{mean} ± {half * scale:,.{digits}f}"


def _half(of: IntervalModel) -> float | None:
    return None if of.low is None or of.high is None else (of.high - of.low) / 2


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def _regret(item: ListEvidenceModel) -> str:
    if item.worst_regret is None:
        return UNKNOWN
    at = "" if item.worst_regret_size is None else f" at {item.worst_regret_size}"
    return f"{item.worst_regret:.1%}{at}"
