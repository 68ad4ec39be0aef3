"""The comment at the top of every export."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from tuner.engines.base import Provenance


def header(engine: str, version: Version, provenance: Provenance, assumes: str) -> str:
    """Comment lines with engine, recommendation, digest, date and the options the lists were made for."""
    parts = [f"recommendation {provenance.recommendation_id}" if provenance.recommendation_id else ""]
    parts.append(f"digest {provenance.digest}" if provenance.digest else "")
    parts.append(provenance.created_at or "")
    origin = ", ".join(part for part in parts if part)
    lines = [f"# Capture sizes by Captune for {engine}@{version}", f"# {origin}" if origin else ""]
    lines.append(f"# made for {assumes}")
    return "".join(f"{line}\n" for line in lines if line)


def join_sizes(sizes: Iterable[int]) -> str:
    return " ".join(str(size) for size in sizes)
