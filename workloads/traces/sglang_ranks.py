"""Which rank's line of an SGLang step counts: one per step, never a sum."""

from __future__ import annotations

import polars as pl

DP_GROUP = "the data-parallel attention group"


def keep_first_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Tensor- and pipeline-parallel ranks print the same step; the lowest rank of each engine stays."""
    rank = pl.col("pp") * 10_000 + pl.col("tp")
    lowest = rank.filter(pl.col("size").is_not_null()).min().over("engine")
    repeated = pl.col("reason").is_null() & (rank > lowest)
    return rows.with_columns(pl.when(repeated).then(pl.lit("other TP rank")).otherwise("reason").alias("reason"))


def keep_largest_dp_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Under DP attention all ranks step together and the graph is picked from the largest rank's batch.

    Lines of one step are told by their forward number where the log has it, else by their clock: the n-th line that a
    rank prints in one tick of it.
    """
    live = rows.filter(pl.col("reason").is_null())
    if live["engine"].n_unique() < 2:
        return rows
    by_clock = pl.col("iteration").is_null()
    turn = pl.int_range(pl.len()).over("engine", "family", "time_s")
    live = live.with_columns(
        pl.when(by_clock).then(pl.lit(-1)).otherwise(pl.col("iteration")).alias("_step"),
        pl.when(by_clock).then(pl.col("time_s")).alias("_tick"),
        pl.when(by_clock).then(turn).alias("_turn"),
    )
    largest = pl.col("size").rank("ordinal", descending=True).over("family", "_step", "_tick", "_turn") == 1
    smaller = live.filter(~largest)["line"]
    drop = pl.col("reason").is_null() & pl.col("line").is_in(smaller.implode())
    return rows.with_columns(
        pl.when(drop).then(pl.lit("smaller DP rank of the same step")).otherwise("reason").alias("reason"),
        pl.lit(DP_GROUP).alias("engine"),
    )
