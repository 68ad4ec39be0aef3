"""The step record that `captune record` writes: JSON lines that can be cut off anywhere and appended to.

The first line is the head. Then come rows (`t` in Unix seconds, `size`, and what else is known), gaps, and what became
known of the engine, in the order in which they happened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from workloads.histogram import Origin, Unit
from workloads.traces.base import Probe, Reader
from workloads.traces.json_frames import parsed
from workloads.traces.json_table import JsonTable
from workloads.traces.log_lines import pieces
from workloads.traces.log_reader import UNREADABLE, Evidence
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import EngineObservation, ReadResult
from workloads.traces.source import Source
from workloads.traces.step_result import NEUTRAL, gather, result_of

VERSION = 1
_NUMBERS = ("step_ms", "kv_tokens")
_COUNTS = {"size": 2**40, "steps": 2**40, "padded_size": 2**40}
_SHOWN_GAPS = 3


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What the rows of a record are; see `StepTrace`."""

    source: str
    families: tuple[str, ...]
    units: tuple[Unit, ...]
    origin: Origin
    sample_every_steps: int | None = None
    sample_every_s: float | None = None
    family_origins: tuple[Origin, ...] | None = None


def head_line(head: RecordHead) -> str:
    return json.dumps({"captune_steps": VERSION, **asdict(head)}) + "\n"


def row_line(row: Mapping[str, Any]) -> str:
    """A row with the columns of STEP_ROW; neutral and unknown values are left out."""
    shown: dict[str, Any] = {} if _absent(row.get("time_s")) else {"t": round(float(row["time_s"]), 6)}
    for name in ("family", "size", "steps", "step_ms", "kv_tokens", "padded_size", "fallback", "engine"):
        value = row.get(name)
        if not _absent(value) and value != "" and value != NEUTRAL.get(name, ""):
            shown[name] = value
    return json.dumps(shown, allow_nan=False) + "\n"


def gap_line(from_s: float, to_s: float, reason: str) -> str:
    return json.dumps({"gap": {"from_s": round(from_s, 3), "to_s": round(to_s, 3), "reason": reason}}) + "\n"


def observation_line(observation: EngineObservation) -> str:
    return json.dumps({"observation": asdict(observation)}) + "\n"


class StepRecord(Reader):
    name = "captune-steps"
    description = "step record of captune record"
    told_by = "`captune_steps` in its first line"

    def recognise(self, probe: Probe) -> int:
        return 99 if isinstance(probe.table, JsonTable) and "captune_steps" in probe.table.sample[0] else 0

    def read(self, probe: Probe, mapping: ColumnMapping | None = None) -> ReadResult:
        source = probe.source
        head = _head(probe)
        heard = _Heard()
        gathered = gather(_rows(source, heard, len(head.families)))
        if not gathered.tally.read:
            raise source.bad("the record has no step yet")
        return result_of(
            self.name,
            source,
            gathered,
            lambda rows: Evidence(
                head.origin,
                head.sample_every_steps,
                head.sample_every_s,
                head.family_origins,
                notes=(f"recorded live from {head.source}", *heard.notes()),
            ),
            families=head.families,
            units=head.units,
            writers="engines or ranks",
            observation=heard.observation,
        )


class _Heard:
    """What stands between the rows."""

    def __init__(self) -> None:
        self.observation: EngineObservation | None = None
        self._gaps: list[tuple[float, str]] = []

    def take(self, row: Mapping[str, Any]) -> None:
        gap, seen = row.get("gap"), row.get("observation")
        if isinstance(gap, dict):
            seconds = (_number(gap.get("to_s")) or 0.0) - (_number(gap.get("from_s")) or 0.0)
            self._gaps.append((max(seconds, 0.0), str(gap.get("reason"))[:200]))
        elif isinstance(seen, dict):
            self.observation = _observation(seen)

    def notes(self) -> list[str]:
        if not self._gaps:
            return []
        shown = "; ".join(f"{seconds:.0f} s: {reason}" for seconds, reason in self._gaps[:_SHOWN_GAPS])
        more = f"; and {len(self._gaps) - _SHOWN_GAPS} more" if len(self._gaps) > _SHOWN_GAPS else ""
        total = sum(seconds for seconds, _ in self._gaps)
        return [f"the record has {len(self._gaps)} gaps of {total:.0f} s in all ({shown}{more})"]


def _head(probe: Probe) -> RecordHead:
    table = probe.table
    row = table.sample[0] if isinstance(table, JsonTable) else {}
    bad = probe.source.bad
    if row.get("captune_steps") != VERSION:
        raise bad(f"not a step record of version {VERSION}", line=1, field="captune_steps")
    families, units, origin = row.get("families"), row.get("units"), row.get("origin")
    named = isinstance(families, list) and families and all(isinstance(name, str) for name in families)
    if not named or len(families) > 100 or origin not in get_args(Origin):  # type: ignore[arg-type]
        raise bad("the head needs families and an origin", line=1, field="families")
    if not isinstance(units, list) or len(units) != len(families) or not set(units) <= set(get_args(Unit)):  # type: ignore[arg-type]
        raise bad("every family needs its unit", line=1, field="units")
    every_steps, every_s = _number(row.get("sample_every_steps")), _number(row.get("sample_every_s"))
    origins = row.get("family_origins")
    known = isinstance(origins, list) and len(origins) == len(families) and set(origins) <= set(get_args(Origin))  # type: ignore[arg-type]
    return RecordHead(
        str(row.get("source"))[:200],
        tuple(cast(list[str], families)),
        tuple(units),
        cast(Origin, origin),
        int(every_steps) if every_steps and every_steps >= 1 else None,
        every_s if every_s and every_s > 0 else None,
        tuple(cast(list[Origin], origins)) if known else None,
    )


def _rows(source: Source, heard: _Heard, families: int) -> Iterator[dict[str, Any]]:
    for first_line, data in pieces(source):
        for line, text in enumerate(data.decode("utf-8", errors="replace").split("\n"), first_line):
            if not text.strip():
                continue
            row = parsed(text)
            if row is None:
                yield {"line": line, "reason": UNREADABLE}  # the last line of a record that was killed
            elif "captune_steps" not in row:
                heard.take(row)
                if "gap" not in row and "observation" not in row:
                    yield _row(row, line, families)


def _row(row: Mapping[str, Any], line: int, families: int) -> dict[str, Any]:
    counts = {name: row.get(name, 0 if name == "padded_size" else 1) for name in _COUNTS}
    whole = all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < _COUNTS[n] for n, v in counts.items())
    family, fallback = row.get("family", 0), row.get("fallback", -1)
    if not whole or "size" not in row or family not in range(families) or fallback not in (-1, 0, 1):
        return {"line": line, "reason": UNREADABLE}
    if counts["size"] < 1 or counts["steps"] < 1:
        return {"line": line, "reason": "empty step"}
    numbers = {name: _number(row.get(name)) for name in _NUMBERS}
    extra = {"time_s": _number(row.get("t")), "engine": str(row.get("engine", ""))[:200]}
    return {"line": line, "family": int(family), "fallback": int(fallback), **counts, **numbers, **extra}


def _observation(seen: Mapping[str, Any]) -> EngineObservation:
    """What a record says of its engine; anything of another shape is left out."""
    lists, options, by_size = seen.get("lists"), seen.get("options"), seen.get("memory_by_size_mib")
    sizes = {
        str(name): tuple(sorted({int(size) for size in values if isinstance(size, int) and 0 < size < 10**9}))
        for name, values in (lists.items() if isinstance(lists, dict) else ())
        if isinstance(values, list)
    }
    memory = {
        int(size): float(mib)
        for size, mib in (by_size.items() if isinstance(by_size, dict) else ())
        if str(size).isdecimal() and _number(mib) is not None and len(str(size)) < 10
    }
    kv = _number(seen.get("kv_tokens"))
    return EngineObservation(
        engine=seen["engine"] if isinstance(seen.get("engine"), str) else None,
        version=seen["version"] if isinstance(seen.get("version"), str) else None,
        lists={name: values for name, values in sizes.items() if values},
        options={str(k): str(v)[:1000] for k, v in options.items()} if isinstance(options, dict) else {},
        capture_s=_number(seen.get("capture_s")),
        graph_memory_mib=_number(seen.get("graph_memory_mib")),
        kv_tokens=int(kv) if kv is not None and 0 <= kv < 2**62 else None,
        memory_by_size_mib=memory,
        setup_s=_number(seen.get("setup_s")),
        recording_s=_number(seen.get("recording_s")),
    )


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15 or not math.isfinite(value):
        return None
    return float(value)
