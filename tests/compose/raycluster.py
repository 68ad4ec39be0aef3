"""The fields of a RayCluster (ray.io/v1) that our manifest uses, and what we hold every pod to.

Kubernetes has no schema of its own for RayCluster; KubeRay's operator brings it. Pods inside are Kubernetes' own and
are checked against its schema; here stands only what the operator adds around them, and our rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Strict(BaseModel):
    """Part of a manifest; an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Rules(BaseModel):
    """What we ask of a part that Kubernetes' own schema describes."""


class ContainerSecurity(Rules):
    allowPrivilegeEscalation: Literal[False]
    readOnlyRootFilesystem: Literal[True]
    capabilities: dict[Literal["drop"], list[Literal["ALL"]]]


class Container(Rules):
    image: Annotated[str, Field(pattern=r"^captune/(services|worker):\d+\.\d+\.\d+$")]
    securityContext: ContainerSecurity
    env: list[dict[str, Any]] = []
    ports: list[dict[str, Any]] = []
    volumeMounts: list[dict[str, str]] = []
    resources: dict[str, dict[str, str]] = {}

    def variable(self, name: str) -> dict[str, Any] | None:
        return next((each for each in self.env if each["name"] == name), None)


class PodSecurity(Rules):
    runAsNonRoot: Literal[True]
    runAsUser: Annotated[int, Field(gt=0)]


class PodSpec(Rules):
    securityContext: PodSecurity
    initContainers: list[Container] = []
    containers: Annotated[list[Container], Field(min_length=1)]
    volumes: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _mounts_are_volumes_and_secrets_are_references(self) -> Self:
        volumes = {volume["name"] for volume in self.volumes}
        for container in (*self.containers, *self.initContainers):
            if not {mount["name"] for mount in container.volumeMounts} <= volumes:
                raise ValueError("a mount has no volume")
            for each in container.env:
                if each["name"].endswith(("TOKEN", "DATABASE_URL")) and "secretKeyRef" not in each.get("valueFrom", {}):
                    raise ValueError(f"{each['name']} must come from a secret")
        return self


class PodTemplate(Strict):
    metadata: dict[str, Any] = {}
    spec: PodSpec


class Group(Strict):
    rayStartParams: dict[str, str]
    template: PodTemplate


class WorkerGroup(Group):
    groupName: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,50}$")]
    replicas: Annotated[int, Field(ge=0)]
    minReplicas: Annotated[int, Field(ge=0)]
    maxReplicas: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _replicas_in_order(self) -> Self:
        if not self.minReplicas <= self.replicas <= self.maxReplicas:
            raise ValueError("replicas must lie between minReplicas and maxReplicas")
        gpus = {
            self.template.spec.containers[0].resources[kind].get("nvidia.com/gpu") for kind in ("requests", "limits")
        }
        if len(gpus) != 1 or None in gpus:
            raise ValueError("a worker asks for as many GPUs as it is limited to")
        return self


class RaySpec(Strict):
    """`RayClusterSpec`, the fields that we use."""

    rayVersion: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    headGroupSpec: Group
    workerGroupSpecs: Annotated[list[WorkerGroup], Field(min_length=1)]


class RayCluster(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayCluster"]
    metadata: dict[Literal["name", "namespace"], str]
    spec: RaySpec
