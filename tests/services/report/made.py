"""A recommendation to report, made as `captune tune` makes it."""

from __future__ import annotations

from functools import cache

import numpy as np

from services.contract.recommendation import RecommendationModel
from tests.tuner.curves import SIZES, family
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.recommend import recommend
from tuner.recommendation import ServingOptions, TuneRequest
from workloads.serving.goodput import Slo
from workloads.traces.records import RequestTrace


@cache
def made() -> RecommendationModel:
    """A real recommendation, its trace named as an attacker would."""
    rng = np.random.default_rng(2)
    arrival_s = np.cumsum(rng.exponential(0.02, 1500))
    trace = RequestTrace(arrival_s - arrival_s[0], rng.integers(50, 900, 1500), rng.integers(2, 300, 1500))
    vllm, raw = engine("vllm@0.33.0"), {"max_num_seqs": "512", "weights_gib": "16", "kv_bytes_per_token": "131072"}
    profile = CostProfile("h200-like", {"decode_full": family(SIZES)}, device={"name": "synthetic"}, starts=2)
    serving = ServingOptions(policy="decode", slo=Slo(tpot_ms=20.0))
    name = "<script>alert(1)</script>|x"
    request = TuneRequest(trace, name, vllm, vllm.options(raw), profile, raw, serving, trials=4)
    return RecommendationModel.from_domain(recommend(request), engine=vllm.spec, options=raw)
