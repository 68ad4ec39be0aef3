"""Prometheus: text scrapes one after the other in a file, and range-query JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workloads.traces.base import Probe, Reader
from workloads.traces.log_lines import candidate_lines, pieces
from workloads.traces.log_reader import Evidence, interval_s
from workloads.traces.mapping import ColumnMapping
from workloads.traces.prometheus_steps import GAUGE_LINE, RUNNING, SERIES, WANTED, ScrapeSteps
from workloads.traces.prometheus_text import Scrape, range_query, scrapes_of
from workloads.traces.records import ReadResult
from workloads.traces.source import Source
from workloads.traces.step_result import gather, result_of

_SNAPSHOT = "the gauge is a snapshot at each scrape and counts requests, prefilling ones included"
_WEIGHTED = (
    "each scrape's running requests stand for all decode steps that the graph-pass counters saw since the scrape before"
)


class PrometheusText(Reader):
    name = "prometheus"
    description = "Prometheus text scrapes of an engine's /metrics, one or more in a file"
    told_by = "a running-requests gauge of a known engine at the start of a line"

    def recognise(self, probe: Probe) -> int:
        source = probe.source
        if source.is_parquet or source.is_msgpack or source.is_tar or probe.document is not None:
            return 0
        return 85 if b"\0" not in source.peek and GAUGE_LINE.search(source.head) else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        return _read(self.name, probe.source, scrapes_of(_lines(probe.source), WANTED))


class PrometheusRange(Reader):
    name = "prometheus-range"
    description = "answer of a Prometheus range query, JSON"
    told_by = '`"resultType": "matrix"` and a running-requests gauge of a known engine'

    def recognise(self, probe: Probe) -> int:
        source = probe.source
        if source.is_parquet or source.is_msgpack or source.is_tar:
            return 0
        return 93 if b'"resultType"' in source.peek and b'"matrix"' in source.peek else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        return _read(self.name, probe.source, range_query(probe.source, WANTED))


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """Lines that may be samples of the series used, of the hundreds that an engine's answer has."""
    for first_line, data in pieces(source):
        lines = candidate_lines(data, first_line, SERIES)
        yield from zip(lines["line"], lines["text"].str.strip_chars_end("\r"), strict=True)


def _read(name: str, source: Source, scrapes: Iterable[Scrape]) -> ReadResult:
    steps = ScrapeSteps()
    gathered = gather(row for scrape in scrapes for row in steps.feed(scrape))
    if not gathered.tally.read:
        raise source.bad(f"no gauge of running requests here ({', '.join(RUNNING)})")
    notes = [_WEIGHTED if steps.counted else _SNAPSHOT]
    if steps.restarts:
        notes.append(f"counters started again {steps.restarts} times: the engine restarted")
    return result_of(
        name,
        source,
        gathered,
        lambda rows: Evidence(
            "reconstruction" if steps.counted else "sample", None, interval_s(rows), None, None, tuple(notes)
        ),
        families=("decode_full",),
        units=("requests",),
        writers="engines",
        observation=steps.observation(),
    )
