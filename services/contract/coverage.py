"""Score and solve over HTTP: what a list does to a stored trace, and the best list of every length."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from services.contract.budget import BudgetModel
from services.contract.lint import ProblemModel, Size
from services.contract.plain import Answer, Request, plain, shown
from services.contract.scorecard import FrontPointModel, ListsModel, ScorecardModel
from services.contract.serving import ServingOptionsModel, ServingReportModel
from services.contract.trace import FamilyHistogramModel, families_of
from tuner.coverage import Bucket, Coverage
from tuner.engines.base import Engine, Lists
from tuner.front import Front
from tuner.recommendation import Objective
from tuner.traffic import Observed

MOST_SIZES = 2048
EXAMPLE = {
    "trace_id": "24abd41820d1",
    "engine": "vllm@0.33.0",
    "profile": "h200-llama-3.1-8b",
    "options": {"max_num_seqs": "512"},
}
OptionText = Annotated[str, Field(max_length=1000)]


class CaseRequest(Request):
    """What runs: a stored trace on an engine, timed by a profile. `options` are the engine's own argument names."""

    trace_id: Annotated[str, Field(min_length=1, max_length=100)]
    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
    profile: Annotated[str, Field(min_length=1, max_length=300, examples=["h200-llama-3.1-8b"])]
    options: Annotated[dict[str, OptionText], Field(max_length=100)] = Field(default_factory=dict)
    serving: ServingOptionsModel = ServingOptionsModel()


class ScoreRequest(CaseRequest):
    """`lists` by the engine's own names; without it the engine's default is scored. `drops` scores every shorter list
    too: what if one size were left out."""

    model_config = shown({**EXAMPLE, "lists": {"capture": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]}})

    lists: Annotated[dict[str, Annotated[list[Size], Field(max_length=MOST_SIZES)]], Field(max_length=20)] | None = None
    drops: bool = False


class SolveRequest(CaseRequest):
    """The constraints of the front."""

    model_config = shown({**EXAMPLE, "budget": {"regret": 0.1, "max_length": 16}})

    budget: BudgetModel = BudgetModel()
    objective: Objective = "step"


class DropModel(Answer):
    """The figures of the list without one size."""

    mean_step_ms: float | None
    tpot_ms: float | None
    worst_regret: float | None
    fallback_rate: float
    capture_s: float | None
    memory_mib: float | None


class BucketModel(Answer):
    """See `tuner.coverage.Bucket`."""

    size: int
    steps: float
    exact_steps: float
    padded_slots: float
    step_ms: float
    replay_ms: float | None
    measured: bool
    fallback_ms: float | None
    capture_s: float | None
    memory_mib: float | None
    break_even_steps: float | None
    next_size: int | None
    saved_ms_per_step: float | None
    marginal_break_even_steps: float | None
    without: DropModel | None

    @classmethod
    def from_domain(cls, bucket: Bucket) -> Self:
        return cls.model_validate(plain(bucket))


class CoverageModel(Answer):
    """The keys of `captune score`, its buckets, and the steps that they rest on.

    `reachable` is the largest step that the scheduler can make; `steps_per_s` is null where steps carry no time.
    """

    engine: str
    scorecard: ScorecardModel
    buckets: tuple[BucketModel, ...]
    families: dict[str, FamilyHistogramModel]
    decode_family: str
    reachable: int
    requested: ListsModel
    effective: ListsModel
    problems: tuple[ProblemModel, ...]
    serving: ServingReportModel | None
    steps_per_s: float | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, engine: Engine, options: object, lists: Lists, observed: Observed, coverage: Coverage) -> Self:
        """`options` come from `engine.options`."""
        span_s = observed.steps.span_s
        return cls(
            engine=engine.spec,
            scorecard=ScorecardModel.from_domain(coverage.scorecard),
            buckets=tuple(BucketModel.from_domain(bucket) for bucket in coverage.buckets),
            families=families_of(observed.histograms),
            decode_family=observed.decode_family,
            reachable=observed.reachable,
            requested={name: tuple(sizes) for name, sizes in lists.items()},
            effective={name: tuple(sizes) for name, sizes in engine.effective(lists, options).families.items()},
            problems=tuple(ProblemModel.from_domain(problem) for problem in engine.lint(lists, options)),
            serving=None if observed.report is None else ServingReportModel.from_domain(observed.report),
            steps_per_s=observed.steps.total_steps / span_s if span_s else None,
            notes=observed.notes,
        )


class FrontModel(Answer):
    """The keys of `captune solve`."""

    front: tuple[FrontPointModel, ...]
    floor_step_ms: float
    optimal: bool
    gap: float
    solve_ms: float
    notes: tuple[str, ...] = ()

    @classmethod
    def from_domain(cls, front: Front, *, notes: tuple[str, ...] = ()) -> Self:
        return cls(
            front=tuple(FrontPointModel.from_domain(point) for point in front.points),
            floor_step_ms=front.floor_step_ms,
            optimal=front.optimal,
            gap=front.gap,
            solve_ms=front.solve_ms,
            notes=notes,
        )
