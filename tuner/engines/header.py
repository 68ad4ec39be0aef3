"""The comment at the top of every export, which an import reads back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from packaging.version import Version

from tuner.engines.base import Provenance

_TITLE = re.compile(r"^# Capture sizes by Captune for (\S+@\S+)", re.MULTILINE)
_PAIRS = re.compile(r"^# made for (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says: the engine it was made for, and the options that its lists assume."""

    engine: str
    options: Mapping[str, str]


def header(engine: str, version: Version, provenance: Provenance, assumes: str) -> str:
    """Comment lines with engine, recommendation, digest, date and the options the lists were made for."""
    parts = [f"recommendation {provenance.recommendation_id}" if provenance.recommendation_id else ""]
    parts.append(f"digest {provenance.digest}" if provenance.digest else "")
    parts.append(provenance.created_at or "")
    origin = ", ".join(part for part in parts if part)
    lines = [f"# Capture sizes by Captune for {engine}@{version}", f"# {origin}" if origin else ""]
    lines.append(f"# made for {assumes}" if assumes else "")
    return "".join(f"{line}\n" for line in lines if line)


def assumed(options: Any, parse: Callable[[Mapping[str, str]], Any], always: Iterable[str]) -> str:
    """`key=value ...` such that `parse` of them gives `options` again; `always` are shown whatever they are."""
    kept = {name: _text(getattr(options, name)) for name in always}
    for _ in fields(options):
        made = parse(kept)
        missing = [item.name for item in fields(options) if getattr(made, item.name) != getattr(options, item.name)]
        if not missing:
            break
        # One at a time: a value that was asked for can decide the default of the next.
        kept[missing[0]] = _text(getattr(options, missing[0]))
    return " ".join(f"{key}={value}" for key, value in kept.items() if " " not in value)


def read_header(text: str) -> Header | None:
    """The header of an export inside `text`; None where there is none."""
    title = _TITLE.search(text)
    if title is None:
        return None
    line = _PAIRS.search(text)
    words = line.group(1).split() if line else []
    return Header(title.group(1), dict(word.split("=", 1) for word in words if "=" in word))


def join_sizes(sizes: Iterable[int]) -> str:
    return " ".join(str(size) for size in sizes)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
