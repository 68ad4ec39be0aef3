"""The compiled kernels take the very steps that the plain simulators take."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workloads.serving.cases import Case, random_case, unfold
from workloads.errors import BadInput
from workloads.serving.limits import PolicyName
from workloads.serving.simulate import simulate

CASES = 1500


def assert_equal_to_reference(case: Case) -> int:
    """Compare all steps and request times; gives back the number of steps."""
    references = case.references()
    expected = [step for reference in references for step in reference.run()]
    if not expected:
        with pytest.raises(BadInput, match="no request"):
            simulate(case.trace, case.policy, case.limits, case.time, load=case.load, engines=case.engines)
        return 0
    got = simulate(case.trace, case.policy, case.limits, case.time, load=case.load, engines=case.engines)
    steps = unfold(got.steps, case.time)
    assert steps.size.tolist() == [step.size for step in expected]
    assert steps.family == [step.family for step in expected]
    np.testing.assert_allclose(steps.kv_tokens, [step.kv_tokens for step in expected], rtol=1e-12)
    np.testing.assert_allclose(steps.step_ms, [step.step_ms for step in expected], rtol=1e-9)
    np.testing.assert_allclose(steps.start_ms, [step.start_ms for step in expected], rtol=1e-9, atol=1e-9)
    for engine, reference in enumerate(references):
        for name, column in (
            ("scheduled_ms", got.requests.scheduled_s),
            ("first_ms", got.requests.first_token_s),
            ("finish_ms", got.requests.finish_s),
        ):
            wanted = [getattr(request, name) for request in reference.requests]
            np.testing.assert_allclose(column[engine :: case.engines] * 1e3, wanted, rtol=1e-9, atol=1e-9)
    assert got.report.rejected == sum(reference.rejected for reference in references)
    assert got.report.completed + got.report.rejected == len(case.trace)
    return len(expected)


@pytest.mark.parametrize("policy", ["decode", "sglang", "vllm"])
def test_equal_step_for_step(policy: PolicyName) -> None:
    total = 0
    for seed in range(CASES):
        try:
            total += assert_equal_to_reference(random_case(policy, seed))
        except AssertionError as error:
            raise AssertionError(f"{policy}, seed {seed}") from error
    assert total > 20 * CASES
