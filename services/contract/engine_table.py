"""Lists compared inside an engine as a table of text, which the terminal, the folder and `captune report` share."""

from __future__ import annotations

from collections.abc import Mapping

from services.contract.engine_evidence import EngineEvidenceModel, IntervalModel, ListEvidenceModel

UNKNOWN = "unknown"

_FIGURES: Mapping[str, tuple[str, int]] = {
    "startup_s": ("start-up s", 1),
    "capture_s": ("capture s", 1),
    "graph_memory_mib": ("graph memory MiB", 0),
    "kv_tokens": ("KV tokens", 0),
    "mean_step_ms": ("mean replayed step ms", 3),
    "ttft_ms": ("TTFT ms", 1),
    "ttft_p99_ms": ("TTFT p99 ms", 1),
    "tpot_ms": ("TPOT ms", 3),
    "tpot_p99_ms": ("TPOT p99 ms", 3),
    "throughput_tokens_per_s": ("throughput tokens/s", 0),
    "failed_rate": ("served: failed requests", 4),
    "exact_rate": ("served: exact hits", 4),
    "padded_rate": ("served: padded hits", 4),
    "fallback_rate": ("served: fallback", 4),
    "padding_waste": ("served: padding", 4),
}


def engine_table(answer: EngineEvidenceModel) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(names of the columns, rows): one column a list, means over starts with their 95 % intervals."""
    lists = answer.lists
    rows: list[list[str]] = [
        ["starts", *(str(item.starts) for item in lists)],
        ["sizes captured", *(str(item.list_length) for item in lists)],
        ["graphs by our rules", *(str(item.graphs) for item in lists)],
        ["predicted step ms", *(_number(item.predicted_step_ms, 3) for item in lists)],
        ["predicted against measured", *(_percent(_off(item)) for item in lists)],
        ["worst regret by the profile", *(_percent(item.worst_regret) for item in lists)],
        ["replayed: exact hits", *(_percent(item.by_rule.get("exact")) for item in lists)],
        ["replayed: fallback", *(_percent(item.by_rule.get("fallback")) for item in lists)],
    ]
    for name, (what, digits) in _FIGURES.items():
        if any(name in item.figures for item in lists):
            rows.append([what, *(_interval(item.figures.get(name), digits) for item in lists)])
    cases = sorted({(size.rows, size.context_tokens) for item in lists for size in item.sizes})
    for case in cases:
        by_list = [{(s.rows, s.context_tokens): s.step_ms for s in item.sizes} for item in lists]
        rows.append([f"step ms of {case[0]} at {case[1]}", *(_interval(of.get(case), 3) for of in by_list)])
    return ("", *(item.name for item in lists)), tuple(tuple(row) for row in rows)


def _interval(of: IntervalModel | None, digits: int) -> str:
    if of is None:
        return UNKNOWN
    if of.low is None or of.high is None:
        return f"{of.mean:,.{digits}f}"
    return f"{of.mean:,.{digits}f} ({of.low:,.{digits}f} to {of.high:,.{digits}f})"


def _off(item: ListEvidenceModel) -> float | None:
    """predicted / measured - 1 of the mean replayed step."""
    measured = item.figures.get("mean_step_ms")
    if item.predicted_step_ms is None or measured is None:
        return None
    return item.predicted_step_ms / measured.mean - 1


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}"
