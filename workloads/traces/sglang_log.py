"""SGLang logs: `Decode batch` and `Prefill batch` lines of every release from 0.1 to 0.5.23.

Lines are found by their payload, never by their prefix, and read as `key: value` pairs in any order. A decode line is
one snapshot every `--decode-log-interval` steps (40 by default); a prefill line is one prefill step. `#running-req` of
a prefill line is the count before admission and is not used.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from workloads.arrays import I64
from workloads.traces import sglang_kernel as kernel
from workloads.traces.log_lines import DAY_S, log_clock_s, number
from workloads.traces.log_reader import UNREADABLE, Evidence, LogReader
from workloads.traces.records import EngineObservation
from workloads.traces.sglang_observer import SglangObserver
from workloads.traces.sglang_ranks import DP_GROUP, keep_first_rank, keep_largest_dp_rank

DECODE = r"Decode batch(?:\s*\[(\d+)\])?[.,]\s*#running-req:\s*(\d{1,9})\b"
PREFILL = (
    r"Prefill? batch(?:\s*\[(\d+)\])?(?:\s*\([^)]*\))?(?:\s*\[\d+\])?[.,]\s*#new-seq:\s*\d+,\s*"
    r"#new-token:\s*(\d{1,12})\b"
)
DEFAULT_INTERVAL_STEPS = 40
_FALLBACK = {"True": 0, "False": 1}
FEW_LINES = 100
STEADY = 0.1
"""A throughput averaged over the interval tells the step time of one batch size only if the size hardly moved."""


class SglangLog(LogReader):
    name = "sglang-log"
    description = "SGLang log with Decode batch lines"
    told_by = "`Decode batch` or `Prefill batch` lines, whatever stands before them"
    markers = (b"Decode batch", b"Prefill batch", b"Prefil batch")
    certainty = 40
    families = ("decode_full", "prefill_breakable")
    units = ("requests", "tokens")
    writers = "engines or data-parallel ranks"

    def observer(self) -> SglangObserver:
        return SglangObserver()

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        text = pl.col("text")
        decode, prefill = text.str.extract_groups(DECODE), text.str.extract_groups(PREFILL)
        return (
            lines.with_columns(
                running=decode.struct.field("2").cast(pl.Int64, strict=False),
                iteration=pl.coalesce(decode.struct.field("1"), prefill.struct.field("1")).cast(pl.Int64, strict=False),
                new_tokens=prefill.struct.field("2").cast(pl.Int64, strict=False),
                accept=number(r"accept len:\s*([\d.]+)", pl.Float64()),
                throughput=number(r" throughput \(token/s\):\s*([\d.]+)", pl.Float64()),
                queued=number(r"#queue-req:\s*(\d{1,9})\b", pl.Int64()),
                kv=number(r"#(?:full )?token:\s*(\d+)", pl.Float64()),
                graph=text.str.extract(r"(?:cuda|cpu|npu|musa) graph:\s*(True|False)"),
                tp=number(r"\bTP(\d{1,4})\b", pl.Int64()).fill_null(number(r"\[gpu_id=(\d{1,4})\]", pl.Int64())),
                pp=number(r"\bPP(\d{1,4})\b", pl.Int64()),
                dp=text.str.extract(r"(\bDP\d{1,4})\b"),
                actor=text.str.extract(r"(\(\w+ pid=\d+(?:, ip=[\d.]+)?\))"),
                time_s=log_clock_s(lines),
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
                "queued",
                pl.coalesce("tp", 0).alias("tp"),
                pl.coalesce("pp", 0).alias("pp"),
            )
        )  # fmt: skip

    def usual_rows(self, data: bytes, first_line: int) -> tuple[pl.DataFrame, bytes, I64]:
        """The same rows as `extract` makes of the patterns, for lines of the usual shape."""
        whole, real, rest, numbers = kernel.quick_rows(data, first_line)
        decode, size, graph = whole[:, kernel.DECODE] == 1, whole[:, kernel.SIZE], whole[:, kernel.GRAPH]
        rows = pl.DataFrame({"line": whole[:, kernel.LINE], "size": size, "dp": whole[:, kernel.DP]})
        dp = pl.col("dp")
        rows = rows.select(
            "line",
            pl.Series("family", (~decode).astype(np.int8)),
            "size",
            pl.lit(1, dtype=pl.Int64).alias("steps"),
            pl.Series("time_s", real[:, kernel.TIME_S]),
            pl.lit(None, dtype=pl.Float64).alias("step_ms"),
            pl.Series("kv_tokens", np.where(decode, real[:, kernel.KV], np.nan), nan_to_null=True),
            pl.lit(0, dtype=pl.Int64).alias("padded_size"),
            pl.Series("fallback", graph.astype(np.int8)),
            pl.when(dp >= 0).then(pl.concat_str(pl.lit("DP"), dp)).otherwise(pl.lit("")).alias("engine"),
            pl.when(pl.col("size") == 0).then(pl.lit("empty batch")).alias("reason"),
            pl.Series("iteration", whole[:, kernel.ITERATION]),
            pl.Series("accept", real[:, kernel.ACCEPT], nan_to_null=True),
            pl.Series("throughput", real[:, kernel.RATE], nan_to_null=True),
            pl.Series("queued", whole[:, kernel.QUEUED]),
            pl.Series("tp", np.maximum(whole[:, kernel.TP], 0)),
            pl.Series("pp", np.maximum(whole[:, kernel.PP], 0)),
        )
        absent = pl.col("iteration", "queued")
        return rows.with_columns(pl.when(absent >= 0).then(absent)), rest, numbers

    def settle(self, rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
        rows = _step_times(keep_first_rank(rows))
        if observation.options.get("enable_dp_attention") == "True":
            rows = keep_largest_dp_rank(rows)
        own = ("iteration", "accept", "throughput", "queued", "tp", "pp")
        return rows.with_columns(_decode_gap().alias("gap")).drop(own)

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        every = _interval_steps(rows, observation)
        decodes = int(rows.filter(pl.col("family") == 0)["lines"].sum())
        notes: list[str] = []
        if DP_GROUP in rows["engine"].head(1):
            notes.append("under DP attention the largest rank of each step was kept: it picks the graph")
        wraps_s = DAY_S if _clock_has_no_date(rows) else None
        if every == 1 or decodes == 0:
            return Evidence("census", wraps_s=wraps_s, notes=tuple(notes))
        if decodes < rows["lines"].sum():
            notes.append(f"decode lines are one step in {every}, prefill lines are every prefill step")
        if decodes < FEW_LINES:
            notes.append(f"{decodes} sampled decode lines say little about rare sizes")
        return Evidence("sample", every, None, ("sample", "census"), wraps_s, tuple(notes))


def _step_times(rows: pl.DataFrame) -> pl.DataFrame:
    """`step_ms` from throughputs, which the engine averages since its line before; the same kind of line must follow.

    A decode line: running x accept len / throughput, if the batch hardly moved since a decode line; a prefill or an
    unreadable line in between spoils it. A prefill line: its tokens over the input throughput that the next prefill
    line shows, if requests were left waiting, so that the engine did not idle.
    """
    shown = pl.col("reason").is_null() | pl.col("reason").is_in([UNREADABLE, "empty batch"])
    live = rows.with_row_index("at").filter(shown)
    kept = pl.col("reason").is_null()
    decode, prefill = (pl.col("family") == 0) & kept, (pl.col("family") == 1) & kept

    def neighbour(expression: pl.Expr, offset: int) -> pl.Expr:
        return expression.shift(offset).over("engine")

    before, accept = neighbour(pl.col("size"), 1), pl.col("accept").fill_null(1.0)
    steady = (before - pl.col("size")).abs() <= STEADY * pl.max_horizontal("size", before)
    decode_ms = 1000 * pl.col("size") * accept / pl.col("throughput")
    usable = decode & neighbour(decode, 1) & steady & (pl.col("throughput") > 0) & (accept >= 1)
    rate = neighbour(pl.col("throughput"), -1)
    busy = prefill & neighbour(prefill, -1) & (pl.col("queued") > 0) & (rate > 0)
    times = live.select(
        "at", pl.when(usable).then(decode_ms).when(busy).then(1000 * pl.col("size") / rate).alias("step_ms")
    )
    return (
        rows.drop("step_ms")
        .with_row_index("at")
        .join(times, on="at", how="left", maintain_order="left")
        .drop("at")
        .select(rows.columns)
    )


def _decode_gap() -> pl.Expr:
    """Forward passes since the last kept decode line of the same engine."""
    number = pl.when(pl.col("reason").is_null() & (pl.col("family") == 0)).then(pl.col("iteration"))
    gap = number - number.forward_fill().shift(1).over("engine")
    return pl.when(gap > 0).then(gap)


def _interval_steps(rows: pl.DataFrame, observation: EngineObservation) -> int:
    """Decode steps per decode line: from forward numbers, else the server's arguments, else the default."""
    gaps = rows["gap"].drop_nulls()
    if len(gaps):
        # Prefill steps count too, so a gap is at least the interval; the commonest one has none in between.
        return int(gaps.mode().min())  # type: ignore[arg-type]
    told = observation.options.get("decode_log_interval", "")
    return int(told) if told.isdecimal() and 0 < int(told) < 10**9 else DEFAULT_INTERVAL_STEPS


def _clock_has_no_date(rows: pl.DataFrame) -> bool:
    largest = rows["time_s"].max()
    return isinstance(largest, float) and largest <= DAY_S
