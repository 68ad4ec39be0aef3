"""A real Ray cluster of several nodes on one machine: a node killed in mid-sweep, foreign versions, GPU types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from db.records import NewMeasurement
from db.store import Store
from services.capture.cluster import ray_cluster
from services.capture.inventory import DeviceReport, look, mismatch, placement
from services.capture.pool import measure
from services.capture.readings import Progress
from services.capture.spec import MeasureSpec
from services.sweeps.job import run_sweep
from workloads.errors import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SPEC = MeasureSpec("tiny-llama", sizes=(1, 2, 4), starts=2, repeats=2, iterations=1, warmup=1, device="cpu")
FAST_NOTICE = {"initial_delay_ms": 1000, "period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs for actors, and two workers."""
    changes = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32, "CAPTUNE_GPU_TYPE": ""}
    changes |= {f"RAY_health_check_{name}": str(value) for name, value in FAST_NOTICE.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        for _ in range(2):
            made.add_node(num_cpus=1, resources={"accelerator_type:H200": 1})
        yield made
        made.shutdown()


@pytest.mark.usefixtures("cluster")
def test_every_node_is_looked_at() -> None:
    with ray_cluster() as ray:
        devices = look(ray)
        assert len({device.node_id for device in devices}) == 3
        assert all(device.refused is None and device.python and device.ray for device in devices)


@pytest.mark.usefixtures("cluster")
def test_a_measurement_over_the_cluster_is_followed_in_the_inventory(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path) as store:
        job, _ = store.sweeps.create_once(NewMeasurement("tiny-llama", "mine"), None)
        claim = store.queue.claim("test", 600.0)
        assert claim is not None
        import services.capture.job as planning

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "_cuda", lambda device: False)
            run_sweep(store, claim, lambda: False)
        assert store.sweeps.get(job.id).state == "complete"
        assert store.profiles.load("mine").families["decode_full"].sizes[-1] >= 32
        assert {worker.state for worker in store.workers.list()} == {"idle"}
        assert len(store.workers.list()) == 3


def test_a_node_killed_in_mid_sweep_costs_its_start_and_no_size(cluster: Any) -> None:
    killed: list[str] = []

    def kill_once(progress: Progress) -> None:
        if progress.phase == "capture" and progress.size == 2 and not killed:
            from services.capture.inventory import busy_nodes

            (node_id,) = busy_nodes()
            node = next(node for node in cluster.worker_nodes if node.node_id == node_id)
            killed.append(node_id)
            cluster.remove_node(node, allow_graceful=False)

    with ray_cluster() as ray:
        measurement = measure(SPEC, kill_once)
        assert len(killed) == 1
        assert measurement.failures == ()
        assert measurement.profile.family("decode_full").sizes.tolist() == [1, 2, 4]
        assert measurement.profile.starts == 2
        assert killed[0] not in {device.node_id for device in look(ray)}


@pytest.mark.usefixtures("cluster")
def test_a_gpu_type_that_is_not_there_is_refused_and_one_that_is_there_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ray_cluster() as ray:
        monkeypatch.setenv("CAPTUNE_GPU_TYPE", "H200")
        assert placement(ray, cuda=True) == {"resources": {"accelerator_type:H200": 0.001}}
        assert placement(ray, cuda=False) == {}
        monkeypatch.setenv("CAPTUNE_GPU_TYPE", "A100")
        with pytest.raises(Unavailable, match="no GPU of type 'A100'; it has: H200"):
            placement(ray, cuda=True)


@pytest.mark.usefixtures("cluster")
def test_a_cluster_of_another_python_is_refused_in_one_sentence() -> None:
    with ray_cluster() as ray:
        store = ray._private.worker.global_worker.gcs_client
        space = b"cluster"
        key = next(key for key in store.internal_kv_keys(b"", space) if b"METADATA" in key.upper())
        kept = store.internal_kv_get(key, space)
        store.internal_kv_put(key, json.dumps(json.loads(kept) | {"python_version": "3.99.1"}).encode(), True, space)
    with pytest.raises(Unavailable) as raised, ray_cluster():
        pass
    assert "on Python 3.99.1, and this process Ray" in raised.value.message and "\n" not in raised.value.message


def test_a_node_of_another_release_is_refused_in_one_sentence() -> None:
    node = DeviceReport("id", "node-1", "cpu", python="3.12.1", ray="2.60.0")
    assert mismatch(node, "3.12.9", "2.60.0") is None
    assert mismatch(node, "3.11.2", "2.60.0") == (
        "node-1 has Python 3.12.1 and this process 3.11.2; install the same minor release"
    )
    assert "Ray 2.60.0 and this process 2.61.0" in str(mismatch(node, "3.12.1", "2.61.0"))
