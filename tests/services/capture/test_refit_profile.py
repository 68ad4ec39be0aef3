"""A profile's step models can be fitted again from its own readings, and the readings stay what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.capture_replays import constant_ms
from benchmarks.refit_profile import FAMILY, refitted, step_models, unsplit_rows
from services.capture.attention.flashinfer import places
from services.capture.context_terms import without_context
from tuner.longest_row import NO_WAIT
from tuner.profile_file import dump_profile, read_profile

PROBED = (
    "h200-llama-3.1-8b-flashinfer",
    "h200-qwen3-0.6b-flashinfer",
    "h200-qwen3-30b-a3b-flashinfer",
    "h200-qwen3-32b",
)


@pytest.mark.parametrize("name", PROBED)
def test_shipped_profiles_are_what_the_present_model_makes_of_their_readings(name: str, repository: Path) -> None:
    path = repository / "profiles" / f"{name}.json"
    profile = read_profile(path)
    again = refitted(profile, step_models(profile, unsplit_rows(profile)))
    assert dump_profile(again) == dump_profile(profile), f"run: python -m benchmarks.refit_profile profiles/{name}.json"
    cost = profile.family(FAMILY)
    assert cost.longest_row.unsplit_rows == unsplit_rows(profile) and cost.longest_row.at_tokens == 1536
    alone = without_context(cost, constant_ms(profile))
    assert alone.longest_row == NO_WAIT and (alone.step_ms < cost.step_ms).all() and (alone.step_ms > 0).all()


def test_readings_stay_what_they_were(repository: Path) -> None:
    """Whatever the terms said before."""
    profile = read_profile(repository / "profiles" / f"{PROBED[0]}.json")
    alone = without_context(profile.family(FAMILY), constant_ms(profile))
    software = dict(profile.software or {})
    starts = [start | {"constant_ms": 0.0} for start in software["measurement"]["step_model"]]  # type: ignore[index]
    measurement = software["measurement"] | {"step_model": starts}  # type: ignore[operator]
    forgot = replace(profile, families={FAMILY: alone}, software=software | {"measurement": measurement})
    again = refitted(forgot, step_models(forgot, unsplit_rows(forgot))).family(FAMILY)
    np.testing.assert_allclose(again.step_ms, profile.family(FAMILY).step_ms, atol=2e-5)


def test_a_kernel_that_says_nothing_of_its_rows_gets_no_wait(repository: Path) -> None:
    profile = read_profile(repository / "profiles" / "h200-qwen3-30b-a3b.json")
    assert unsplit_rows(profile) is None
    assert refitted(profile, step_models(profile, unsplit_rows(profile))).family(FAMILY).longest_row == NO_WAIT


def test_two_blocks_a_multiprocessor_each_hold_a_head_of_a_row() -> None:
    assert [places(132, heads) for heads in (8, 4, 1)] == [33, 66, 264]
    assert places(1, 8) == 1
