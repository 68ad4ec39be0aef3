"""Stored profiles and recommendations."""

from __future__ import annotations

import pytest

from db.store import Store
from tests.stores import cost_profile
from tuner.profile_file import dump_profile
from workloads.errors import Conflict, NotFound


def test_a_profile_is_found_by_name_and_by_id(store: Store) -> None:
    stored = store.profiles.add(cost_profile())
    assert store.profiles.get("bench") == store.profiles.get(stored.id) == stored
    assert dump_profile(store.profiles.load("bench")) == dump_profile(cost_profile())
    assert (stored.device, stored.model) == ("NVIDIA Test", "test-8b")


def test_the_same_profile_twice_is_one_and_another_by_that_name_is_refused(store: Store) -> None:
    first = store.profiles.add(cost_profile())
    assert store.profiles.add(cost_profile()) == first
    with pytest.raises(Conflict, match="another profile is named 'bench'"):
        store.profiles.add(cost_profile(largest=32))
    assert len(store.profiles.page().items) == 1


def test_a_deleted_profile_is_gone(store: Store) -> None:
    store.profiles.add(cost_profile())
    store.profiles.delete("bench")
    assert store.profiles.find("bench") is None
    with pytest.raises(NotFound):
        store.profiles.get("bench")


def test_a_recommendation_without_a_sweep_is_kept_once(store: Store) -> None:
    document = {"lists": {"capture": [1, 2, 4]}, "reasons": ["because"]}
    arguments = {"engine": "vllm@0.33.0", "options": {"max_num_seqs": "8"}, "verdict": "try"}
    first = store.recommendations.add(document, **arguments)
    assert store.recommendations.add(document, **arguments) == first
    assert store.recommendations.get(first.id).document == document
    assert len(first.digest) == 64
    assert [item.id for item in store.recommendations.page().items] == [first.id]
    with pytest.raises(NotFound):
        store.recommendations.get("nothing")
