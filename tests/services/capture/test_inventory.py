"""How nodes and devices stand in the inventory, without a cluster."""

from __future__ import annotations

import pytest

from services.capture import inventory
from services.capture.inventory import node_name, report

NODE = {"NodeManagerHostname": "vm7", "NodeManagerAddress": "10.0.0.7", "NodeManagerPort": 40123}


def test_the_ray_that_a_job_starts_for_itself_is_the_same_machine_every_time() -> None:
    assert node_name(NODE, local=True) == node_name({**NODE, "NodeManagerPort": 40999}, local=True) == "vm7"


def test_nodes_of_a_cluster_on_one_machine_are_told_apart() -> None:
    assert node_name(NODE, local=False) == "vm7 (10.0.0.7:40123)"


def test_a_machine_without_a_gpu_is_one_cpu_with_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_gpus", lambda: [])
    (device,) = report("id", "vm7")
    assert device.device == "cpu" and device.memory_mib is not None and device.memory_mib > 256
    assert device.python and device.refused is None
