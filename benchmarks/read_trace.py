"""Reads a generated file and prints seconds and peak memory: `python benchmarks/read_trace.py [csv | log] [ROWS]`.

`csv` is an Azure-2024-style request table, `log` the densest SGLang log there is: decode lines and nothing else. The
file is made in a temporary folder by a process of its own, so that the peak is the reader's alone.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

ROWS = {"csv": 10_000_000, "log": 6_250_000}
_CSV = """
at = pl.Series(np.sort(random.integers(0, 7 * 86400 * 10**6, rows)) + 1715299200 * 10**6).cast(pl.Datetime("us"))
pl.DataFrame({
    "TIMESTAMP": at.dt.to_string("%Y-%m-%d %H:%M:%S%.6f") + "+00:00",
    "ContextTokens": random.integers(1, 8000, rows),
    "GeneratedTokens": random.geometric(1 / 100, rows),
}).write_csv(path)
"""
_LOG = """
start = np.datetime64("2026-10-25T04:06:27").astype("int64")
with open(path, "wb") as file:
    for first in range(0, rows, 250_000):
        n = min(250_000, rows - first)
        size = 130 + np.rint(90 * np.sin(np.arange(first, first + n) / 4000)).astype(int) + random.integers(-2, 3, n)
        frame = pl.DataFrame({
            "at": pl.Series(start + np.arange(first, first + n) // 4).cast(pl.Int64) * 1000,
            "size": size,
            "kv": size * 900 + random.integers(0, 900, n),
            "use": pl.Series(random.integers(10, 99, n)),
            "rate": pl.Series([f"{rate:.2f}" for rate in size * 33.0 + random.random(n) * 50]),
            "queued": random.integers(0, 3, n),
        })
        text = pl.format(
            "[{}] Decode batch, #running-req: {}, #token: {}, token usage: 0.{}, cuda graph: True, "
            "gen throughput (token/s): {}, #queue-req: {}, \\n",
            pl.col("at").cast(pl.Datetime("ms")).dt.to_string("%Y-%m-%d %H:%M:%S"),
            "size", "kv", "use", "rate", "queued",
        )
        file.write(frame.select(text.str.join("")).item().encode())
"""
_MAKE = """
import sys, numpy as np, polars as pl
rows, path, random = int(sys.argv[1]), sys.argv[2], np.random.default_rng(1)
"""


def main(kind: str = "csv", rows: int | None = None) -> None:
    """Make, read, check, summarise."""
    rows = rows or ROWS[kind]
    with tempfile.TemporaryDirectory(prefix="captune-benchmark-") as folder:
        path = Path(folder) / f"trace.{kind}"
        maker = _MAKE + {"csv": _CSV, "log": _LOG}[kind]
        subprocess.run([sys.executable, "-c", maker, str(rows), str(path)], check=True)
        from services.contract.trace import summary_of
        from workloads.traces.read import read

        started, busy = time.perf_counter(), time.process_time()
        result = read(path)
        summary_of(result)
        took, busy = time.perf_counter() - started, time.process_time() - busy
        size_mb = path.stat().st_size / 1e6
    assert result.rows.kept == rows
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        f"{rows:,} rows, {size_mb:.0f} MB as {result.format}: {took:.1f} s ({busy:.1f} s of CPU), "
        f"peak {peak_mib:.0f} MiB, over {result.traffic.span_s:.0f} s\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(text) for text in sys.argv[2:3]))
