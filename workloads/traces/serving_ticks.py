"""LLMServingSim `timeseries.csv`: what a real vLLM served, one row a second."""

from __future__ import annotations

import polars as pl

from workloads.traces.base import Probe, Reader
from workloads.traces.csv_table import CsvTable
from workloads.traces.log_reader import Evidence, interval_s
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult
from workloads.traces.step_result import result_of
from workloads.traces.step_rows import STEP_ROW, Gathered
from workloads.traces.values import number_column

_COLUMNS = ("t", "prompt_throughput", "gen_throughput", "running", "waiting")
_NOTE = (
    "running requests are a snapshot each tick, prefilling ones included; a data-parallel run reports the sum of its "
    "engines, which this file does not say"
)


class ServingTicks(Reader):
    name = "llmservingsim-ticks"
    description = "LLMServingSim timeseries.csv: running requests of a real vLLM, tick by tick"
    told_by = "the columns `t`, `running`, `waiting` and both throughputs"

    def recognise(self, probe: Probe) -> int:
        return 92 if isinstance(probe.table, CsvTable) and probe.table.has(*_COLUMNS) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source, table = probe.source, probe.table
        if table is None or not table.has(*_COLUMNS):
            raise source.bad(f"no serving ticks: the header has {', '.join(_COLUMNS)}")
        gathered = Gathered()
        for chunk in table.chunks({name: name for name in _COLUMNS}):
            rows = chunk.without_blank_rows()
            if rows.frame.height:
                gathered.add(
                    _rows(
                        pl.DataFrame({name: number_column(rows, name, name, source.bad) for name in _COLUMNS}),
                        [rows.line_of(row) for row in range(rows.frame.height)],
                    )
                )
        if not gathered.tally.read:
            raise source.bad("the file has a header and no rows")
        return result_of(
            self.name,
            source,
            gathered,
            lambda rows: Evidence("sample", sample_every_s=interval_s(rows), notes=(_NOTE,)),
            families=("decode_full",),
            units=("requests",),
            writers="engines",
        )


def _rows(frame: pl.DataFrame, lines: list[int]) -> pl.DataFrame:
    running = pl.col("running")
    possible = running.is_between(0, 1e9) & (running == running.floor())
    # A throughput tells the step time of one batch only if nothing was prefilled and the batch stayed the same.
    steady = (running == running.shift(1)) & (pl.col("prompt_throughput") == 0) & (pl.col("gen_throughput") > 0)
    values = {
        "line": pl.lit(pl.Series(lines, dtype=pl.Int64)),
        "family": pl.lit(0, pl.Int8),
        "size": pl.when(possible).then(running).cast(pl.Int64),
        "steps": pl.lit(1, pl.Int64),
        "time_s": pl.col("t"),
        "step_ms": pl.when(steady).then(1000 * running / pl.col("gen_throughput")),
        "kv_tokens": pl.lit(None, pl.Float64),
        "padded_size": pl.lit(0, pl.Int64),
        "fallback": pl.lit(-1, pl.Int8),
        "engine": pl.lit("", pl.String),
        "reason": pl.when(~possible).then(pl.lit("not a count")).when(running == 0).then(pl.lit("idle")),
    }
    return frame.select(values[name].alias(name) for name in STEP_ROW)
