"""docker-compose.yml, the Dockerfile, the monitoring files and the Kubernetes manifests say what they must.

`compose-spec.json` is the Compose specification's own JSON Schema (Apache-2.0, from github.com/compose-spec, 2021).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from services.settings import Settings


@pytest.fixture(scope="module")
def root() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((root / "docker-compose.yml").read_text())
    return document


def test_the_compose_file_fits_the_schema(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    known = {key: value for key, value in compose.items() if key != "name"}  # a later addition to the specification
    jsonschema.Draft7Validator(schema).validate(known)
    wrong = {**known, "services": {**compose["services"], "api": {"imagee": "x"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(wrong)


def test_every_service_is_pinned_hardened_and_watched(compose: dict[str, Any]) -> None:
    wanted = {"postgres", "migrate", "api", "runner", "ray-head", "ray-worker", "dashboard", "prometheus", "grafana"}
    assert set(compose["services"]) == wanted
    for name, service in compose["services"].items():
        assert re.search(r":v?\d+\.\d+", service["image"]), name
        assert service["user"] not in ("root", "0"), name
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped"), name
        assert "healthcheck" in service or name == "migrate", name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_no_secret_stands_in_the_file(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN$|_URL$", key) and "AUTH_MODE" not in key:
                assert "${" in str(value) or str(value).startswith("http://api:"), (name, key)


def test_every_captune_variable_is_a_setting(compose: dict[str, Any]) -> None:
    known = {"CAPTUNE_" + name.upper() for name in Settings.__dataclass_fields__}
    known |= {"CAPTUNE_API_URL", "CAPTUNE_ALIVE_FILE", "CAPTUNE_GPU_TYPE"}
    for service in compose["services"].values():
        assert {key for key in service.get("environment", {}) if key.startswith("CAPTUNE_")} <= known


def test_images_run_as_somebody_and_from_a_pinned_base(root: Path) -> None:
    text = (root / "Dockerfile").read_text()
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-slim", text, flags=re.MULTILINE)
    for stage in re.split(r"^FROM base AS ", text, flags=re.MULTILINE)[1:]:
        assert "USER captune" in stage and "HEALTHCHECK" in stage


def test_the_grafana_dashboard_asks_for_metrics_that_the_api_has(root: Path) -> None:
    source = (root / "services" / "api" / "routes" / "health.py").read_text()
    board = json.loads((root / "deploy" / "monitoring" / "grafana" / "captune.json").read_text())
    names = {name for panel in board["panels"] for name in re.findall(r"captune_\w+", panel["targets"][0]["expr"])}
    assert len(names) >= 5
    assert all(f"# TYPE {name} " in source for name in names)
    scrape = yaml.safe_load((root / "deploy" / "monitoring" / "prometheus.yml").read_text())
    assert scrape["scrape_configs"][0]["static_configs"][0]["targets"] == ["api:8321"]


class Strict(BaseModel):
    """Part of a manifest; an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")


class KeyRef(Strict):
    name: str
    key: str


class From(Strict):
    secretKeyRef: KeyRef


class Variable(Strict):
    name: str
    value: str | None = None
    valueFrom: From | None = None


class ContainerSecurity(Strict):
    allowPrivilegeEscalation: Literal[False]
    readOnlyRootFilesystem: bool = False
    capabilities: dict[Literal["drop"], list[Literal["ALL"]]]


class Container(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]
    image: Annotated[str, Field(pattern=r"^captune/(services|worker):\d+\.\d+\.\d+$")]
    command: list[str] = []
    env: list[Variable] = []
    ports: list[dict[Literal["name", "containerPort"], str | int]] = []
    readinessProbe: dict[str, Any] | None = None
    livenessProbe: dict[str, Any] | None = None
    resources: dict[Literal["requests", "limits"], dict[str, str]] = {}
    volumeMounts: list[dict[Literal["name", "mountPath"], str]] = []
    securityContext: ContainerSecurity


class PodSecurity(Strict):
    runAsNonRoot: Literal[True]
    runAsUser: Annotated[int, Field(gt=0)]
    fsGroup: int


class PodSpec(Strict):
    securityContext: PodSecurity
    initContainers: list[Container] = []
    containers: Annotated[list[Container], Field(min_length=1)]
    volumes: list[dict[str, Any]] = []
    nodeSelector: dict[str, str] = {}
    terminationGracePeriodSeconds: int = 30


class Template(Strict):
    metadata: dict[str, dict[str, str]] = {}
    spec: PodSpec


class Group(Strict):
    rayStartParams: dict[str, str]
    template: Template


class WorkerGroup(Group):
    groupName: str
    replicas: int
    minReplicas: int
    maxReplicas: int


class RaySpec(Strict):
    """`RayClusterSpec` of ray.io/v1, the fields that we use."""

    rayVersion: str
    headGroupSpec: Group
    workerGroupSpecs: Annotated[list[WorkerGroup], Field(min_length=1)]


class DeploymentSpec(Strict):
    replicas: int
    selector: dict[Literal["matchLabels"], dict[str, str]]
    template: Template


def manifests(root: Path, name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((root / "deploy" / "kuberay" / name).read_text()))


def test_the_ray_cluster_fits_its_model_and_the_pinned_ray(root: Path) -> None:
    (document,) = manifests(root, "raycluster.yaml")
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", "RayCluster")
    spec = RaySpec.model_validate(document["spec"])
    lock = (root / "requirements.lock").read_text()
    assert f"ray=={spec.rayVersion}\n" in lock
    for group in spec.workerGroupSpecs:
        assert group.minReplicas <= group.replicas <= group.maxReplicas
        resources = group.template.spec.containers[0].resources
        assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"]
        assert any(variable.name == "RAY_AUTH_TOKEN" for variable in group.template.spec.containers[0].env)


def test_the_services_fit_their_models_and_each_other(root: Path) -> None:
    documents = manifests(root, "services.yaml")
    kinds = [document["kind"] for document in documents]
    assert kinds.count("Deployment") == 3 and kinds.count("Service") == 2
    claims = {d["metadata"]["name"] for d in documents if d["kind"] == "PersistentVolumeClaim"}
    labels: dict[str, PodSpec] = {}
    for document in documents:
        if document["kind"] != "Deployment":
            continue
        spec = DeploymentSpec.model_validate(document["spec"])
        assert spec.selector["matchLabels"] == spec.template.metadata["labels"]
        labels[spec.selector["matchLabels"]["app"]] = spec.template.spec
        volumes = {volume["name"] for volume in spec.template.spec.volumes}
        for container in (*spec.template.spec.containers, *spec.template.spec.initContainers):
            assert {mount["name"] for mount in container.volumeMounts} <= volumes
            assert container.securityContext.readOnlyRootFilesystem
        named = [
            v["persistentVolumeClaim"]["claimName"] for v in spec.template.spec.volumes if "persistentVolumeClaim" in v
        ]
        assert set(named) <= claims
    for document in documents:
        if document["kind"] == "Service":
            pod = labels[document["spec"]["selector"]["app"]]
            ports = {port["name"] for container in pod.containers for port in container.ports}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports
