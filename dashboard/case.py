"""What runs: trace, engine with options, profile and scheduler, chosen once and shared by several pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.lists import default_list
from dashboard.pickers import EngineChoice, ServingChoice, pick_engine, pick_profile, pick_serving, pick_trace
from dashboard.state import api
from services.contract.coverage import CoverageModel, ScoreRequest
from services.contract.profile import ProfileSummary
from services.contract.serving import ServingOptionsModel
from services.contract.trace import TraceModel


@dataclass(frozen=True, slots=True)
class CaseChoice:
    """Everything that a score depends on, the list aside."""

    trace: TraceModel
    engine: EngineChoice
    profile: ProfileSummary
    serving: ServingChoice

    def request(self, lists: Mapping[str, tuple[int, ...]] | None, *, drops: bool = False) -> ScoreRequest:
        return ScoreRequest(
            trace_id=self.trace.id or "",
            engine=self.engine.spec,
            profile=self.profile.ref,
            options=self.engine.options,
            serving=ServingOptionsModel.model_validate(self.serving.document()),
            lists=None if lists is None else {name: list(sizes) for name, sizes in lists.items()},
            drops=drops,
        )

    def score(self, lists: Mapping[str, tuple[int, ...]] | None, *, drops: bool = False) -> CoverageModel:
        """What a list does; None is the engine's default. Kept for a while."""
        return scored(self.request(lists, drops=drops).model_dump_json())

    def default_list(self) -> tuple[str, tuple[int, ...]]:
        return default_of(self.engine.spec, tuple(sorted(self.engine.options.items())))


def engine_of(trace: TraceModel) -> str | None:
    """The engine that wrote a log, as `name@version`."""
    seen = trace.observation
    return f"{seen.engine}@{seen.version}" if seen and seen.engine and seen.version else None


def pick_case() -> CaseChoice | None:
    """Controls for all of it; None where something is missing, which is then said."""
    trace = pick_trace()
    if trace is None:
        return None
    engine = pick_engine(engine_of(trace))
    serving = pick_serving() if trace.kind == "requests" else ServingChoice(None, 1.0, 1, None, None)
    profile = pick_profile()
    if profile is None or engine.problem:
        return None
    return CaseChoice(trace, engine, profile, serving)


@st.cache_data(ttl=600, max_entries=256, show_spinner=False)
def scored(request: str) -> CoverageModel:
    """The answer to a `ScoreRequest` as JSON; equal requests have equal answers."""
    return api().score(ScoreRequest.model_validate_json(request))


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def default_of(engine: str, options: tuple[tuple[str, str], ...]) -> tuple[str, tuple[int, ...]]:
    return default_list(engine, dict(options))


def query_of(case: CaseChoice) -> dict[str, Any]:
    """The URL query of histogram, audit and shape."""
    options = [f"{key}={value}" for key, value in case.engine.options.items()]
    document = case.serving.document() if case.trace.kind == "requests" else {}
    return {"engine": case.engine.spec, "set": options or None, "profile": case.profile.ref, **document}
