"""What is said of devices and of jobs in line, and which names a profile may have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.basket import Item
from dashboard.fleet_jobs import in_order
from dashboard.fleet_workers import state_words
from dashboard.measure_panel import name_problem
from dashboard.names import device_name
from services.contract.measurement import MeasurementModel
from services.contract.worker import WorkerModel

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def worker(state: str, last_error: str | None = None) -> WorkerModel:
    known: dict[str, Any] = dict.fromkeys(("memory_mib", "driver", "torch", "ray", "python", "sweep_id"))
    known |= {"id": "w", "node": "node7", "device": "cpu", "state": state, "current_size": None, "seen_at": NOON}
    return WorkerModel.model_validate({**known, "last_error": last_error})


def measurement(identity: str, state: str, priority: int, age_s: int) -> MeasurementModel:
    known: dict[str, Any] = dict.fromkeys(("phase", "error", "owner", "started_at", "finished_at"))
    known |= {"id": identity, "model": "tiny-llama", "name": identity, "state": state, "priority": priority}
    return MeasurementModel.model_validate({**known, "created_at": NOON - timedelta(seconds=age_s)})


def test_only_a_device_that_broke_off_is_called_lost() -> None:
    assert state_words(worker("lost")) == "Not seen lately"
    assert state_words(worker("lost", "it went away in the middle of a measurement")) == "Lost"
    assert state_words(worker("busy")) == "Measuring"
    assert [device_name(device) for device in ("cpu", "0: NVIDIA H200")] == ["CPU", "NVIDIA H200"]


def test_jobs_stand_in_the_order_in_which_they_are_taken() -> None:
    jobs = [
        measurement("new", "queued", 0, 1),
        measurement("old", "queued", 0, 9),
        measurement("first", "queued", 5, 0),
    ]
    jobs.append(measurement("now", "running", -3, 0))
    assert [job.id for job in in_order(jobs)] == ["now", "first", "old", "new"]


@pytest.mark.parametrize(
    ("name", "problem"), [("mine-1", None), ("a b", "starts with"), ("h200", "already"), ("", "s")]
)
def test_a_name_that_cannot_be_is_refused_before_anything_is_queued(name: str, problem: str | None) -> None:
    said = name_problem(name, {"h200"})
    assert said is None if problem is None else problem in str(said)


def test_everything_that_can_be_compared_can_stand_in_a_link() -> None:
    assert [str(Item("sweep", "abc")), Item("list", "1.2.8-32:8").sizes] == ["sweep~abc", (1, 2, 8, 16, 24, 32)]
