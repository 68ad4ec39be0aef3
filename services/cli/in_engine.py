"""What the command line asks of a comparison inside a real engine; `verify_engine` does it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.capture.probes.base import Way
from services.contract.recommendation import RecommendationModel
from tuner.engines.base import Lists


@dataclass(frozen=True, slots=True)
class InEngine:
    """What the command line asks of the engine.

    Attributes:
        python: what starts Python with the engine installed, as words of a shell.
        lists: compared in place of a list tuned here, and where they are from.
        recommendation: the stored document whose lists these are.
        ready_s: most seconds from start to ready.
    """

    model: str | None
    records: Path | None
    way: Way
    python: str
    starts: int
    profile_starts: int
    serve_s: float
    replay_steps: int
    repeats: int
    ready_s: float
    lists: Lists | None = None
    lists_from: str | None = None
    recommendation: RecommendationModel | None = None
