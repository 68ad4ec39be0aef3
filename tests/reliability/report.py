"""What a run found, and the page that it writes: every promise is a line that was kept or broken."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
SHOWN = ("fastapi", "uvicorn", "sqlalchemy", "psycopg", "ray", "optuna", "torch")


@dataclass
class Part:
    """One part of a run: promises with whether they were kept, and figures."""

    title: str
    about: str
    promises: list[tuple[str, bool]] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    error: str | None = None
    took_s: float = 0.0

    def promise(self, text: str, kept: bool, found: object = None) -> None:
        """`found` is shown beside a promise that was broken."""
        self.promises.append((text if kept or found is None else f"{text}; found: {found}", kept))

    @property
    def well(self) -> bool:
        return self.error is None and bool(self.promises) and all(kept for _, kept in self.promises)

    def lines(self) -> list[str]:
        rows = [f"## {self.title}", "", self.about, ""]
        rows += [f"- {'kept' if kept else '**BROKEN**'}: {text}" for text, kept in self.promises]
        if self.error is not None:
            rows.append(f"- **DID NOT END**: {self.error}")
        return [*rows, *(f"- {figure}" for figure in self.figures), f"- took {self.took_s:.0f} s", ""]


def write(parts: list[Part], command: str, took_s: float, page: Path = PAGE) -> None:
    """The page, with broken promises on top."""
    broken = sum(not part.well for part in parts)
    summary = (
        f"All {len(parts)} parts kept what they promise."
        if not broken
        else f"**{broken} of {len(parts)} parts failed.**"
    )
    software = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    load = os.getloadavg()
    lines = [
        "# Reliability",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC in {took_s:.0f} s. {summary}",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load at the end {load[0]:.1f} "
        f"(of the last 15 minutes {load[2]:.1f}), Python {platform.python_version()}, {software}.",
        "",
        *(line for part in parts for line in part.lines()),
    ]
    page.write_text("\n".join(lines))


def say(text: str) -> None:
    """Progress, at once."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
    sys.stderr.flush()
