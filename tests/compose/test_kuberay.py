"""The manifests in deploy/kuberay: what Kubernetes describes fits its own schemas, the RayCluster fits its model beside
this test, everything keeps our rules; and a manifest with a mistake in it does not pass."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate
from kubernetes_validate.utils import SchemaNotFoundError
from kubernetes_validate.utils import ValidationError as SchemaError
from pydantic import ValidationError

from tests.compose.raycluster import PodSpec, RayCluster

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kuberay"
KUBERNETES = "1.34"


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def one(kind: str, name: str = "") -> dict[str, Any]:
    documents = [*manifests("services.yaml"), *manifests("raycluster.yaml")]
    return next(d for d in documents if d["kind"] == kind and name in d["metadata"]["name"])


def templates(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Pod templates anywhere in a manifest."""
    spec = document.get("spec", {})
    groups = [spec, spec.get("headGroupSpec", {}), *spec.get("workerGroupSpecs", [])]
    return [group["template"] for group in groups if "template" in group]


def check(document: dict[str, Any]) -> None:
    """Raises:
    SchemaError, SchemaNotFoundError: Kubernetes would refuse it.
    ValidationError: KubeRay would, or it breaks one of our rules.
    """
    if document["kind"] == "RayCluster":
        RayCluster.model_validate(document)
    else:
        validate(document, KUBERNETES, strict=True)
    for template in templates(document):
        validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": template["spec"]}, KUBERNETES, True
        )
        PodSpec.model_validate(template["spec"])


@pytest.mark.parametrize("name", ["services.yaml", "raycluster.yaml"])
def test_every_manifest_passes(name: str) -> None:
    for document in manifests(name):
        check(document)


POD = ("spec", "template", "spec")
HEAD = ("spec", "headGroupSpec", "template", "spec")
WORKER = ("spec", "workerGroupSpecs", 0)
MISTAKES = [
    ("Deployment", ("spec", "replicas"), "two"),
    ("Deployment", ("spec", "replica"), 2),
    ("Deployment", ("spec", "selector"), None),
    ("Deployment", ("apiVersion",), "apps/v2"),
    ("Deployment", (*POD, "containers", 0, "livenessProb"), {}),
    ("Deployment", (*POD, "containers", 0, "image"), "captune/services:latest"),
    ("Deployment", (*POD, "containers", 0, "volumeMounts", 0, "name"), "nothing"),
    ("Deployment", (*POD, "containers", 0, "securityContext", "readOnlyRootFilesystem"), False),
    ("Deployment", (*POD, "containers", 0, "env", 0), {"name": "CAPTUNE_API_TOKEN", "value": "s3cret"}),
    ("Deployment", (*POD, "securityContext", "runAsUser"), 0),
    ("Service", ("spec", "ports", 0, "port"), "http"),
    ("Service", ("spec", "port"), 80),
    ("PersistentVolumeClaim", ("spec", "accessModes"), "ReadWriteMany"),
    ("Namespace", ("metadata", "labls"), {}),
    ("RayCluster", ("apiVersion",), "ray.io/v1alpha1"),
    ("RayCluster", ("spec", "rayVersion"), "latest"),
    ("RayCluster", ("spec", "workerGroupSpec"), []),
    ("RayCluster", (*HEAD, "containers", 0, "ports", 0, "containerPort"), "gcs"),
    ("RayCluster", (*HEAD, "containers", 0, "comand"), []),
    ("RayCluster", (*WORKER, "maxReplicas"), 0),
    ("RayCluster", (*WORKER, "rayStartParams", "num-cpus"), 4),
    ("RayCluster", (*WORKER, "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), "2"),
    ("RayCluster", (*WORKER, "template", "spec", "nodeSelector"), ["H200"]),
]


@pytest.mark.parametrize(("kind", "path", "value"), MISTAKES)
def test_a_manifest_with_a_mistake_is_refused(kind: str, path: tuple[str | int, ...], value: object) -> None:
    document = copy.deepcopy(one(kind))
    part: Any = document
    for key in path[:-1]:
        part = part[key]
    if value is None:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    with pytest.raises((SchemaError, SchemaNotFoundError, ValidationError)):
        check(document)


def test_the_cluster_runs_the_pinned_ray_with_its_token() -> None:
    cluster = RayCluster.model_validate(one("RayCluster")).spec
    lock = (FOLDER.parents[1] / "requirements.lock").read_text()
    assert f"ray=={cluster.rayVersion}\n" in lock
    for group in (cluster.headGroupSpec, *cluster.workerGroupSpecs):
        assert group.template.spec.containers[0].variable("RAY_AUTH_TOKEN")


def test_the_services_find_each_other() -> None:
    documents = manifests("services.yaml")
    pods = {
        document["spec"]["selector"]["matchLabels"]["app"]: PodSpec.model_validate(document["spec"]["template"]["spec"])
        for document in documents
        if document["kind"] == "Deployment"
    }
    assert set(pods) == {"captune-api", "captune-runner", "captune-dashboard"}
    claims = {d["metadata"]["name"] for d in documents if d["kind"] == "PersistentVolumeClaim"}
    for document in documents:
        if document["kind"] == "Deployment":
            assert document["spec"]["template"]["metadata"]["labels"] == document["spec"]["selector"]["matchLabels"]
        if document["kind"] == "Service":
            ports = {
                port["name"] for each in pods[document["spec"]["selector"]["app"]].containers for port in each.ports
            }
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports
    for pod in pods.values():
        named = {v["persistentVolumeClaim"]["claimName"] for v in pod.volumes if "persistentVolumeClaim" in v}
        assert named <= claims
    address = pods["captune-runner"].containers[0].variable("RAY_ADDRESS")
    assert address is not None and address["value"] == f"{one('RayCluster')['metadata']['name']}-head-svc:6379"
