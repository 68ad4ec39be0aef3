"""MappingModel: what the columns of a request file likely mean, and MappingRequest: what a person decided."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from services.contract.plain import Answer, Request
from workloads.traces.arrivals import ArrivalKind, ArrivalProcess
from workloads.traces.mapping import ColumnMapping, TimeUnit
from workloads.traces.proposal import MappingProposal

__all__ = ["MappingModel", "MappingRequest", "TimeUnit"]

_Name = Annotated[str, Field(min_length=1, max_length=300)]


class ColumnModel(Answer):
    """A column of the file; `example` is its first value where that is a number or a time, never text."""

    name: str
    kind: Literal["number", "time", "text", "empty"]
    example: str | None = None


class UnitReadingModel(Answer):
    """What a unit would make of the sampled arrivals."""

    unit: TimeUnit
    span_s: float
    rate_per_s: float | None = None


class MappingModel(Answer):
    """A proposed mapping; without questions it can be used as it stands.

    `format` is set where the file is read without a mapping; `option` is the proposal for `captune trace import`.
    """

    format: str | None = None
    columns: tuple[ColumnModel, ...] = ()
    arrival: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None
    time_unit: TimeUnit | None = None
    unit_readings: tuple[UnitReadingModel, ...] = ()
    questions: tuple[str, ...] = ()
    option: str | None = None

    @classmethod
    def from_domain(cls, proposal: MappingProposal) -> Self:
        mapping = proposal.mapping
        names = (mapping.arrival, mapping.input_tokens, mapping.output_tokens)
        given = [name for name in (*names, mapping.time_unit) if name]
        whole = all(names) and not any("," in str(name) for name in names)
        return cls(
            format=proposal.format,
            columns=tuple(ColumnModel(name=c.name, kind=c.kind, example=c.example) for c in proposal.columns),
            arrival=mapping.arrival,
            input_tokens=mapping.input_tokens,
            output_tokens=mapping.output_tokens,
            time_unit=mapping.time_unit,
            unit_readings=tuple(
                UnitReadingModel(unit=r.unit, span_s=r.span_s, rate_per_s=r.rate_per_s) for r in proposal.unit_readings
            ),
            questions=proposal.questions,
            option=f"--columns '{','.join(given)}'" if whole else None,
        )


class ArrivalsRequest(Request):
    """An arrival process in place of recorded times."""

    kind: ArrivalKind
    rate_per_s: Annotated[float, Field(gt=0, lt=1e6)]
    cv: Annotated[float, Field(gt=0, lt=1e3)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class MappingRequest(Request):
    """How an uploaded request file is to be read; what is left out is found in the file."""

    format: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    arrival: _Name | None = None
    input_tokens: _Name | None = None
    output_tokens: _Name | None = None
    time_unit: TimeUnit | None = None
    time_zone: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    time_scale: Annotated[float, Field(gt=0, lt=1e9)] = 1.0
    arrivals: ArrivalsRequest | None = None
    spread_ticks_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    def to_domain(self) -> ColumnMapping:
        """Raises:
        BadUsage: no such time zone.
        """
        arrivals = None if self.arrivals is None else ArrivalProcess(**self.arrivals.model_dump())
        return ColumnMapping(
            self.arrival,
            self.input_tokens,
            self.output_tokens,
            self.time_unit,
            self.time_zone,
            self.time_scale,
            arrivals,
            self.spread_ticks_seed,
        )
