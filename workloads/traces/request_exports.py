"""What engines and load generators write per request: SGLang metrics files and request logs, AIPerf records."""

from __future__ import annotations

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import Failure, RequestColumns, read_requests


class SglangRequestMetrics(Reader):
    """`--export-metrics-to-file`, SGLang 0.5.5 and later: one object per finished request, in order of completion."""

    name = "sglang-request-metrics"
    description = "SGLang --export-metrics-to-file, JSON lines with one finished request each"
    told_by = "the keys `request_parameters`, `prompt_tokens` and `completion_tokens`"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        known = isinstance(table, JsonTable) and table.has("request_parameters") and _meta(table) is not None
        return 90 if known else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        prefix = _meta(table) if isinstance(table, JsonTable) else None
        if not isinstance(table, JsonTable) or prefix is None:
            raise probe.source.bad("not an SGLang metrics file: rows have prompt_tokens and completion_tokens")
        arrival = f"{prefix}request_received_ts"
        timed = table.has(arrival)
        if not timed and (mapping is None or mapping.arrivals is None):
            raise probe.source.bad(
                "has no 'request_received_ts': start SGLang with --enable-metrics too, or give an arrival process",
                field="request_received_ts",
            )
        untimed = (Failure(arrival, pl.col("status").is_null(), "no time of arrival"),) if timed else ()
        columns = RequestColumns(
            arrival if timed else None, f"{prefix}prompt_tokens", f"{prefix}completion_tokens", "s", untimed
        )
        return read_requests(probe.source, table, columns, name=self.name, mapping=mapping)


class SglangRequestLog(Reader):
    """`--log-requests --log-requests-format json`: events of a request as JSON lines; finished ones hold the counts."""

    name = "sglang-request-log"
    description = "SGLang JSON request log (--log-requests-format json)"
    told_by = "the keys `event` and `rid`, with `request.finished` events"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        if not isinstance(table, JsonTable) or not table.has("event", "rid"):
            return 0
        return 90 if any(str(value).startswith("request.") for value in table.values("event")) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table, source = probe.table, probe.source
        if not isinstance(table, JsonTable) or not table.has("event", "rid"):
            raise source.bad("not an SGLang request log: rows have event and rid")
        inputs, outputs = f"{_OUT}prompt_tokens", f"{_OUT}completion_tokens"
        if not table.has(inputs, outputs):
            raise source.bad("no finished request among the first rows; the log needs request.finished events")
        received = f"{_OUT}request_received_ts"
        exact = table.has(received)
        other = Failure("event", pl.col("status") != "request.finished", "event of a request that is not its end")
        uncounted = Failure(inputs, pl.col("status").is_null(), "no token counts")
        arrival = received if exact else "timestamp"
        note = (
            "arrival is the engine's own time of receipt"
            if exact
            else "the log has no time of receipt (start SGLang with --enable-metrics): requests stand at the time they "
            "finished, which keeps their rate and loses their bursts"
        )
        columns = RequestColumns(arrival, inputs, outputs, "s" if exact else "iso", (other, uncounted))
        return read_requests(source, table, columns, name=self.name, notes=(note,), mapping=mapping)


class AiPerf(Reader):
    """`profile_export.jsonl`: one record per request, with metadata, metrics and an error where it failed."""

    name = "aiperf"
    description = "AIPerf per-request records (profile_export.jsonl)"
    told_by = "the keys `metadata` and `metrics` with `input_sequence_length`"

    def recognise(self, probe: Probe) -> int:
        return 90 if isinstance(probe.table, JsonTable) and _aiperf_time(probe.table) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        arrival = _aiperf_time(table) if isinstance(table, JsonTable) else None
        if not isinstance(table, JsonTable) or arrival is None:
            raise probe.source.bad("not AIPerf records: rows have metadata with a start time, and metrics")
        failures: list[Failure] = []
        for phase in ("metadata.benchmark_phase", "metadata.credit_phase"):
            if table.has(phase):
                failures.append(Failure(phase, pl.col("status") == "warmup", "warm-up request"))
        if table.has("error"):
            failures.append(Failure("error", pl.col("status").is_not_null()))
        if table.has("metadata.was_cancelled"):
            failures.append(Failure("metadata.was_cancelled", pl.col("status").cast(pl.String) == "true", "cancelled"))
        failures.append(Failure(_ISL, pl.col("status").is_null(), "no token counts"))
        outputs = _OSL if table.has(_OSL) else _OTC
        notes = () if outputs == _OSL else ("reasoning tokens are not in 'output_token_count': requests were longer",)
        columns = RequestColumns(arrival, _ISL, outputs, "ns", tuple(failures))
        return read_requests(probe.source, table, columns, name=self.name, notes=notes, mapping=mapping)


_OUT = "out.meta_info."
_ISL = "metrics.input_sequence_length.value"
_OSL = "metrics.output_sequence_length.value"
_OTC = "metrics.output_token_count.value"


def _meta(table: JsonTable) -> str | None:
    """Where the counts stand: beside `request_parameters`, or below `meta_info`."""
    prefixes = ("", "meta_info.")
    return next((p for p in prefixes if table.has(f"{p}prompt_tokens", f"{p}completion_tokens")), None)


def _aiperf_time(table: JsonTable) -> str | None:
    if not table.has(_ISL) or not (table.has(_OSL) or table.has(_OTC)):
        return None
    return next((n for n in ("metadata.request_start_ns", "metadata.timestamp_ns") if table.has(n)), None)
