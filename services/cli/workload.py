"""From the command line to a workload: SOURCE, engine, profile and serving options, resolved once for every command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.catalog import DEFAULT_PROFILE, find_profile, find_traffic
from services.cli.options import EngineChoice, PolicyChoice, choose_engine_or_none, serving_options
from services.cli.stored import lazy_store
from tuner.cost_profile import CostProfile
from tuner.engines.base import Lists
from tuner.recommendation import ServingOptions
from tuner.traffic import Observed, observe
from workloads.errors import BadUsage
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult

__all__ = ["DEFAULT_PROFILE", "Workload", "open_profile", "open_workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """One SOURCE as a command sees it."""

    name: str
    read: ReadResult
    choice: EngineChoice | None
    serving: ServingOptions

    @property
    def needs_simulation(self) -> bool:
        return self.read.kind == "requests"

    def observe(self, profile: CostProfile | None, lists: Lists | None = None) -> Observed:
        """Histograms of this workload; a request trace is simulated with the step times of `lists` (default: the
        engine's own)."""
        engine = self.choice.engine if self.choice else None
        options = self.choice.options if self.choice else None
        return observe(self.read.traffic, engine, options, profile, self.serving, lists)


def open_workload(
    source: str,
    *,
    engine: str | None = None,
    sets: Sequence[str] | None = None,
    policy: PolicyChoice | None = None,
    load: float = 1.0,
    engines: int = 1,
    max_running: int | None = None,
    kv_tokens: int | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> Workload:
    """Check the options first, then read SOURCE: a typo in an option costs no reading of a large file."""
    choice = choose_engine_or_none(engine, sets)
    serving = serving_options(policy, load, engines, max_running, kv_tokens)
    mapping = parse_columns(columns) if columns else None
    result, name = find_traffic(source, lazy_store(source), mapping=mapping, format=format)
    return Workload(name, result, choice, serving)


def open_profile(reference: str) -> CostProfile:
    return find_profile(reference, lazy_store(reference))


def parse_columns(text: str) -> ColumnMapping:
    """`ARRIVAL,INPUT,OUTPUT[,UNIT]` as a mapping."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (3, 4) or not all(parts):
        raise BadUsage("takes ARRIVAL,INPUT,OUTPUT or ARRIVAL,INPUT,OUTPUT,UNIT", field="--columns")
    arrival, input_tokens, output_tokens, *unit = parts
    if unit and unit[0] not in ("s", "ms", "us", "ns", "iso"):
        raise BadUsage(f"the unit is s, ms, us, ns or iso, not '{unit[0]}'", field="--columns")
    return ColumnMapping(arrival, input_tokens, output_tokens, unit[0] if unit else None)  # type: ignore[arg-type]
