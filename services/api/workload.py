"""From a URL query to a workload: the options that histogram and audit share with the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from db.store import Store
from services.catalog import DEFAULT_PROFILE, find_profile
from services.contract.serving import ServingOptionsModel
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from tuner.engines.options import split_pairs
from tuner.engines.registry import engine as find_engine
from tuner.recommendation import ServingOptions
from tuner.traffic import Observed, observe
from workloads.arrays import as_sizes
from workloads.errors import BadUsage
from workloads.traces.records import ReadResult, RequestTrace


class WorkloadQuery(ServingOptionsModel):
    """`set` repeats KEY=VALUE; `sizes` is a decode list such as 1,2,4 (default: the engine's own)."""

    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])] | None = None
    set: Annotated[list[str], Field(max_length=200)] = Field(default_factory=list)
    profile: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    sizes: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None

    def serving(self) -> ServingOptions:
        """The part of the query that the simulation takes."""
        asked = self.model_dump(include=set(ServingOptionsModel.model_fields))
        return ServingOptionsModel.model_validate(asked).to_domain()


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine with the options that `set` gave."""

    engine: Engine
    options: Any


def choose_engine(spec: str, pairs: list[str]) -> EngineChoice:
    """Raises:
    BadUsage: unknown engine, version or key, or a pair without `=`.
    """
    chosen = find_engine(spec)
    return EngineChoice(chosen, chosen.options(split_pairs(pairs, field="set")))


def given_lists(sizes: str | None, choice: EngineChoice | None) -> Lists | None:
    """`sizes` as the decode list of the engine; None without it."""
    if sizes is None:
        return None
    try:
        numbers = [int(part) for part in sizes.split(",")]
    except ValueError:
        raise BadUsage("are whole numbers separated by commas", field="sizes") from None
    name = choice.engine.list_names[0] if choice else "decode"
    return {name: tuple(int(size) for size in as_sizes(numbers))}


def simulation_profile(store: Store, read: ReadResult, reference: str | None) -> CostProfile | None:
    """The profile whose step times a request trace is simulated with; None for recorded steps without one."""
    if reference is not None:
        return find_profile(reference, store, files=False)
    return find_profile(DEFAULT_PROFILE, store, files=False) if isinstance(read.traffic, RequestTrace) else None


def observe_query(
    store: Store, read: ReadResult, query: WorkloadQuery, choice: EngineChoice | None, lists: Lists | None
) -> tuple[Observed, str | None]:
    """The workload's steps, and the name of the profile that timed its simulation."""
    profile = simulation_profile(store, read, query.profile)
    engine, options = (choice.engine, choice.options) if choice else (None, None)
    observed = observe(read.traffic, engine, options, profile, query.serving(), lists)
    simulated = profile is not None and isinstance(read.traffic, RequestTrace)
    return observed, profile.name if simulated and profile else None
