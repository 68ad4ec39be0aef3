"""The contract: what goes out can be read back, what comes in is checked, nan never leaves."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from services.contract.budget import BudgetModel
from services.contract.error import ErrorModel
from services.contract.export import ExportModel
from services.contract.lint import LintModel, LintRequest
from services.contract.plain import plain
from services.contract.profile import ProfileSummary
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.contract.serving import ServingOptionsModel
from services.contract.sweep import SweepCreate
from services.contract.trace import TraceModel
from services.contract.trial import TrialModel
from tests.stores import cost_profile, read_result
from tuner.budget import Budget
from tuner.engines.base import Provenance
from tuner.engines.registry import engine
from tuner.recommend import recommend
from tuner.recommendation import Recommendation, ServingOptions, TuneRequest
from workloads.errors import BadInput


@pytest.fixture(scope="module")
def recommendation() -> Recommendation:
    chosen = engine("vllm@0.33.0")
    raw = {"max_num_seqs": "64"}
    request = TuneRequest(
        traffic=read_result(200).traffic,
        trace_name="day.csv",
        engine=chosen,
        options=chosen.options(raw),
        profile=cost_profile(largest=64),
        raw_options=raw,
        serving=ServingOptions(policy="decode"),
        trials=9,
    )
    return recommend(request)


def test_a_recommendation_survives_json_and_has_the_keys_of_the_command_contract(
    recommendation: Recommendation,
) -> None:
    model = RecommendationModel.from_domain(recommendation, engine="vllm@0.33.0", options={"max_num_seqs": "64"})
    text = model.model_dump_json()
    assert RecommendationModel.model_validate_json(text) == model
    document = json.loads(text)
    wanted = {"id", "lists", "scorecard", "default", "verdict", "reasons", "holdout", "evidence", "front", "histogram"}
    assert wanted | {"serving"} <= set(document)
    assert set(document["default"]) == {"lists", "scorecard"}
    scores = {"lists", "list_length", "graphs", "exact_hit_rate", "hit_rate", "fallback_rate", "padding_waste"}
    scores |= {"mean_step_ms", "tpot_ms", "p99_step_ms", "worst_regret", "capture_s", "memory_mib"}
    assert scores <= set(document["scorecard"])
    assert "NaN" not in text and "Infinity" not in text
    assert not {"id", "sweep_id", "created_at"} & set(model.document())


def test_unknown_figures_are_null(recommendation: Recommendation) -> None:
    card = replace(recommendation.scorecard, mean_step_ms=math.nan, capture_s=None)
    model = ScorecardModel.from_domain(card)
    assert model.mean_step_ms is None and model.capture_s is None


def test_every_trial_survives_json(recommendation: Recommendation) -> None:
    for trial in recommendation.trials:
        model = TrialModel.from_domain(trial)
        assert TrialModel.model_validate_json(model.model_dump_json()) == model
        assert model.number == trial.number


def test_plain_leaves_only_json() -> None:
    value = {1: np.int64(3), "a": (np.float64("nan"), np.array([1.5, math.inf])), "b": Budget(regret=math.inf)}
    document = plain(value)
    assert document["1"] == 3 and document["a"] == [None, [1.5, None]] and document["b"]["regret"] is None
    json.dumps(document, allow_nan=False)


def test_requests_refuse_what_they_do_not_know() -> None:
    base = {"trace_id": "x", "engine": "vllm@0.33.0", "profile": "p"}
    assert SweepCreate.model_validate(base).trials == 24
    for wrong in ({"colour": 1}, {"trials": 0}, {"profile": "measure"}, {"model": "m"}, {"serving": {"load": -1}}):
        with pytest.raises(ValidationError):
            SweepCreate.model_validate({**base, **wrong})
    with pytest.raises(ValidationError):
        LintRequest.model_validate({"engine": "vllm", "lists": {"capture": [1]}, "default": True})


def test_budget_and_serving_become_domain_values() -> None:
    assert BudgetModel(regret=None, max_length=4).to_domain() == Budget(math.inf, 4)
    assert BudgetModel().to_domain() == Budget()
    assert ServingOptionsModel(policy="decode", load=2).to_domain() == ServingOptions("decode", 2.0)


def test_an_error_keeps_its_fields() -> None:
    model = ErrorModel.from_domain(BadInput("is negative", file="a.csv", line=3, field="count"))
    assert (model.status, model.code, model.line) == (422, "bad_input", 3)
    assert model.detail == "a.csv:3: count: is negative"


def test_traces_and_profiles_are_described_without_their_columns() -> None:
    trace = TraceModel.from_domain(read_result(100), name="day.csv")
    assert trace.rows_read == trace.rows_kept + sum(trace.dropped.values()) == 101
    assert trace.summary["requests"] == 100
    profile = ProfileSummary.from_domain(cost_profile(), origin="file")
    family = profile.families["decode_full"]
    assert (family.points, family.smallest, family.largest, family.inversions) == (64, 1, 64, 7)
    assert family.knows_fallback and profile.knows_prefill


@pytest.mark.parametrize("spec", ["vllm@0.33.0", "sglang@0.5.23", "tensorrt-llm@1.3"])
def test_export_and_lint_agree_with_the_engine(spec: str) -> None:
    chosen = engine(spec)
    options = chosen.options({})
    lists = {chosen.list_names[0]: (1, 2, 4, 8)}
    export = ExportModel.of(chosen, lists, options, Provenance("abc"))
    lint = LintModel.of(chosen, lists, options)
    assert export.requested == lint.requested == lists
    assert export.effective == lint.effective
    assert "abc" in export.text and export.watch
