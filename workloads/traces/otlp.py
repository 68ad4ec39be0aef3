"""OpenTelemetry spans of generative-AI calls, as OTLP JSON: one export request a line, or one document."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.json_document import objects
from workloads.traces.json_frames import LINE, ndjson_frames
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import Failure, RequestColumns, read_requests
from workloads.traces.shaped_table import ShapedTable

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
"""Names of the semantic conventions since 1.27, and those before, which vLLM still writes."""
_ATTRIBUTE = pl.Struct({"key": pl.String(), "value": pl.Struct({"intValue": pl.String(), "doubleValue": pl.Float64()})})
_SPAN = pl.Struct(
    {
        "startTimeUnixNano": pl.String(),
        "spanId": pl.String(),
        "parentSpanId": pl.String(),
        "status": pl.Struct({"code": pl.String()}),
        "attributes": pl.List(_ATTRIBUTE),
    }
)
_SCHEMA = {"resourceSpans": pl.List(pl.Struct({"scopeSpans": pl.List(pl.Struct({"spans": pl.List(_SPAN)}))}))}
_ERRORS = ("2", "STATUS_CODE_ERROR")


class OtlpGenAi(Reader):
    name = "otlp-genai"
    description = "OpenTelemetry GenAI spans, OTLP JSON"
    told_by = "the key `resourceSpans`"

    def recognise(self, probe: Probe) -> int:
        if probe.document is not None:
            return 90 if probe.document.mentions("resourceSpans") else 0
        return 90 if isinstance(probe.table, JsonTable) and probe.table.has("resourceSpans") else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not self.recognise(probe):
            raise source.bad("not OTLP JSON: there is no resourceSpans")

        def frames() -> Iterator[pl.DataFrame]:
            if probe.document is not None:
                yield _spans(objects(source, _SCHEMA))
            else:
                yield from map(_spans, ndjson_frames(source, _SCHEMA))

        table = ShapedTable(frames, ("start", "input", "output", "code", "around"))
        failures = (
            Failure("input", pl.col("status").is_null(), "span without token counts"),
            Failure("output", pl.col("status").is_null(), "span without token counts"),
            Failure("around", pl.col("status"), "span around another counted call"),
            Failure("code", pl.col("status").is_in(_ERRORS)),
            Failure("start", pl.col("status").is_null(), "no time of arrival"),
        )
        note = "rows are spans, counted on the line of their export request"
        columns = RequestColumns("start", "input", "output", "ns", failures)
        return read_requests(source, table, columns, name=self.name, notes=(note,), mapping=mapping)


def _spans(requests: pl.DataFrame) -> pl.DataFrame:
    """A row a span, with its token counts where it has them."""
    span = pl.col("span").struct
    spans = (
        requests.select(LINE, part=pl.col("resourceSpans"))
        .explode("part", empty_as_null=False)
        .select(LINE, part=pl.col("part").struct.field("scopeSpans"))
        .explode("part", empty_as_null=False)
        .select(LINE, span=pl.col("part").struct.field("spans"))
        .explode("span", empty_as_null=False)
        .filter(pl.col("span").is_not_null())
        .select(
            LINE,
            start=span.field("startTimeUnixNano").cast(pl.Int64, strict=False),
            code=span.field("status").struct.field("code"),
            id=span.field("spanId"),
            parent=span.field("parentSpanId"),
            input=_count(_INPUT),
            output=_count(_OUTPUT),
        )
    )
    counted = spans.filter(pl.col("input").is_not_null() & pl.col("output").is_not_null())
    parents = counted["parent"].drop_nulls().unique()
    return spans.with_columns(around=pl.col("id").is_in(parents.implode()))


def _count(keys: tuple[str, ...]) -> pl.Expr:
    """The first attribute of one of these names, as a number."""
    item = pl.element().struct
    value = item.field("value").struct
    number = pl.coalesce(value.field("intValue").cast(pl.Float64, strict=False), value.field("doubleValue"))
    return (
        pl.col("span").struct.field("attributes").list.eval(number.filter(item.field("key").is_in(keys))).list.first()
    )
