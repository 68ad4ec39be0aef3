"""Public request traces with a shape of their own: BurstGPT, swissai, AIBrix, TraceLab, LLMServingSim sessions."""

from __future__ import annotations

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.csv_table import CsvTable
from workloads.traces.json_frames import LINE, ndjson_frames
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import Failure, RequestColumns, read_requests
from workloads.traces.shaped_table import ShapedTable

_NUMBER = pl.Float64()
_TEXT = pl.String()


class BurstGpt(Reader):
    """CC-BY-4.0. Newer files insert `Session ID,Elapsed time` after the timestamp, so columns are read by name."""

    name = "burstgpt"
    description = "BurstGPT trace, CSV in seconds, both column layouts"
    told_by = "the columns `Request tokens`, `Response tokens` and `Log Type` in its header"

    def recognise(self, probe: Probe) -> int:
        return 90 if isinstance(probe.table, CsvTable) and probe.table.has(*_BURST, "Log Type") else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if table is None or not table.has(*_BURST):
            raise probe.source.bad(f"not a BurstGPT trace: its header has {', '.join(_BURST)}")
        failed = pl.col("status").cast(pl.String).str.strip_chars().is_in(["0", "0.0"])
        columns = RequestColumns(*_BURST, "s", failures=(Failure("Response tokens", failed, _BURST_FAILED),))
        notes = ["times are seconds from a midnight in a local zone that the trace does not name"]
        if not table.has("Log Type"):
            notes.append("there is no 'Log Type' column: this is not a file as its authors published it")
        return read_requests(probe.source, table, columns, name=self.name, notes=notes, mapping=mapping)


class Swissai(Reader):
    """Token counts are -1 on failed rows, and on many rows whose counts were not reported."""

    name = "swissai"
    description = "swissai serving trace, JSON lines with created and finished times and a status"
    told_by = "the keys `created_at`, `finished_at`, `status` and reported token counts"

    def recognise(self, probe: Probe) -> int:
        table = probe.table
        known = isinstance(table, JsonTable) and table.has("created_at", "finished_at", "status")
        return 90 if known and _tokens_of(probe) is not None else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table, tokens = probe.table, _tokens_of(probe)
        if table is None or tokens is None or not table.has("created_at", "status"):
            raise probe.source.bad("not a swissai trace: rows have created_at, status and reported token counts")
        failures = (
            Failure("status", pl.col("status").cast(pl.String).str.to_uppercase().is_in(["ERROR", "FAILED"])),
            *(Failure(name, pl.col("status").cast(pl.Float64, strict=False) < 0, _UNREPORTED) for name in tokens),
        )
        columns = RequestColumns("created_at", *tokens, "iso", failures)
        return read_requests(probe.source, table, columns, name=self.name, mapping=mapping)


class AiBrix(Reader):
    """A row holds several requests that were sent together."""

    name = "aibrix"
    description = "AIBrix benchmark workload, JSON lines in milliseconds with several requests a row"
    told_by = "the keys `timestamp` and `requests`, whose items have `Prompt Length` and `Output Length`"

    def recognise(self, probe: Probe) -> int:
        return 90 if _aibrix_keys(probe) is not None else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, keys = probe.source, _aibrix_keys(probe)
        if keys is None:
            raise source.bad("not an AIBrix workload: rows have timestamp and requests with their lengths")
        item = pl.Struct({key: _NUMBER for key in keys})
        schema = {"timestamp": _NUMBER, "requests": pl.List(item)}
        fields = {key: pl.col("requests").struct.field(key) for key in keys}
        table = ShapedTable(
            lambda: (
                frame.explode("requests", empty_as_null=False).select(LINE, "timestamp", **fields)
                for frame in ndjson_frames(source, schema)
            ),
            ("timestamp", *keys),
        )
        note = "rows of the trace are requests, not lines: a line can hold several"
        columns = RequestColumns("timestamp", *keys, "ms")
        return read_requests(source, table, columns, name=self.name, notes=(note,), mapping=mapping)


class TraceLab(Reader):
    """CC-BY-4.0. Rounds of coding agents as their clients saw them; a round arrives at its first timing event."""

    name = "tracelab"
    description = "TraceLab coding-agent rounds, JSON lines with timing events"
    told_by = "the keys `input_tokens_total`, `newly_append_tokens` and `timing_events`"

    def recognise(self, probe: Probe) -> int:
        return 90 if isinstance(probe.table, JsonTable) and probe.table.has(*_TRACELAB, "newly_append_tokens") else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not isinstance(probe.table, JsonTable) or not probe.table.has(*_TRACELAB):
            raise source.bad(f"not a TraceLab trace: rows have {', '.join(_TRACELAB)}")
        schema = {
            "input_tokens_total": _NUMBER,
            "output_tokens": _NUMBER,
            "timing_events": pl.List(pl.Struct({"timestamp": _TEXT})),
        }
        arrival = pl.col("timing_events").list.first().struct.field("timestamp")
        table = ShapedTable(
            lambda: (
                frame.select(LINE, "input_tokens_total", "output_tokens", arrival=arrival)
                for frame in ndjson_frames(source, schema)
            ),
            ("arrival", "input_tokens_total", "output_tokens"),
        )
        untimed = Failure("arrival", pl.col("status").is_null(), "no timing event")
        columns = RequestColumns("arrival", "input_tokens_total", "output_tokens", "iso", (untimed,))
        notes = (
            "recorded at the clients: a round was sent when the one before it had ended, so at another speed of the "
            "engine it would have arrived at another time",
            "prompts are counted whole; the share that a prefix cache would serve is not kept",
        )
        return read_requests(source, table, columns, name=self.name, notes=notes, mapping=mapping)


class ServingSimSessions(Reader):
    """LLMServingSim agentic rows: `sub_requests` of one session follow each other, only the first has an arrival."""

    name = "llmservingsim-sessions"
    description = "LLMServingSim agentic trace, JSON lines with sub-requests"
    told_by = "the keys `arrival_time_ns` and `sub_requests`"

    def recognise(self, probe: Probe) -> int:
        return 90 if isinstance(probe.table, JsonTable) and probe.table.has("arrival_time_ns", "sub_requests") else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not isinstance(probe.table, JsonTable) or not probe.table.has("arrival_time_ns", "sub_requests"):
            raise source.bad("not an agentic LLMServingSim trace: rows have arrival_time_ns and sub_requests")
        lengths = {"input_toks": _NUMBER, "output_toks": _NUMBER}
        schema = {"arrival_time_ns": _NUMBER, **lengths, "sub_requests": pl.List(pl.Struct(lengths))}
        table = ShapedTable(
            lambda: (_sessions(frame) for frame in ndjson_frames(source, schema)),
            ("arrival_time_ns", "input_toks", "output_toks", "position"),
        )
        later = Failure("position", pl.col("status") > 0, "follow-up without an arrival of its own")
        columns = RequestColumns("arrival_time_ns", "input_toks", "output_toks", "ns", (later,))
        return read_requests(source, table, columns, name=self.name, mapping=mapping)


_BURST = ("Timestamp", "Request tokens", "Response tokens")
_BURST_FAILED = "failed request (no response tokens)"
_UNREPORTED = "token counts not reported"
_TRACELAB = ("input_tokens_total", "output_tokens", "timing_events")


def _tokens_of(probe: Probe) -> tuple[str, str] | None:
    pairs = (
        ("reported_token_input", "reported_token_output"),
        ("prompt_tokens", "output_tokens"),
        ("input_tokens", "output_tokens"),
    )
    return next((pair for pair in pairs if probe.table is not None and probe.table.has(*pair)), None)


def _aibrix_keys(probe: Probe) -> tuple[str, str] | None:
    table = probe.table
    if not isinstance(table, JsonTable) or not table.has("timestamp", "requests"):
        return None
    for value in table.values("requests"):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            pairs = (("Prompt Length", "Output Length"), ("prompt_length", "output_length"))
            return next((pair for pair in pairs if set(pair) <= set(value[0])), None)
    return None


def _sessions(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per request: plain rows as they are, sessions as their sub-requests with their position."""
    whole = pl.struct("input_toks", "output_toks")
    several = pl.col("sub_requests").list.len().fill_null(0) > 0
    requests = pl.when(several).then(pl.col("sub_requests")).otherwise(pl.concat_list(whole))
    return (
        frame.select(LINE, "arrival_time_ns", requests=requests)
        .with_columns(position=pl.int_ranges(pl.col("requests").list.len()))
        .explode("requests", "position")
        .unnest("requests")
    )
