"""ServeGen archives: sampled with a seed at the rate of one engine, from real rates and lengths."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.workloads.traces.request_examples import SERVEGEN, archive
from workloads.errors import BadInput
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read
from workloads.traces.records import ReadResult, RequestTrace

Read = Callable[..., ReadResult]


def at(rate_per_s: float, seed: int = 0) -> ColumnMapping:
    return ColumnMapping(arrivals=ArrivalProcess("recorded", rate_per_s, seed=seed))


def requests_of(result: ReadResult) -> RequestTrace:
    assert isinstance(result.traffic, RequestTrace)
    return result.traffic


def test_a_whole_service_is_no_trace_until_the_rate_of_one_engine_is_given(read_text: Read) -> None:
    with pytest.raises(BadInput, match=r"whole service of many engines, 30 requests/s on average.*recorded:2"):
        read_text(SERVEGEN)


def test_rates_are_divided_to_one_engine_and_the_seed_decides(read_text: Read) -> None:
    result = read_text(SERVEGEN, mapping=at(5, seed=3))
    trace = requests_of(result)
    assert result.format == "servegen"
    assert len(trace) == pytest.approx(5 * 1200, rel=0.05)
    assert trace.arrival_s[-1] <= 1200
    # the second client is idle in the first window: 20 against 30 of the service's requests
    assert np.mean(trace.arrival_s < 600) == pytest.approx(20 / 50, abs=0.03)
    assert set(trace.input_tokens.tolist()) == {100, 300}
    assert set(trace.output_tokens.tolist()) == {20}
    assert any("1 of 3 clients have no lengths and were left out, 16.7% of the requests" in n for n in result.notes)
    assert any("from 25 to 5 requests/s" in note for note in result.notes)
    assert requests_of(read_text(SERVEGEN, mapping=at(5, seed=3))).digest() == trace.digest()
    assert requests_of(read_text(SERVEGEN, mapping=at(5, seed=4))).digest() != trace.digest()


@pytest.mark.parametrize(("pattern", "cv"), [("Gamma,4.0,1.0", 0.5), ("Weibull,1.0,1.0", 1.0), ("Gamma,0.25,1.0", 2.0)])
def test_gaps_keep_the_client_s_burstiness(read_text: Read, pattern: str, cv: float) -> None:
    lengths = '{"0": {"input_tokens": "{10: 1.0}", "output_tokens": "{5: 1.0}"}}'
    rates = "".join(f"{600 * i},50,1,{pattern}\n" for i in range(10))
    trace = requests_of(
        read_text(archive({"chunk-0-trace.csv": rates, "chunk-0-dataset.json": lengths}), mapping=at(10))
    )
    gaps = np.diff(trace.arrival_s)
    assert len(gaps) == pytest.approx(60_000, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"chunk-0-trace.csv": "0,1,1,Gamma,1,1\n"}, "rates of clients and no lengths"),
        ({"chunk-0-trace.csv": "0,1,1,Gamma,1,1\n700,1,1,Gamma,1,1\n"}, "line 2|:2: chunk-0-trace.csv: windows"),
        ({"chunk-0-trace.csv": "0,-1,1,Gamma,1,1\n"}, ":1: chunk-0-trace.csv: a row is not start, rate"),
        ({"chunk-0-trace.csv": "0,1,1,Gamma,1,1\n", "chunk-0-dataset.json": "[]"}, "not an object of windows"),
        ({"chunk-0-trace.csv": "0,1,1,Gamma,1,1\n", "chunk-0-dataset.json": "{"}, "chunk-0-dataset.json: is not JSON"),
        (
            {
                "chunk-0-trace.csv": "0,1,1,Gamma,1,1\n",
                "chunk-0-dataset.json": '{"0": {"output_tokens": "__import__(1)"}}',
            },
            "not {value: probability}",
        ),
        ({"../../etc/passwd": "root"}, "an archive, and not one of ServeGen clients"),
    ],
)
def test_broken_archives_are_refused_in_one_sentence(read_text: Read, files: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_text(archive(files), mapping=at(1))


def test_a_cut_archive_is_refused(read_text: Read) -> None:
    for data in (SERVEGEN[:1500], gzip.compress(SERVEGEN)[:-20]):
        with pytest.raises(BadInput, match="cut off or damaged"):
            read_text(data, mapping=at(1))


@pytest.mark.parametrize(
    ("file", "offered", "clients"),
    [("reason_deepseek-r1.tar.xz", "16 requests/s", 73), ("multimodal_mm-image.tar.xz", "9.47 requests/s", 35)],
)
def test_published_clients_are_sampled(public_traces: Path, file: str, offered: str, clients: int) -> None:
    path = public_traces / "servegen" / file
    with pytest.raises(BadInput, match=offered):
        read(path)
    result = read(path, mapping=at(0.5))
    assert len(requests_of(result)) == pytest.approx(0.5 * 86_400, rel=0.05)
    assert any(f"sampled from {clients} client models" in note for note in result.notes)


def test_published_rates_without_lengths_are_refused(public_traces: Path) -> None:
    with pytest.raises(BadInput, match="no lengths for them"):
        read(public_traces / "servegen" / "language_m-mid_m-large_rates_only.tar.xz", mapping=at(1))
