"""The bundled sample is what its generator makes, and reads as a trace worth tuning for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from workloads.samples.bundled import sample_path
from workloads.traces.read import read
from workloads.traces.records import RequestTrace


def test_the_command_of_the_readme_makes_the_same_bytes(tmp_path: Path, repository: Path) -> None:
    readme = (sample_path().parent / "README.md").read_text()
    assert "python -m workloads.samples.make_sample\n" in readme
    made = tmp_path / "made.csv"
    subprocess.run([sys.executable, "-m", "workloads.samples.make_sample", str(made)], check=True, cwd=repository)
    assert made.read_bytes() == sample_path().read_bytes()


def test_the_sample_is_small_bursty_and_mixed() -> None:
    assert sample_path().stat().st_size < 200_000
    result = read(sample_path())
    trace = result.traffic
    assert isinstance(trace, RequestTrace)
    assert result.rows.dropped == {}
    assert len(trace) == 9_000
    assert 885 < trace.span_s <= 900
    per_second = np.bincount(trace.arrival_s.astype(int))
    assert per_second.var() > 2 * per_second.mean()
    assert np.quantile(trace.output_tokens, 0.1) < 60 < 300 < np.median(trace.output_tokens)
