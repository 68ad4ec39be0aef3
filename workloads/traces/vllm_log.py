"""vLLM logs, four ways of writing about steps; a log that has several is read by the one that says most.

Iteration lines give size and time of every step; `--cudagraph-metrics` tables give the bucket and graph mode of every
step; `VLLM_LOG_BATCHSIZE_INTERVAL` lines give the median forward time of every padded size; the periodic statistics
line gives one count of running requests every ten seconds. Sizes are tokens, but for that last one.
"""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from workloads.histogram import Unit
from workloads.traces.log_lines import YEAR_S, clock_s, number
from workloads.traces.log_reader import UNREADABLE, Evidence, LogReader, interval_s
from workloads.traces.records import EngineObservation
from workloads.traces.step_rows import Tally, busiest_engine
from workloads.traces.vllm_observer import VllmObserver

# The logger prints month and day only; a container's own time stamp in front may carry a year.
_CLOCK = r"\b(\d\d-\d\d)"
# Names without process ids: a restarted engine is still the same engine.
_ENGINE = r"(Engine \d{1,4}|\bEngineCore\w*)"
_WRITER = r"\((\w+) pid=\d+\)"


class _VllmLog(LogReader):
    families = ("decode_full", "decode_piecewise")
    units: ClassVar[tuple[Unit, ...]] = ("tokens", "tokens")

    def observer(self) -> VllmObserver:
        return VllmObserver()


def _rows(lines: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    """Rows in the order of STEP_ROW; what a format does not say gets its neutral value."""
    neutral = {
        "family": pl.lit(0, dtype=pl.Int8),
        "steps": pl.lit(1, dtype=pl.Int64),
        "time_s": clock_s(date=_CLOCK),
        "step_ms": pl.lit(None, dtype=pl.Float64),
        "kv_tokens": pl.lit(None, dtype=pl.Float64),
        "padded_size": pl.lit(0, dtype=pl.Int64),
        "fallback": pl.lit(-1, dtype=pl.Int8),
    }
    order = ("family", "size", "steps", "time_s", "step_ms", "kv_tokens", "padded_size", "fallback", "engine", "reason")
    expressions = neutral | columns
    return lines.select("line", *(expressions[name].alias(name) for name in order))


def _kv_tokens(rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
    """KV usage in percent -> tokens, where the log gave the size of the cache."""
    size = observation.kv_tokens
    scaled = pl.lit(None, dtype=pl.Float64) if size is None else pl.col("kv_tokens") * (size / 100)
    return rows.with_columns(scaled.alias("kv_tokens"))


_KV_PERCENT = number(r"KV cache usage:\s*([\d.]+)%", pl.Float64())


class VllmIterations(_VllmLog):
    name = "vllm-iterations"
    description = "vLLM log with --enable-logging-iteration-details"
    told_by = "`Iteration(n): .. context requests` lines"
    markers = (b"context requests,",)
    certainty = 48

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        payload = pl.col("text").str.extract_groups(
            r"Iteration\(\d+\): (\d{1,9}) context requests, (\d{1,9}) context tokens, (\d{1,9}) generation requests, "
            r"(\d{1,9}) generation tokens, iteration elapsed time: ([\d.]+) ms"
        )
        field = payload.struct.field
        context, generation = field("2").cast(pl.Int64), field("4").cast(pl.Int64)
        size = context + generation
        reason = (
            pl.when(pl.col("text").str.contains("(dummy)", literal=True)).then(pl.lit("dummy"))
            .when(size.is_null()).then(pl.lit(UNREADABLE))
            .when(size == 0).then(pl.lit("empty step"))
        )  # fmt: skip
        return _rows(
            lines,
            family=pl.when(context > 0).then(1).otherwise(0).cast(pl.Int8),
            size=size,
            step_ms=field("5").cast(pl.Float64, strict=False),
            kv_tokens=_KV_PERCENT,
            engine=pl.col("text").str.extract(_ENGINE),
            reason=reason,
        )

    def settle(self, rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
        return _kv_tokens(rows, observation)

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        return Evidence("census", wraps_s=YEAR_S)


class VllmGraphTable(_VllmLog):
    name = "vllm-cudagraph-metrics"
    writers = "processes"
    description = "vLLM log with --cudagraph-metrics tables"
    told_by = "table rows that end in a graph mode and a count"
    markers = (b"| FULL", b"| PIECEWISE", b"| NONE")
    certainty = 46

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        cells = pl.col("text").str.extract_groups(
            r"\|\s*(\d{1,9})\s*\|\s*(\d{1,9})\s*\|\s*\d{1,9}\s*\|\s*(FULL|PIECEWISE|NONE)\s*\|\s*(\d{1,12})\s*\|"
        )
        field = cells.struct.field
        size, steps, mode = field("1").cast(pl.Int64), field("4").cast(pl.Int64), field("3")
        reason = (
            pl.when(size.is_null()).then(pl.lit(UNREADABLE))
            .when((size == 0) | (steps == 0)).then(pl.lit("empty step"))
        )  # fmt: skip
        return _rows(
            lines,
            family=pl.when(mode == "FULL").then(0).otherwise(1).cast(pl.Int8),
            size=size,
            steps=steps,
            padded_size=pl.when(mode == "NONE").then(0).otherwise(field("2").cast(pl.Int64)),
            fallback=pl.when(mode == "NONE").then(1).otherwise(0).cast(pl.Int8),
            engine=pl.col("text").str.extract(_WRITER),
            reason=reason,
        )

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        return Evidence("census", wraps_s=YEAR_S)


class VllmBatchSizes(_VllmLog):
    """`Batchsize forward time stats (batchsize, count, median_time(ms)): [(16, 512, 9.81), ...]`, cumulative since the
    process started: its last line says all. vLLM counts the tokens after padding and synchronises after every step."""

    name = "vllm-batchsize-times"
    description = "vLLM log with VLLM_LOG_BATCHSIZE_INTERVAL set"
    told_by = "`Batchsize forward time stats` lines"
    markers = (b"Batchsize forward time stats",)
    certainty = 43
    writers = "processes"

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        whole = pl.col("text").str.contains(r"median_time\(ms\)\):?\s*\[.*\]")
        triples = lines.with_columns(
            pl.when(whole).then(pl.col("text").str.extract_all(r"\(\d{1,9}, \d{1,12}, [\d.]+\)")).alias("triple")
        ).explode("triple")
        cells = pl.col("triple").str.extract_groups(r"\((\d+), (\d+), ([\d.]+)\)").struct
        size, steps = cells.field("1").cast(pl.Int64), cells.field("2").cast(pl.Int64)
        reason = (
            pl.when(size.is_null()).then(pl.lit(UNREADABLE)).when((size == 0) | (steps == 0)).then(pl.lit("empty step"))
        )
        return _rows(
            triples,
            size=size,
            steps=steps,
            step_ms=cells.field("3").cast(pl.Float64, strict=False),
            engine=pl.col("text").str.extract(_WRITER),
            reason=reason,
        )

    def one_engine(self, rows: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, tuple[str, ...]]:
        rows, notes = busiest_engine(rows, tally, self.writers)
        totals = rows.group_by("line", maintain_order=True).agg(pl.col("steps").sum())
        # Counts that fall are a process that started again: the last line before it still counts.
        last = totals.filter((pl.col("steps").shift(-1) < pl.col("steps")).fill_null(True))["line"]
        old = rows.filter(~pl.col("line").is_in(last.implode()))
        if old.height:
            tally.drop("superseded by a later line", old.height, int(old["line"].min()))  # type: ignore[arg-type]
        return rows.filter(pl.col("line").is_in(last.implode())), notes

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        note = (
            "sizes are tokens after padding, decode and mixed steps together, and every step was synchronised: good "
            "for step times, not for judging padding"
        )
        return Evidence("reconstruction", wraps_s=YEAR_S, notes=(note,))


class VllmStats(_VllmLog):
    units = ("requests", "tokens")
    name = "vllm-stats"
    description = "vLLM log with periodic statistics lines"
    told_by = "`tokens/s, Running: n reqs` lines"
    markers = (b" tokens/s, Running:",)
    certainty = 44

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        size = number(r"Running:\s*(\d{1,9})\s*reqs", pl.Int64())
        reason = (
            pl.when(pl.col("text").str.contains("Engines Aggregated", literal=True)).then(pl.lit("sum over engines"))
            .when(size.is_null()).then(pl.lit(UNREADABLE))
            .when(size == 0).then(pl.lit("idle"))
        )  # fmt: skip
        rows = _rows(lines, size=size, kv_tokens=_KV_PERCENT, engine=pl.col("text").str.extract(_ENGINE), reason=reason)
        return rows.with_columns(
            lines.select(
                prompt=number(r"Avg prompt throughput:\s*([\d.]+)", pl.Float64()),
                generation=number(r"Avg generation throughput:\s*([\d.]+)", pl.Float64()),
            )
        )

    def settle(self, rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
        rows = _kv_tokens(rows, observation)
        if "num_speculative_tokens" in observation.options:
            return rows.drop("prompt", "generation")  # tokens of a step are not its requests
        return rows.with_columns(_steady_ms().alias("step_ms")).drop("prompt", "generation")

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        note = (
            "the periodic line is a snapshot every few seconds and counts requests, prefilling ones included: "
            "a sketch of the load, with no word on rare sizes"
        )
        return Evidence("sample", sample_every_s=interval_s(rows), wraps_s=YEAR_S, notes=(note,))


def _steady_ms() -> pl.Expr:
    """running / generation throughput, for lines with no prompt in their interval and the count of the line before:
    only then was the batch one and the same all the time that the throughput is averaged over."""
    running = pl.col("size")
    before = running.shift(1).over("engine")
    steady = (before == running) & (pl.col("prompt") == 0) & (pl.col("generation") > 0) & pl.col("reason").is_null()
    return pl.when(steady).then(1000 * running / pl.col("generation"))
