"""Goodput: which requests met their promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workloads.errors import BadUsage
from workloads.serving.goodput import Slo, met
from workloads.serving.outcome import RequestTimes

NAN = math.nan
#                                      good   late   slow   rejected  one token
TIMES = RequestTimes(
    arrival_s=np.array([0.0, 0.0, 0.0, 0.0, 0.0]),
    scheduled_s=np.array([0.1, 0.9, 0.1, NAN, 0.1]),
    first_token_s=np.array([0.2, 1.0, 0.2, NAN, 0.2]),
    finish_s=np.array([1.2, 2.0, 9.2, NAN, 0.2]),
)
OUTPUT_TOKENS = np.array([101, 101, 101, 50, 1])


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        (Slo(ttft_ms=500, tpot_ms=10.1), [True, False, False, False, True]),
        (Slo(ttft_ms=500), [True, False, True, False, True]),
        (Slo(tpot_ms=10.1), [True, True, False, False, True]),
    ],
)
def test_a_request_meets_every_promise_or_none(slo: Slo, expected: list[bool]) -> None:
    assert met(slo, TIMES, OUTPUT_TOKENS, decode_only=False).tolist() == expected


def test_a_decode_node_counts_from_admission_and_has_nothing_to_do_for_one_token() -> None:
    never = RequestTimes(*(np.full(1, value) for value in (0.0, NAN, NAN, NAN)))
    assert met(Slo(1.0, 1.0), never, np.array([1]), decode_only=True).tolist() == [True]
    assert met(Slo(1.0, 1.0), never, np.array([2]), decode_only=True).tolist() == [False]
    assert met(Slo(tpot_ms=10.5), TIMES, OUTPUT_TOKENS, decode_only=True).tolist()[:2] == [False, False]


def test_a_promise_is_above_nothing() -> None:
    with pytest.raises(BadUsage, match="must be above 0"):
        Slo(ttft_ms=0.0)
