"""Rows of an engine log while it is read: tallied, merged where they become many, and cut down to one engine.

A log of any length is held in bounded memory: once a chunk is full its dropped rows become counts and, when the kept
ones are many, equal rows of neighbouring lines become one row that stands for all of them.
"""

from __future__ import annotations

import polars as pl

from workloads.traces.records import RowCount

CHUNK_ROWS = 20_000
"""Rows that are worked on at once."""
MOST_ROWS = 80_000
"""Kept rows above which equal neighbours are merged."""
FIRST_SLICE_ROWS = 512

STEP_ROW = {
    "line": pl.Int64(),
    "family": pl.Int8(),
    "size": pl.Int64(),
    "steps": pl.Int64(),
    "time_s": pl.Float64(),
    "step_ms": pl.Float64(),
    "kv_tokens": pl.Float64(),
    "padded_size": pl.Int64(),
    "fallback": pl.Int8(),
    "engine": pl.String(),
    "reason": pl.String(),
}
"""What a candidate line becomes. `reason` is null for a row that is kept; `family` indexes `LogReader.families`."""

_KIND = ("engine", "family", "size", "padded_size", "fallback")
_OTHER = "other engine"


class Tally:
    """Counts of rows, dropped ones by reason with the first line of each."""

    def __init__(self) -> None:
        self.read = 0
        self._dropped: dict[str, int] = {}
        self._first_line: dict[str, int] = {}

    def drop(self, reason: str, count: int, line: int) -> None:
        self._dropped[reason] = self._dropped.get(reason, 0) + count
        self._first_line[reason] = min(line, self._first_line.get(reason, line))

    def keep(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Count all rows and return those without a reason to drop them."""
        self.read += rows.height
        lost = rows.filter(pl.col("reason").is_not_null())
        for reason, count, line in (
            lost.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("line").min()).iter_rows()
        ):
            self.drop(reason, count, line)
        return rows.filter(pl.col("reason").is_null()).drop("reason")

    def result(self) -> RowCount:
        return RowCount(self.read, self.read - sum(self._dropped.values()), self._dropped, self._first_line)

    def told(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self._dropped.items())


class Gathered:
    """The kept rows of a log so far.

    Every row has `lines`, how many log lines it stands for. Merged rows add up their steps and average times and KV
    tokens; any other column keeps its smallest value.
    """

    def __init__(self) -> None:
        self.tally = Tally()
        self.merged = False
        self._parts: list[pl.DataFrame] = []
        self._rows = 0
        self._slice_rows = FIRST_SLICE_ROWS

    def add(self, rows: pl.DataFrame) -> None:
        kept = self.tally.keep(rows).with_columns(
            pl.lit(1, dtype=pl.Int64).alias("lines"),
            pl.col("engine").fill_null("").cast(pl.String),
        )
        self._parts.append(kept)
        self._rows += kept.height
        if self._rows > MOST_ROWS:
            self._merge()

    def frame(self) -> pl.DataFrame:
        """All kept rows in the order of their lines."""
        return pl.concat(self._parts) if self._parts else pl.DataFrame(schema=STEP_ROW)

    def _merge(self) -> None:
        rows = pl.concat(self._parts)
        self._parts.clear()
        self.merged = True
        while rows.height > MOST_ROWS // 2:
            merged = merge_neighbours(rows, self._slice_rows)
            if self._slice_rows >= rows.height:
                rows = merged
                break
            self._slice_rows *= 2
            rows = merged
        self._parts.append(rows)
        self._rows = rows.height


def merge_neighbours(rows: pl.DataFrame, slice_rows: int) -> pl.DataFrame:
    """Equal rows within each `slice_rows` consecutive rows become one."""

    def known_steps(name: str) -> pl.Expr:
        return pl.when(pl.col(name).is_finite()).then("steps").otherwise(0)

    averaged = ("step_ms", "kv_tokens")
    weights = [known_steps(name).alias(f"_{name}") for name in averaged]
    products = [(pl.col(name).fill_nan(None) * known_steps(name)).alias(name) for name in averaged]
    rest = [name for name in rows.columns if name not in (*_KIND, "steps", "lines", *averaged)]
    sums = ("steps", "lines", *averaged, *(f"_{name}" for name in averaged))
    return (
        rows.with_columns(*products, *weights, (pl.int_range(pl.len()) // slice_rows).alias("_slice"))
        .group_by(_key(rows), maintain_order=True)
        .agg(*(pl.col(n).first() for n in _KIND), *(pl.col(n).sum() for n in sums), *(pl.col(n).min() for n in rest))
        .with_columns(pl.when(pl.col(f"_{n}") > 0).then(pl.col(n) / pl.col(f"_{n}")).alias(n) for n in averaged)
        .select(rows.columns)
    )


def _key(rows: pl.DataFrame) -> list[pl.Expr]:
    """Slice and kind as one integer where that is large enough, which groups far faster than six columns."""
    sizes = int(rows["size"].max() or 0) + 1  # type: ignore[arg-type]
    buckets = int(rows["padded_size"].max() or 0) + 1  # type: ignore[arg-type]
    if rows["engine"].n_unique() > 1 or rows.height * 128 * 3 * sizes * buckets >= 2**62:
        return [pl.col("_slice"), *(pl.col(name).alias(f"_{name}") for name in _KIND)]
    family = pl.col("_slice") * 128 + pl.col("family")
    kind = family * 3 + pl.col("fallback") + 1
    return [((kind * sizes + pl.col("size")) * buckets + pl.col("padded_size")).alias("_key")]


def busiest_engine(rows: pl.DataFrame, tally: Tally, what: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Only one engine's rows, the one with most of them; engines are never summed into one histogram.

    Args:
        rows: with `engine` and `lines`.
        tally: where the others' lines are counted as dropped.
        what: what writes, for the note.
    """
    totals = (
        rows.group_by("engine", maintain_order=True)
        .agg(pl.col("lines").sum(), (pl.col("size") * pl.col("steps")).sum().alias("work"), pl.col("line").min())
        .sort(["lines", "work"], descending=True, maintain_order=True)
    )
    if totals.height < 2:
        return rows, ()
    chosen = str(totals["engine"][0])
    others = totals[1:]
    tally.drop(_OTHER, int(others["lines"].sum()), int(others["line"].min()))  # type: ignore[arg-type]
    note = (
        f"{totals.height} {what} write to this log; only {chosen or 'the one without a name'}, which has most rows, "
        "was kept, because engines must not be summed into one histogram"
    )
    return rows.filter(pl.col("engine") == chosen), (note,)
