"""One set of settings in every form people deploy: arguments, environment, YAML, Kubernetes, Helm, docker compose."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

ARGUMENTS_FILE = "arguments.txt"
ENVIRONMENT_FILE = "captune.env"
KUBERNETES_FILE = "kubernetes-patch.yaml"
HELM_FILE = "helm-values.yaml"
COMPOSE_FILE = "docker-compose.override.yaml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What has to be set.

    Attributes:
        arguments: one tuple a flag: the flag, then its values.
        environment: variables of the engine's process.
        config_file: name of a file the engine reads, with its content; None where it reads none.
        config_mount: the argument that names that file, written with `{path}`.
        helm: Helm values where the engine has a chart with a documented place for arguments.
    """

    service: str
    arguments: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    config_file: str | None = None
    config_text: str = ""
    config_mount: tuple[str, ...] = ()
    helm: Mapping[str, object] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Everything that is appended to the engine's command line."""
        mounted = tuple(word.format(path=f"/etc/captune/{self.config_file}") for word in self.config_mount)
        return (*(word for argument in self.arguments for word in argument), *mounted)


def argument_lines(settings: Settings) -> str:
    """The flags as a shell continues them, values quoted where they need it."""
    return " \\\n".join(" ".join(_quoted(word) for word in argument) for argument in settings.arguments)


def files(settings: Settings, head: str) -> dict[str, str]:
    """File name -> content; every file starts with `head`, a comment."""
    made: dict[str, str] = {}
    if settings.arguments:
        made[ARGUMENTS_FILE] = f"{head}{argument_lines(settings)}\n"
    if settings.environment:
        made[ENVIRONMENT_FILE] = head + "".join(f"{key}={value}\n" for key, value in settings.environment.items())
    if settings.config_file is not None:
        made[settings.config_file] = settings.config_text
    if not (settings.words or settings.environment):
        return made  # a file of the engine's own source: nothing to deploy it with
    made[KUBERNETES_FILE] = head + _kubernetes(settings)
    made[HELM_FILE] = head + _helm(settings)
    made[COMPOSE_FILE] = head + _compose(settings)
    return made


def _kubernetes(settings: Settings) -> str:
    """A JSON patch that appends: a merge patch would replace the arguments that are already there."""
    container = "/spec/template/spec/containers/0"
    patch: list[dict[str, object]] = [
        {"op": "add", "path": f"{container}/args/-", "value": word} for word in settings.words
    ]
    patch += [
        {"op": "add", "path": f"{container}/env/-", "value": {"name": key, "value": value}}
        for key, value in settings.environment.items()
    ]
    lists = [name for name, used in (("args", settings.words), ("env", settings.environment)) if used]
    note = (
        f"# kubectl patch deployment NAME --type=json --patch-file {KUBERNETES_FILE}\n"
        f"# appends to the first container, which must have {' and '.join(lists) or 'args'};\n"
        "# take these flags out of the existing arguments first\n"
    )
    if settings.config_file is not None:
        note += f"# first: kubectl create configmap captune --from-file={settings.config_file}\n"
        patch += _mount_patch(container)
    return note + _yaml(patch)


def _mount_patch(container: str) -> list[dict[str, object]]:
    volume = {"name": "captune", "configMap": {"name": "captune"}}
    mount = {"name": "captune", "mountPath": "/etc/captune"}
    return [
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value": volume},
        {"op": "add", "path": f"{container}/volumeMounts/-", "value": mount},
    ]


def _helm(settings: Settings) -> str:
    if settings.helm is not None:
        return _yaml(settings.helm)
    values: dict[str, object] = {}
    if settings.words:
        values["extraArgs"] = list(settings.words)
    if settings.environment:
        values["extraEnv"] = [{"name": key, "value": value} for key, value in settings.environment.items()]
    return "# for a chart that takes extraArgs and extraEnv; other charts name them differently\n" + _yaml(values)


def _compose(settings: Settings) -> str:
    service: dict[str, object] = {}
    note = f"# docker compose -f docker-compose.yaml -f {COMPOSE_FILE} up -d; name the service as yours is named\n"
    if settings.words:
        note += "# compose replaces a command as a whole: put your other arguments before these\n"
        # Compose substitutes $; none occurs in sizes, but a doubled one is right wherever one does.
        service["command"] = [word.replace("$", "$$") for word in settings.words]
    if settings.environment:
        service["environment"] = dict(settings.environment)
    if settings.config_file is not None:
        service["volumes"] = [f"./{settings.config_file}:/etc/captune/{settings.config_file}:ro"]
    return note + _yaml({"services": {settings.service: service}})


def _quoted(word: str) -> str:
    return word if word.startswith("-") and " " not in word else shlex.quote(word)


def _yaml(document: object) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, width=1000, allow_unicode=True)
    return text


def compact_json(document: object) -> str:
    return json.dumps(document)
