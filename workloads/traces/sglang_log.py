"""SGLang logs: `Decode batch` and `Prefill batch` lines of every release from 0.1 to 0.5.23.

Lines are found by their payload, never by their prefix, and read as `key: value` pairs in any order. A decode line is
one snapshot every `--decode-log-interval` steps (40 by default); a prefill line is one prefill step. `#running-req` of
a prefill line is the count before admission and is not used.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from workloads.arrays import F64
from workloads.traces.log_lines import DAY_S, clock_s, number
from workloads.traces.log_reader import UNREADABLE, LogReader, StepRows, keep_busiest_engine
from workloads.traces.records import EngineObservation
from workloads.traces.sglang_observer import SglangObserver

DECODE = r"Decode batch(?:\s*\[(\d+)\])?[.,]\s*#running-req:\s*(\d{1,9})\b"
PREFILL = (
    r"Prefill? batch(?:\s*\[\d+\])?(?:\s*\([^)]*\))?(?:\s*\[\d+\])?[.,]\s*#new-seq:\s*\d+,\s*#new-token:\s*(\d{1,12})\b"
)
DEFAULT_INTERVAL_STEPS = 40
_FALLBACK = {"True": 0, "False": 1}
STEADY = 0.1
"""A throughput averaged over the interval tells the step time of one batch size only if the size hardly moved."""


class SglangLog(LogReader):
    name = "sglang-log"
    description = "SGLang log with Decode batch lines"
    markers = (b"Decode batch", b"Prefill batch", b"Prefil batch")
    certainty = 40
    families = ("decode_full", "prefill_breakable")
    units = ("requests", "tokens")

    def observer(self) -> SglangObserver:
        return SglangObserver()

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        text = pl.col("text")
        decode = text.str.extract_groups(DECODE)
        return (
            lines.with_columns(
                running=decode.struct.field("2").cast(pl.Int64, strict=False),
                iteration=decode.struct.field("1").cast(pl.Int64, strict=False),
                new_tokens=number(PREFILL, pl.Int64()),
                accept=number(r"accept len:\s*([\d.]+)", pl.Float64()),
                throughput=number(r"gen throughput \(token/s\):\s*([\d.]+)", pl.Float64()),
                kv=number(r"#(?:full )?token:\s*(\d+)", pl.Float64()),
                graph=text.str.extract(r"(?:cuda|cpu|npu|musa) graph:\s*(True|False)"),
                tp=number(r"\bTP(\d{1,4})\b", pl.Int64()).fill_null(number(r"\[gpu_id=(\d{1,4})\]", pl.Int64())),
                pp=number(r"\bPP(\d{1,4})\b", pl.Int64()),
                dp=text.str.extract(r"(\bDP\d{1,4})\b"),
                actor=text.str.extract(r"(\(\w+ pid=\d+(?:, ip=[\d.]+)?\))"),
                time_s=pl.coalesce(clock_s(date=r"(\d{4}-\d\d-\d\d)"), clock_s(date=None)),
            )
            .with_columns(is_decode=pl.col("running").is_not_null(), size=pl.coalesce("running", "new_tokens"))
            .select(
                "line",
                pl.when("is_decode").then(0).otherwise(1).cast(pl.Int8).alias("family"),
                "size",
                pl.lit(1, dtype=pl.Int64).alias("steps"),
                "time_s",
                pl.lit(None, dtype=pl.Float64).alias("step_ms"),
                pl.when("is_decode").then("kv").alias("kv_tokens"),
                pl.lit(0, dtype=pl.Int64).alias("padded_size"),
                pl.col("graph").replace_strict(_FALLBACK, default=-1, return_dtype=pl.Int8).alias("fallback"),
                pl.concat_str(["actor", "dp"], separator=" ", ignore_nulls=True).alias("engine"),
                pl.when(pl.col("size").is_null()).then(pl.lit(UNREADABLE)).when(pl.col("size") == 0)
                .then(pl.lit("empty batch")).alias("reason"),
                "iteration",
                "accept",
                "throughput",
                pl.coalesce("tp", 0).alias("tp"),
                pl.coalesce("pp", 0).alias("pp"),
            )
        )  # fmt: skip

    def finish(self, rows: pl.DataFrame, observation: EngineObservation) -> StepRows:
        rows = _keep_first_rank(rows)
        rows, notes = _one_engine(rows, observation)
        rows = rows.with_columns(pl.Series("step_ms", _step_ms(rows)))
        every = _interval_steps(rows, observation)
        kept = rows.filter(pl.col("reason").is_null())
        decodes = kept.filter(pl.col("family") == 0).height
        if decodes and decodes < kept.height and every != 1:
            notes += (f"decode lines are one step in {every}, prefill lines are every prefill step",)
        if decodes and every != 1 and decodes < 100:
            notes += (f"{decodes} sampled decode lines say little about rare sizes",)
        wraps_s = DAY_S if _clock_has_no_date(rows) else None
        if every == 1 or decodes == 0:
            return StepRows(rows, "census", None, wraps_s, notes)
        return StepRows(rows, "sample", every, wraps_s, notes)


def _keep_first_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Tensor- and pipeline-parallel ranks print the same step; the lowest rank of each engine stays."""
    rank = pl.col("pp") * 10_000 + pl.col("tp")
    lowest = rank.filter(pl.col("size").is_not_null()).min().over("engine")
    repeated = pl.col("reason").is_null() & (rank > lowest)
    return rows.with_columns(pl.when(repeated).then(pl.lit("other TP rank")).otherwise("reason").alias("reason"))


def _one_engine(rows: pl.DataFrame, observation: EngineObservation) -> tuple[pl.DataFrame, tuple[str, ...]]:
    live = pl.col("reason").is_null()
    decodes = rows.filter(live & (pl.col("family") == 0))
    lockstep = observation.options.get("enable_dp_attention") == "True" and decodes["engine"].n_unique() > 1
    if not lockstep or decodes.is_empty() or decodes["iteration"].null_count():
        return keep_busiest_engine(rows, "engines or data-parallel ranks")
    # Under DP attention the graph is picked from the largest rank's batch.
    largest = pl.col("size").rank("ordinal", descending=True).over("family", "iteration") == 1
    decode = live & (pl.col("family") == 0)
    reason = pl.when(decode & ~largest).then(pl.lit("smaller DP rank of the same step")).otherwise("reason")
    rows = rows.with_columns(reason.alias("reason"))
    return rows, ("under DP attention the largest rank of each step was kept: it picks the graph",)


def _step_ms(rows: pl.DataFrame) -> F64:
    """running x accept len / throughput, for decode lines that follow a decode line of nearly the same batch.

    The engine averages its throughput since the line before; a prefill or an unreadable line in between spoils it.
    """
    shown = rows.with_row_index("at").filter(
        pl.col("reason").is_null() | (pl.col("reason") == UNREADABLE) | (pl.col("reason") == "empty batch")
    )
    decode = (pl.col("family") == 0) & pl.col("reason").is_null()
    before = pl.col("size").shift(1)
    steady = decode & decode.shift(1) & ((before - pl.col("size")).abs() <= STEADY * pl.max_horizontal("size", before))
    time = 1000 * pl.col("size") * pl.col("accept").fill_null(1.0) / pl.col("throughput")
    usable = steady & (pl.col("throughput") > 0) & (pl.col("accept").fill_null(1.0) >= 1)
    told = shown.select("at", pl.when(usable).then(time).alias("ms")).drop_nulls()
    result = np.full(rows.height, np.nan)
    result[told["at"].to_numpy()] = told["ms"].to_numpy()
    return result


def _interval_steps(rows: pl.DataFrame, observation: EngineObservation) -> int:
    """Decode steps per decode line: from forward numbers, else the server's arguments, else the default."""
    numbers = rows.filter(pl.col("reason").is_null() & (pl.col("family") == 0))["iteration"].drop_nulls()
    gaps = numbers.diff().drop_nulls()
    gaps = gaps.filter(gaps > 0)
    if len(gaps):
        # Prefill steps count too, so a gap is at least the interval; the commonest one has none in between.
        return int(gaps.mode().min())  # type: ignore[arg-type]
    told = observation.options.get("decode_log_interval", "")
    return int(told) if told.isdecimal() and 0 < int(told) < 10**9 else DEFAULT_INTERVAL_STEPS


def _clock_has_no_date(rows: pl.DataFrame) -> bool:
    largest = rows["time_s"].max()
    return isinstance(largest, float) and largest <= DAY_S
