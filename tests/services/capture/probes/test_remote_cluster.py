"""Engines on a Ray cluster of two nodes with a GPU each (in name): our code goes with the job, a node is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.capture.probes.on_ray import run_on_ray
from tests.services.capture.probes.conftest import MakeExperiment, MakeLaunch
from tests.services.capture.probes.test_remote import engines, small_experiment

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

FAST_NOTICE = {"initial_delay_ms": 1000, "period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Any, list[Any]]]:
    changes = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32, "CAPTUNE_GPU_TYPE": ""}
    changes |= {f"RAY_health_check_{name}": str(value) for name, value in FAST_NOTICE.items()}
    changes |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        yield made, [made.add_node(num_cpus=1, num_gpus=1) for _ in range(2)]
        made.shutdown()


def test_starts_go_on_when_a_node_of_the_cluster_is_lost(
    nodes: tuple[Any, list[Any]], experiment: MakeExperiment, launch: MakeLaunch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    cluster, (first, _) = nodes
    made = small_experiment(experiment, launch, tmp_path)
    lost: list[Any] = []

    def lose_once(done: int, now: str) -> None:
        if done >= 3 and "requests" in now and not lost:
            lost.append(first)
            cluster.remove_node(first, allow_graceful=False)

    outcome = run_on_ray(replace(made, told=lose_once), 2)
    assert lost and outcome.profile is not None and outcome.left == ()
    records = made.starter.folder.starts()
    assert len({record.gpu for record in records}) == 2
    failed = [record.failure for record in records if record.failure is not None]
    assert [failure.kind for failure in failed] == ["worker_lost"] and engines(str(tmp_path)) == []
