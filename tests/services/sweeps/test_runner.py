"""The runner with real child processes: killed, cancelled, failing, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from db.records import StoredSweep
from db.store import Store
from services.settings import Settings
from services.sweeps.runner import Child, Runner
from tests.services.sweeps.conftest import queue_sweep

PATIENCE_S = 90.0
ROOT = Path(__file__).resolve().parents[3]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def done(store: Store, sweep: StoredSweep) -> int:
    return store.sweeps.get(sweep.id).progress_done


def numbers(store: Store, sweep: StoredSweep) -> list[int]:
    return [trial.number for trial in store.sweeps.trials(sweep.id)]


def step(runner: Runner, condition: Callable[[], bool], what: str) -> None:
    """Let the runner work until `condition`."""

    def tick() -> bool:
        runner._tick()
        return condition()

    wait_for(tick, what)


def test_a_killed_sweep_is_finished_and_each_trial_is_there_once(store: Store, settings: Settings) -> None:
    undisturbed = queue_sweep(store, trials=20)
    killed = queue_sweep(store, trials=20)
    runner = Runner(store, settings)
    try:
        step(runner, lambda: done(store, killed) >= 9, "trials of the second sweep")
        os.kill(runner.children[0].process.pid, signal.SIGKILL)
        assert runner.run_until_idle(PATIENCE_S)
    finally:
        runner.close()
    for sweep in (undisturbed, killed):
        ended = store.sweeps.get(sweep.id)
        assert (ended.state, ended.error_message) == ("complete", None)
        assert numbers(store, sweep) == list(range(20))
    assert store.sweeps.get(killed.id).fence == 2
    one, two = store.recommendations.of_sweep(undisturbed.id), store.recommendations.of_sweep(killed.id)
    assert one is not None and two is not None
    assert one.document["lists"] == two.document["lists"]
    lists = [[trial.document["lists"] for trial in store.sweeps.trials(sweep.id)] for sweep in (undisturbed, killed)]
    assert lists[0] == lists[1]


def test_a_cancelled_sweep_stops_within_seconds(store: Store, settings: Settings) -> None:
    sweep = queue_sweep(store, trials=5000)
    runner = Runner(store, settings)
    try:
        step(runner, lambda: done(store, sweep) >= 2, "the first trials")
        store.sweeps.cancel(sweep.id)
        step(runner, lambda: not runner.children, "the child to end")
    finally:
        runner.close()
    recorded = numbers(store, sweep)
    assert recorded == list(range(len(recorded)))
    assert len(recorded) < 1000  # of 5000: it did not run to its end
    assert store.sweeps.get(sweep.id).state == "cancelled"


def test_a_failing_sweep_stores_why_and_the_queue_goes_on(store: Store, settings: Settings) -> None:
    bad = queue_sweep(store, profile="nowhere")
    good = queue_sweep(store, trials=3)
    runner = Runner(store, settings)
    try:
        assert runner.run_until_idle(PATIENCE_S)
    finally:
        runner.close()
    failed = store.sweeps.get(bad.id)
    assert (failed.state, failed.error_code) == ("failed", "not_found")
    assert "nowhere" in (failed.error_message or "")
    assert store.sweeps.get(good.id).state == "complete"


def test_a_runner_that_is_stopped_gives_its_sweep_back_and_a_killed_one_loses_it(
    store: Store, settings: Settings
) -> None:
    sweep = queue_sweep(store, trials=400)
    command = [sys.executable, "-m", "services.sweeps.runner"]
    environment = os.environ | settings.environment()
    first = subprocess.Popen(command, env=environment, cwd=ROOT)
    wait_for(lambda: done(store, sweep) >= 2, "the first runner's trials")
    first.terminate()
    assert first.wait(20) == 0
    assert store.sweeps.get(sweep.id).state == "queued"
    recorded = done(store, sweep)
    second = subprocess.Popen(command, env=environment, cwd=ROOT)
    wait_for(lambda: done(store, sweep) > recorded, "the second runner's trials")
    second.kill()
    second.wait()
    wait_for(lambda: store.sweeps.get(sweep.id).state != "running" or _expired(store, sweep), "the lease to end")
    claim = store.queue.claim("third", 60.0)
    assert claim is not None and claim.sweep_id == sweep.id
    time.sleep(1.5)  # the orphan sees that its runner is gone
    recorded_by_now = numbers(store, sweep)
    time.sleep(0.5)
    assert numbers(store, sweep) == recorded_by_now == list(range(len(recorded_by_now)))


def test_a_child_that_starts_slowly_keeps_its_sweep(store: Store, settings: Settings) -> None:
    sweep = queue_sweep(store)
    runner = Runner(store, replace(settings, lease_s=30.0))
    claim = store.queue.claim(runner.owner, 30.0)
    assert claim is not None
    before, at = store.sweeps.get(sweep.id).lease_until, time.monotonic()
    starting = subprocess.Popen(["sleep", "60"])
    runner.children.append(Child(claim, starting, at, renewed_at=at - 15.0))
    runner._tick()
    after = store.sweeps.get(sweep.id).lease_until
    assert before is not None and after is not None and after > before
    runner.children.clear()
    starting.kill()
    starting.wait()


def _expired(store: Store, sweep: StoredSweep) -> bool:
    from db.base import now

    until = store.sweeps.get(sweep.id).lease_until
    return until is not None and until < now()


def test_a_sweep_can_measure_its_model_first(tmp_path: Path) -> None:
    settings = Settings(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path / "data")
    with Store(settings.database_url, settings.data_dir) as store:
        sweep = queue_sweep(store, trials=3, profile="measure", model="tiny-llama", options={"max_num_seqs": "32"})
        runner = Runner(store, settings)
        try:
            assert runner.run_until_idle(2 * PATIENCE_S)
        finally:
            runner.close()
        ended = store.sweeps.get(sweep.id)
        assert (ended.state, ended.error_message) == ("complete", None)
        profile = store.profiles.load(f"measured-{sweep.id}")
        assert profile.families["decode_full"].sizes[-1] >= 32
        recommendation = store.recommendations.of_sweep(sweep.id)
        assert recommendation is not None
        assert recommendation.document["evidence"]["profile"]["name"] == profile.name
