"""TensorRT-LLM logs with `print_iter_log: true`: one line a step, in both forms.

Generation-only steps are counted by `num_scheduled_requests`: `num_generation_tokens` includes padding, and draft
tokens. `prev_device_step_time` is the time of the iteration before; the line after gives a step its own.
"""

from __future__ import annotations

import polars as pl

from workloads.traces.log_lines import number
from workloads.traces.log_reader import UNREADABLE, Evidence, LogReader
from workloads.traces.records import EngineObservation
from workloads.traces.trtllm_observer import TrtllmObserver

DP_GROUP = "the attention data-parallel group"
_STAMP = r"timestamp = (\d{2,4}-\d\d-\d{2,4} \d\d:\d\d:\d\d)"


class TrtllmIterations(LogReader):
    name = "tensorrt-llm-iterations"
    description = "TensorRT-LLM log with print_iter_log"
    told_by = "`iter = ..` lines with `num_scheduled_requests`"
    markers = (b"num_scheduled_requests",)
    certainty = 47
    families = ("decode_full", "prefill_piecewise")
    units = ("requests", "tokens")

    def observer(self) -> TrtllmObserver:
        return TrtllmObserver()

    def extract(self, lines: pl.DataFrame) -> pl.DataFrame:
        count = pl.Int64()
        stamp = pl.col("text").str.extract(_STAMP)
        year_first = stamp.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
        year_last = stamp.str.to_datetime("%m-%d-%Y %H:%M:%S", time_unit="ms", strict=False)
        read = lines.with_columns(
            iteration=number(r"\biter = (\d{1,15})", count),
            rank=number(r"global_rank = (\d{1,6})", count).fill_null(0),
            scheduled=number(r"num_scheduled_requests(?: =|:) (\d{1,9})\b", count),
            contexts=number(r"'num_ctx_requests': (\d{1,9})", count),
            context_tokens=number(r"'num_ctx_tokens': (\d{1,12})", count),
            generated=number(r"'num_generation_tokens': (\d{1,12})", count),
            host_ms=number(r"host_step_time = ([\d.]+) ?ms", pl.Float64()),
            before_ms=number(r"prev_device_step_time = ([\d.]+) ?ms", pl.Float64()),
            kv_tokens=number(r"cached_kv_tokens(?: =|'?:) (\d{1,15})", pl.Float64()),
            time_s=pl.coalesce(year_first, year_last).dt.timestamp("ms").cast(pl.Float64) / 1000,
        )
        mixed = pl.col("context_tokens") > 0
        size = pl.when(mixed).then(pl.col("context_tokens") + pl.col("generated")).otherwise("scheduled")
        whole = pl.all_horizontal(pl.col("iteration", "scheduled", "context_tokens", "generated").is_not_null())
        return read.select(
            "line",
            mixed.fill_null(False).cast(pl.Int8).alias("family"),
            pl.when(whole).then(size).alias("size"),
            pl.lit(1, dtype=pl.Int64).alias("steps"),
            "time_s",
            pl.lit(None, dtype=pl.Float64).alias("step_ms"),
            pl.when(~mixed).then("kv_tokens").alias("kv_tokens"),
            pl.lit(0, dtype=pl.Int64).alias("padded_size"),
            pl.lit(-1, dtype=pl.Int8).alias("fallback"),
            pl.lit("", dtype=pl.String).alias("engine"),
            pl.when(~whole).then(pl.lit(UNREADABLE)).when(size == 0).then(pl.lit("empty step")).alias("reason"),
            "iteration",
            "rank",
            "generated",
            "host_ms",
            "before_ms",
        )

    def settle(self, rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
        rows = _padded(_one_rank(_own_times(rows), observation), observation)
        return rows.drop("iteration", "rank", "generated", "host_ms", "before_ms")

    def evidence(self, rows: pl.DataFrame, observation: EngineObservation) -> Evidence:
        if DP_GROUP in rows["engine"].head(1):
            return Evidence("census", notes=("the largest rank of each step was kept: all ranks are padded to it",))
        return Evidence("census")


def _own_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Device time of each step from the line after it; the host's where the log has no device times."""
    if not rows["before_ms"].count():
        return rows.with_columns(pl.col("host_ms").alias("step_ms"))
    after = pl.col("iteration").shift(-1).over("rank") == pl.col("iteration") + 1
    return rows.with_columns(pl.when(after).then(pl.col("before_ms").shift(-1).over("rank")).alias("step_ms"))


def _one_rank(rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
    """Tensor-parallel ranks run the same step; under attention data parallelism each has its own requests."""
    live = rows.filter(pl.col("reason").is_null())
    if live["rank"].n_unique() < 2:
        return rows
    differ = live.group_by("iteration").agg(pl.col("size").n_unique())["size"].max()
    if observation.options.get("enable_attention_dp") != "True" and differ == 1:
        drop, reason, engine = pl.col("rank") > live["rank"].min(), "other TP rank", ""
    else:
        order = live.sort(["size", "rank"], descending=[True, False], maintain_order=True)
        largest = order.unique("iteration", keep="first", maintain_order=True)["line"]
        drop, reason, engine = ~pl.col("line").is_in(largest.implode()), "smaller rank of the same step", DP_GROUP
    drop = pl.col("reason").is_null() & drop
    return rows.with_columns(
        pl.when(drop).then(pl.lit(reason)).otherwise("reason").alias("reason"), pl.lit(engine).alias("engine")
    )


def _padded(rows: pl.DataFrame, observation: EngineObservation) -> pl.DataFrame:
    """`padded_size` from the generation tokens of a decode step, where no draft tokens are among them: some step has
    one token a request."""
    decode = pl.col("reason").is_null() & (pl.col("family") == 0)
    plain = rows.filter(decode & (pl.col("generated") == pl.col("size"))).height
    if not plain or "max_draft_len" in observation.options:
        return rows
    padding = decode & (pl.col("generated") > pl.col("size"))
    return rows.with_columns(pl.when(padding).then("generated").otherwise(0).cast(pl.Int64).alias("padded_size"))
