"""Reads a generated Azure-2024-style CSV and prints seconds and peak memory: `python benchmarks/read_trace.py [ROWS]`.

The file is made in a temporary folder by a process of its own, so that the peak is the reader's alone.
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

ROWS = 10_000_000
_MAKE = """
import sys, numpy as np, polars as pl
rows, path = int(sys.argv[1]), sys.argv[2]
random = np.random.default_rng(1)
at = pl.Series(np.sort(random.integers(0, 7 * 86400 * 10**6, rows)) + 1715299200 * 10**6).cast(pl.Datetime("us"))
pl.DataFrame({
    "TIMESTAMP": at.dt.to_string("%Y-%m-%d %H:%M:%S%.6f") + "+00:00",
    "ContextTokens": random.integers(1, 8000, rows),
    "GeneratedTokens": random.geometric(1 / 100, rows),
}).write_csv(path)
"""


def main(rows: int = ROWS) -> None:
    """Make, read, check, summarise."""
    with tempfile.TemporaryDirectory(prefix="captune-benchmark-") as folder:
        path = Path(folder) / "trace.csv"
        subprocess.run([sys.executable, "-c", _MAKE, str(rows), str(path)], check=True)
        from services.contract.trace import summary_of
        from workloads.traces.read import read

        started, busy = time.perf_counter(), time.process_time()
        result = read(path)
        summary = summary_of(result)
        took, busy = time.perf_counter() - started, time.process_time() - busy
        size_mb = path.stat().st_size / 1e6
    assert result.rows.kept == rows
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        f"{rows:,} rows, {size_mb:.0f} MB as {result.format}: {took:.1f} s ({busy:.1f} s of CPU), "
        f"peak {peak_mib:.0f} MiB, {summary['rate_per_s']:.2f} requests/s\n"
    )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]))
