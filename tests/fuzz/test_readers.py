"""The short fuzz run: a few hundred broken files a family, in reused limited children (`make fuzz`: 20,000 each)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.reader_pool import ReaderPool
from tests.fuzz.families import FAMILIES, families
from tests.fuzz.run import LIMITS, fuzz


@pytest.fixture(scope="module")
def pool() -> Iterator[ReaderPool]:
    pool = ReaderPool(LIMITS)
    yield pool
    pool.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_broken_files_end_in_a_trace_or_a_sentence(pool: ReaderPool, family: str) -> None:
    outcome = fuzz(families()[family], 250, seed=1, pool=pool)
    assert [problem for problem, _ in outcome.failures] == []
    assert outcome.counts["refused"] > 50
    assert outcome.counts["read"] + outcome.counts["refused"] == 250
