"""Score a list on a stored trace, and solve for the best list of every length."""

from __future__ import annotations

from fastapi import APIRouter

from db.store import Store
from services.api.context import InStore
from services.catalog import find_profile
from services.contract.coverage import CaseRequest, CoverageModel, FrontModel, ScoreRequest, SolveRequest
from tuner.budget import Budget
from tuner.case import Case
from tuner.coverage import cover
from tuner.engines.base import Lists
from tuner.engines.registry import engine as find_engine
from tuner.recommendation import Objective
from tuner.traffic import observe
from workloads.arrays import as_sizes
from workloads.errors import BadUsage

router = APIRouter(tags=["coverage"])


@router.post("/score")
def score(store: InStore, request: ScoreRequest) -> CoverageModel:
    """What a list does to a trace, size by size; requests are simulated with the list's own step times."""
    case = _case(store, request, Budget(), "step")
    lists = _lists(case, request.lists)
    read = store.traces.load(request.trace_id)
    observed = observe(read.traffic, case.engine, case.options, case.profile, case.serving, lists)
    coverage = cover(case.engine, case.options, case.profile, observed, lists, drops=request.drops)
    return CoverageModel.of(case.engine, case.options, lists, observed, coverage)


@router.post("/solve")
def solve(store: InStore, request: SolveRequest) -> FrontModel:
    """The provably best list of every length under the budget."""
    case = _case(store, request, request.budget.to_domain(), request.objective)
    read = store.traces.load(request.trace_id)
    front = case.front(case.observe(read.traffic, case.default_lists()))
    return FrontModel.from_domain(front, notes=(*read.notes, *case.notes))


def _case(store: Store, request: CaseRequest, budget: Budget, objective: Objective) -> Case:
    engine = find_engine(request.engine)
    profile = find_profile(request.profile, store, files=False)
    options = engine.options(request.options)
    return Case(engine, options, profile, request.serving.to_domain(), budget, objective)


def _lists(case: Case, given: dict[str, list[int]] | None) -> Lists:
    if given is None:
        return case.engine.default_lists(case.options)
    unknown = sorted(set(given) - set(case.engine.list_names))
    if unknown:
        known = ", ".join(case.engine.list_names)
        raise BadUsage(f"{case.engine.name} has no list '{unknown[0]}', only {known}", field="lists")
    if not all(given.values()):
        raise BadUsage("a list needs at least one size", field="lists")
    return {name: tuple(int(size) for size in as_sizes(sizes)) for name, sizes in given.items()}
