"""Results of serving benchmarks: vLLM bench serve --save-detailed, SGLang bench_serving --output-details, GuideLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.json_document import objects
from workloads.traces.json_frames import LINE
from workloads.traces.json_table import JsonTable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.requests import Failure, RequestColumns, read_requests
from workloads.traces.shaped_table import ShapedTable
from workloads.traces.source import Source

_NUMBERS = pl.List(pl.Float64())
OTHER_RUN = "request of another run in this file"


class _ServingBench(Reader):
    """One object a run; its per-request values are lists of one length."""

    sure_keys: ClassVar[tuple[str, ...]]
    score_without: ClassVar[int] = 0

    def recognise(self, probe: Probe) -> int:
        if not _mentions(probe, "input_lens") or not _mentions(probe, "output_lens"):
            return 0
        return 90 if any(_mentions(probe, key) for key in self.sure_keys) else self.score_without

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not _mentions(probe, "input_lens") and not _mentions(probe, "output_lens"):
            raise source.bad("not a detailed benchmark result: it has no input_lens and output_lens")
        runs = objects(source, _BENCH)
        frame = _requests(source, runs)
        best = _longest(frame)
        timed = frame.filter(pl.col("run") == best)["start"].null_count() == 0
        if not timed and (mapping is None or mapping.arrivals is None):
            rate = runs["request_rate"][best] or "unknown"
            raise source.bad(
                f"the result has no start times (its release did not save them); it was sent at request rate {rate}: "
                "give an arrival process such as poisson:8",
                field="start_times",
            )
        failures = (
            Failure("run", pl.col("status") != best, OTHER_RUN),
            Failure("error", pl.col("status").fill_null("") != ""),
        )
        columns = RequestColumns("start" if timed else None, "input", "output", "s", failures)
        notes = ("a benchmark's requests: made by its generator, not by users",)
        table = _table(frame)
        return read_requests(source, table, columns, name=self.name, notes=notes, mapping=mapping)


class VllmBench(_ServingBench):
    name = "vllm-bench"
    description = "vLLM bench serve --save-detailed, JSON"
    told_by = "the keys `input_lens` and `output_lens`, with vLLM's `tokenizer_id` or `burstiness`"
    sure_keys = ("tokenizer_id", "burstiness", "endpoint_type")
    score_without = 60


class SglangBench(_ServingBench):
    name = "sglang-bench"
    description = "SGLang bench_serving --output-details, JSON with a line a run"
    told_by = "the keys `input_lens` and `output_lens`, with SGLang's `total_output_tokens_retokenized`"
    sure_keys = ("total_output_tokens_retokenized",)


class GuideLlm(Reader):
    name = "guidellm"
    description = "GuideLLM benchmark report, JSON"
    told_by = "the key `benchmarks` whose items hold `requests` by outcome"

    def recognise(self, probe: Probe) -> int:
        if not _mentions(probe, "benchmarks"):
            return 0
        known = probe.document is None or any(map(probe.document.mentions, ("successful", "generative_benchmark")))
        return 90 if known or b"guidellm" in probe.source.peek else 55

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        if not _mentions(probe, "benchmarks"):
            raise source.bad("not a GuideLLM report: it has no benchmarks")
        runs = objects(
            source, {"benchmarks": pl.List(pl.Struct({"requests": pl.Struct(dict.fromkeys(_OUTCOMES, _GUIDE))}))}
        )
        runs = runs.explode("benchmarks", empty_as_null=False).with_row_index("run").unnest("benchmarks")
        if not runs.height or runs["requests"].null_count() == runs.height:
            raise source.bad("the report keeps no single requests; run GuideLLM with its full JSON output")
        frame = pl.concat(_outcome(runs, outcome) for outcome in _OUTCOMES)
        best = _longest(frame.filter(pl.col("outcome") == "successful"))
        failures = (
            Failure("run", pl.col("status") != best, OTHER_RUN),
            Failure("outcome", pl.col("status") != "successful"),
            Failure("start", pl.col("status").is_null(), "no time of arrival"),
        )
        columns = RequestColumns("start", "input", "output", "s", failures)
        notes = ["a benchmark's requests: made by its generator, not by users"]
        if runs.height > 1:
            notes.append(f"run {best + 1} of {runs.height}, which has most requests, was taken")
        return read_requests(source, _table(frame), columns, name=self.name, notes=notes, mapping=mapping)


_BENCH = {
    "input_lens": _NUMBERS,
    "output_lens": _NUMBERS,
    "start_times": _NUMBERS,
    "errors": pl.List(pl.String()),
    "request_rate": pl.String(),
}
_OUTCOMES = ("successful", "errored", "incomplete")
_GUIDE = pl.List(
    pl.Struct(dict.fromkeys(("prompt_tokens", "output_tokens", "request_start_time", "start_time"), pl.Float64()))
)
_REPORT = {"benchmarks": pl.List(pl.Struct({"requests": pl.Struct(dict.fromkeys(_OUTCOMES, _GUIDE))}))}


def _mentions(probe: Probe, key: str) -> bool:
    if probe.document is not None:
        return probe.document.mentions(key)
    return not probe.source.is_tar and isinstance(probe.table, JsonTable) and probe.table.has(key)


def _requests(source: Source, runs: pl.DataFrame) -> pl.DataFrame:
    """A row a request: run, line, input, output, start, error."""
    lengths = runs.select(pl.col("input_lens", "output_lens", "start_times", "errors").list.len().fill_null(0))
    for run, (inputs, outputs, _, _) in enumerate(lengths.iter_rows()):
        if inputs != outputs or inputs == 0:
            raise source.bad(
                f"has {inputs} input and {outputs} output lengths", line=int(runs[LINE][run]), field="output_lens"
            )
    size = pl.col("input_lens").list.len()

    def whole(name: str) -> pl.Expr:
        """The list, or as many nulls where it has not one item a request."""
        missing = pl.lit(None).repeat_by(size).cast(runs.schema[name])
        return pl.when(pl.col(name).list.len() == size).then(pl.col(name)).otherwise(missing)

    return (
        runs.with_row_index("run")
        .select(
            LINE, "run", input="input_lens", output="output_lens", start=whole("start_times"), error=whole("errors")
        )
        .explode("input", "output", "start", "error")
    )


def _outcome(runs: pl.DataFrame, outcome: str) -> pl.DataFrame:
    request = pl.col("request").struct
    return (
        runs.select(LINE, "run", request=pl.col("requests").struct.field(outcome))
        .explode("request", empty_as_null=False)
        .filter(pl.col("request").is_not_null())
        .select(
            LINE,
            "run",
            input=request.field("prompt_tokens"),
            output=request.field("output_tokens"),
            start=pl.coalesce(request.field("request_start_time"), request.field("start_time")),
            outcome=pl.lit(outcome),
        )
    )


def _longest(frame: pl.DataFrame) -> int:
    """The run with most requests; 0 where there is none."""
    if not frame.height:
        return 0
    return int(frame["run"].value_counts().sort(["count", "run"], descending=[True, False])["run"][0])


def _table(frame: pl.DataFrame) -> ShapedTable:
    def frames() -> Iterator[pl.DataFrame]:
        yield frame

    return ShapedTable(frames, tuple(frame.columns))
