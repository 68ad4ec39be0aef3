"""Which bucket a step runs in, under every rule that engines have."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.dispatch import DispatchTable, FamilyDispatch

BUCKETS = st.sets(st.integers(1, 60), max_size=8).map(sorted)
STEPS = st.lists(st.integers(1, 70), min_size=1, max_size=12)


@given(BUCKETS, STEPS, st.booleans(), st.sampled_from([None, 1.0, 1.5, 2.0]))
def test_smallest_large_enough_bucket_unless_the_engine_refuses_it(
    buckets: list[int], steps: list[int], exact_only: bool, factor: float | None
) -> None:
    rule = FamilyDispatch(np.array(buckets, dtype=np.int64), exact_only, factor)
    for step, bucket in zip(steps, rule.bucket_of(np.array(steps)), strict=True):
        expected = min((b for b in buckets if b >= step), default=0)
        if (exact_only and expected != step) or (factor is not None and expected > factor * step):
            expected = 0
        assert bucket == expected


def test_a_step_without_a_full_graph_tries_piecewise_before_eager() -> None:
    table = DispatchTable(
        {
            "decode_full": FamilyDispatch(np.array([1, 8]), otherwise="decode_piecewise"),
            "decode_piecewise": FamilyDispatch(np.array([1, 8, 16])),
        }
    )
    went = table.dispatch("decode_full", np.array([5, 9, 17]))
    assert went.bucket.tolist() == [8, 16, 0]
    assert went.elsewhere.tolist() == [False, True, False]
    assert went.fallback.tolist() == [False, False, True]


def test_a_family_without_a_rule_falls_back() -> None:
    table = DispatchTable.plain("decode_full", np.array([4]))
    assert table.dispatch("prefill_breakable", np.array([1, 4])).fallback.all()
    assert table.dispatch("decode_full", np.array([1, 4, 5])).bucket.tolist() == [4, 4, 0]
