"""From the command line to a workload: SOURCE, engine, profile and serving options, resolved once for every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec

from services.catalog import DEFAULT_PROFILE, find_profile, find_traffic
from services.cli.options import (
    Acceptance,
    Arrivals,
    Columns,
    DpAttention,
    EngineChoice,
    EngineName,
    Engines,
    Format,
    KvTokens,
    Load,
    MaxRunning,
    Policy,
    Preempt,
    PrefixCache,
    Sets,
    Source,
    SpecTokens,
    SpreadTicks,
    TimeScale,
    TimeZone,
    choose_engine_or_none,
)
from services.cli.stored import lazy_store
from tuner.cost_profile import CostProfile
from tuner.engines.base import Lists
from tuner.recommendation import ServingOptions
from tuner.traffic import Observed, observe
from workloads.errors import BadUsage
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult

__all__ = ["DEFAULT_PROFILE", "Asked", "Workload", "open_profile", "workload_command"]

P = ParamSpec("P")


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of a workload, not yet looked at."""

    source: str
    engine: str | None = None
    sets: Sequence[str] | None = None
    serving: ServingOptions = field(default_factory=ServingOptions)
    format: str | None = None
    columns: str | None = None
    arrivals: str | None = None
    time_zone: str | None = None
    time_scale: float = 1.0
    spread_ticks: int | None = None

    def mapping(self) -> ColumnMapping | None:
        """How a request file is to be read; None where the command line says nothing about it.

        Raises:
            BadUsage: an option is wrong.
        """
        columns = parse_columns(self.columns, self.arrivals is not None) if self.columns else ColumnMapping()
        mapping = replace(
            columns,
            arrivals=ArrivalProcess.parse(self.arrivals) if self.arrivals else None,
            time_zone=self.time_zone,
            time_scale=self.time_scale,
            spread_ticks_seed=self.spread_ticks,
        )
        return None if mapping == ColumnMapping() else mapping

    def open(self) -> Workload:
        """Check the options first, then read SOURCE: a typo in an option costs no reading of a large file.

        Raises:
            BadUsage: an option is wrong.
            BadInput: SOURCE is not a trace.
        """
        choice = choose_engine_or_none(self.engine, self.sets)
        mapping = self.mapping()
        result, name = find_traffic(self.source, lazy_store(self.source), mapping=mapping, format=self.format)
        return Workload(name, result, choice, self.serving)


def _asked(
    source: Source,
    engine: EngineName = None,
    sets: Sets = None,
    policy: Policy = None,
    load: Load = 1.0,
    engines: Engines = 1,
    max_running: MaxRunning = None,
    kv_tokens: KvTokens = None,
    preempt: Preempt = False,
    prefix_cache: PrefixCache = False,
    acceptance: Acceptance = None,
    spec_tokens: SpecTokens = None,
    dp_attention: DpAttention = None,
    format: Format = None,
    columns: Columns = None,
    arrivals: Arrivals = None,
    time_zone: TimeZone = None,
    time_scale: TimeScale = 1.0,
    spread_ticks: SpreadTicks = None,
) -> Asked:
    serving = ServingOptions(
        policy,
        load,
        engines,
        max_running,
        kv_tokens,
        preempt=preempt,
        prefix_cache=prefix_cache,
        acceptance=acceptance,
        spec_tokens=spec_tokens,
        dp_attention=dp_attention,
    )
    reading = (format, columns, arrivals, time_zone, time_scale, spread_ticks)
    return Asked(source, engine, sets, serving, *reading)


def workload_command(command: Callable[Concatenate[Asked, P], None]) -> Callable[..., None]:
    """Give a command every option that describes a workload; it gets them as one `Asked` in its first place.

    Typer reads options from a signature, so the two signatures are joined into one.
    """
    shared = list(inspect.signature(_asked, eval_str=True).parameters.values())
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    def run(**values: Any) -> None:
        asked = _asked(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        command(asked, **values)  # type: ignore[call-arg]  # the joined signature has both

    joined = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*shared, *own)]
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in joined}
    run.__signature__ = inspect.Signature(joined)  # type: ignore[attr-defined]
    return run


def without_source(command: Callable[..., None]) -> Callable[..., None]:
    """Make SOURCE optional for a `workload_command`; where it is left out, `Asked.source` is empty."""
    signature = inspect.signature(command)
    source = signature.parameters["source"].replace(default="")
    rest = [parameter for name, parameter in signature.parameters.items() if name != "source"]
    command.__signature__ = signature.replace(parameters=[source, *rest])  # type: ignore[attr-defined]
    return command


def open_profile(reference: str) -> CostProfile:
    return find_profile(reference, lazy_store(reference))


def parse_columns(text: str, without_times: bool = False) -> ColumnMapping:
    """`ARRIVAL,INPUT,OUTPUT[,UNIT]` as a mapping; with an arrival process the first name may be left empty."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (3, 4) or not all(parts[1 if without_times else 0 :]):
        raise BadUsage("takes ARRIVAL,INPUT,OUTPUT or ARRIVAL,INPUT,OUTPUT,UNIT", field="--columns")
    arrival, input_tokens, output_tokens, *unit = parts
    if unit and unit[0] not in ("s", "ms", "us", "ns", "iso"):
        raise BadUsage(f"the unit is s, ms, us, ns or iso, not '{unit[0]}'", field="--columns")
    return ColumnMapping(arrival or None, input_tokens, output_tokens, unit[0] if unit else None)  # type: ignore[arg-type]
