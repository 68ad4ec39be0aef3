"""Prometheus samples: the text that an engine's /metrics answers, and the JSON of a range query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workloads.traces.source import Source

MAX_DOCUMENT_BYTES = 256 << 20
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d{1,16}))?\s*(?:#.*)?$")
_LABEL = re.compile(r'\b(\w++)="((?:[^"\\]|\\.)*+)"')  # possessive: linear, however long a torn label is


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class Scrape:
    """All samples of one moment; `time_s` is Unix time or None, `line` where it begins."""

    time_s: float | None
    line: int
    samples: list[Sample] = field(default_factory=list)


def parse_line(text: str) -> tuple[Sample, float | None] | None:
    """A sample with its own time in seconds, if it has one; None for a comment or anything else."""
    if not text or text[0] == "#":
        return None
    match = _SAMPLE.match(text)
    if match is None:
        return None
    name, labels, value, stamp = match.groups()
    try:
        number = float(value)
    except ValueError:
        return None
    return Sample(name, dict(_LABEL.findall(labels or "")), number), int(stamp) / 1000 if stamp else None


def scrapes_of(lines: Iterable[tuple[int, str]], wanted: re.Pattern[str]) -> Iterator[Scrape]:
    """Samples whose name `wanted` matches, one scrape after the other: a series that comes again begins the next."""
    now = Scrape(None, 0)
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for number, text in lines:
        if not wanted.match(text):
            continue
        parsed = parse_line(text)
        if parsed is None:
            continue
        sample, time_s = parsed
        series = (sample.name, tuple(sorted(sample.labels.items())))
        if series in seen:
            yield now
            now, seen = Scrape(None, 0), set()
        seen.add(series)
        now.time_s = time_s if now.time_s is None else now.time_s
        now.line = now.line or number
        now.samples.append(sample)
    if now.samples:
        yield now


def range_query(source: Source, wanted: re.Pattern[str]) -> list[Scrape]:
    """The series of a range query (`resultType: matrix`), by moment.

    Raises:
        BadInput: not such a document, or a series without a name: a sum over engines.
    """
    try:
        document = json.loads(source.whole(MAX_DOCUMENT_BYTES))
        series = document["data"]["result"]
        pairs = [(entry["metric"], entry["values"]) for entry in series]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise source.bad("no answer of a Prometheus range query (data.result with metric and values)") from error
    moments: dict[float, Scrape] = {}
    for metric, values in pairs:
        if not isinstance(metric, dict) or not isinstance(values, list):
            raise source.bad("a series needs its labels and a list of values", field="data.result")
        name = metric.get("__name__")
        if not isinstance(name, str):
            raise source.bad(
                "a series has no name, so it is a sum or another expression over engines; query the plain metric",
                field="data.result.metric",
            )
        if wanted.match(name):
            labels = {str(key): str(value) for key, value in metric.items() if key != "__name__"}
            _add(source, moments, name, labels, values)
    return [moments[time_s] for time_s in sorted(moments)]


def _add(source: Source, moments: dict[float, Scrape], name: str, labels: dict[str, str], values: list[Any]) -> None:
    for entry in values:
        try:
            time_s, value = float(entry[0]), float(entry[1])
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise source.bad(f"{str(entry)[:60]!r} is not a pair of time and value", field=name) from error
        if abs(time_s) < 1e15:
            moments.setdefault(time_s, Scrape(time_s, 1)).samples.append(Sample(name, labels, value))
