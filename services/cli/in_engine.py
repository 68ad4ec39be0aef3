"""What the command line asks of a comparison inside a real engine; `verify_engine` does it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.capture.probes.base import Way
from services.contract.recommendation import RecommendationModel
from tuner.budget import Budget
from tuner.engines.base import Lists
from workloads.errors import BadUsage


@dataclass(frozen=True, slots=True)
class InEngine:
    """What the command line asks of the engine.

    Attributes:
        also: (SOURCE, load) of further workloads that the same list is to serve.
        limit_s: no start begins that would be over later than this after the command's begin; None is no limit.
        python: what starts Python with the engine installed, as words of a shell.
        budget: of the list that is chosen here.
        lists: compared in place of a list tuned here, and where they are from.
        recommendation: the stored document whose lists these are.
        ready_s: most seconds from start to ready.
        gpus: engines at a time on a Ray cluster; None starts them on this machine.
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
    limit_s: float | None
    also: tuple[tuple[str, float], ...]
    budget: Budget
    lists: Lists | None = None
    lists_from: str | None = None
    recommendation: RecommendationModel | None = None
    gpus: int | None = None


def parse_also(text: str, load: float) -> tuple[str, float]:
    """`SOURCE[@LOAD]`; a source without a load of its own has `load`.

    Raises:
        BadUsage: the load is not above 0.
    """
    source, at, own = text.rpartition("@")
    try:
        given = float(own)
    except ValueError:  # no load, but a name with an @ in it
        return text, load
    if not at or not source:
        return text, load
    if not 0 < given < float("inf"):
        raise BadUsage(f"the load after @ must be above 0, not {own}", field="--also")
    return source, given
