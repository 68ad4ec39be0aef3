"""TensorRT-LLM iteration statistics (`enable_iter_perf_stats: true`): JSON objects of `/metrics` or a file."""

from __future__ import annotations

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.log_reader import Evidence
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import EngineObservation, ReadResult
from workloads.traces.source import Source
from workloads.traces.step_result import result_of
from workloads.traces.step_rows import STEP_ROW, Gathered
from workloads.traces.table import Chunk

_BATCH = "inflightBatchingStats."
_ROLES = {
    "iteration": "iter",
    "ms": "iterLatencyMS",
    "host_ms": "hostStepTimeMS",
    "rank": "attentionDpRank",
    "contexts": _BATCH + "numContextRequests",
    "generations": _BATCH + "numGenRequests",
    "context_tokens": _BATCH + "numCtxTokens",
    "scheduled": _BATCH + "numScheduledRequests",
    "used_blocks": "kvCacheStats.usedNumBlocks",
    "block_tokens": "kvCacheStats.tokensPerBlock",
    "most_blocks": "kvCacheStats.maxNumBlocks",
}
_NEEDED = ("iter", _BATCH + "numContextRequests", _BATCH + "numGenRequests", _BATCH + "numCtxTokens")


class TrtllmStats(Reader):
    name = "tensorrt-llm-stats"
    description = "TensorRT-LLM iteration statistics, JSON"
    told_by = "the keys `iter` and `inflightBatchingStats.numGenRequests`"

    def recognise(self, probe: Probe) -> int:
        return 92 if probe.table is not None and probe.table.has(*_NEEDED) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        table = probe.table
        if table is None or not table.has(*_NEEDED):
            raise probe.source.bad(f"no iteration statistics: objects have {', '.join(_NEEDED)}")
        gathered = Gathered()
        kv_tokens: int | None = None
        for chunk in table.chunks({role: name for role, name in _ROLES.items() if name in table.names}):
            frame = _numbers(chunk, probe.source)
            kv_tokens = _cache(frame) or kv_tokens
            gathered.add(_largest_rank(_rows(frame)))
        return result_of(
            self.name,
            probe.source,
            gathered,
            lambda rows: Evidence("census"),
            families=("decode_full", "prefill_piecewise"),
            units=("requests", "tokens"),
            writers="engines",
            observation=EngineObservation(engine="tensorrt-llm", kv_tokens=kv_tokens),
        )


def _numbers(chunk: Chunk, source: Source) -> pl.DataFrame:
    """All roles as float64, null where absent or not a finite number of a possible size."""
    present = chunk.frame.columns
    frame = chunk.frame.select(
        (pl.col(role).cast(pl.Float64, strict=False) if role in present else pl.lit(None, pl.Float64)).alias(role)
        for role in _ROLES
    )
    possible = pl.all().is_finite() & pl.all().is_between(0, 1e12)
    lines = pl.Series("line", [chunk.line_of(row) for row in range(frame.height)], dtype=pl.Int64)
    return frame.select(pl.when(possible).then(pl.all())).with_columns(lines)


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    mixed = pl.col("contexts") > 0
    size = pl.when(mixed).then(pl.col("context_tokens") + pl.col("generations")).otherwise("generations")
    kv = pl.col("used_blocks") * pl.col("block_tokens")
    values = {
        "line": pl.col("line"),
        "family": mixed.fill_null(False).cast(pl.Int8),
        "size": size.cast(pl.Int64),
        "steps": pl.lit(1, pl.Int64),
        "time_s": pl.lit(None, pl.Float64),
        "step_ms": pl.coalesce("ms", "host_ms"),
        "kv_tokens": pl.when(~mixed).then(kv),
        "padded_size": pl.lit(0, pl.Int64),
        "fallback": pl.lit(-1, pl.Int8),
        "engine": pl.lit("", pl.String),
        "reason": pl.when(size.is_null()).then(pl.lit("incomplete record")).when(size == 0).then(pl.lit("empty step")),
        "iteration": pl.col("iteration"),
        "rank": pl.col("rank"),
    }
    return frame.select(values[name].alias(name) for name in (*STEP_ROW, "iteration", "rank"))


def _largest_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Of attention data-parallel ranks the largest of each iteration: all are padded to it."""
    if rows["rank"].n_unique() > 1:
        live = rows.filter(pl.col("reason").is_null()).sort("size", descending=True, maintain_order=True)
        largest = live.unique("iteration", keep="first", maintain_order=True)["line"]
        smaller = pl.col("reason").is_null() & ~pl.col("line").is_in(largest.implode())
        told = pl.when(smaller).then(pl.lit("smaller rank of the same step")).otherwise("reason")
        rows = rows.with_columns(told.alias("reason"))
    return rows.drop("iteration", "rank")


def _cache(frame: pl.DataFrame) -> int | None:
    sizes = (frame["most_blocks"] * frame["block_tokens"]).drop_nulls()
    return int(sizes[-1]) if len(sizes) else None
