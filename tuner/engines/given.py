"""A command line, a configuration file or an environment as plain arguments, before any engine reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from workloads.errors import BadUsage

_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Given:
    """What somebody runs.

    Attributes:
        words: everything that is no flag: program, model, image.
        arguments: flag name with underscores -> its values; a switch has none. Dotted flags keep their dots.
        environment: variables.
        document: a nested configuration file, empty where there was none.
        text: as it was given.
    """

    words: tuple[str, ...] = ()
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def flat(self) -> dict[str, str]:
        """Arguments, environment and the leaves of JSON values and of the document, by path and by flag name."""
        pairs = {name: value for name, value in self.environment.items()}
        pairs.update(_leaves(self.document))
        for name, values in self.arguments.items():
            if len(values) == 1 and values[0].lstrip().startswith("{"):
                pairs.update(_leaves(json_object(values[0], name), f"{name}."))
            else:
                pairs[name] = values[0] if values else "true"
        return pairs


def read_given(text: str) -> Given:
    """Understand a command line, a shell script, an environment file, a YAML file, a compose or Kubernetes file.

    Raises:
        BadUsage: nothing in it is an argument.
    """
    if len(text) > _MOST_CHARACTERS:
        raise BadUsage(f"is longer than {_MOST_CHARACTERS:,} characters; is this a log?")
    document = _mapping(text)
    if document is None:
        return _command(_shell_words(text), {}, text)
    for container in _containers(document):
        words = [*_as_words(container.get("command")), *_as_words(container.get("args"))]
        if words:
            image = [str(container["image"])] if "image" in container else []
            return _command([*image, *words], _variables(container), text)
    environment = next((_variables(c) for c in _containers(document) if _variables(c)), {})
    return Given(environment=environment, document={} if environment else document, text=text)


def json_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object written as an argument.

    Raises:
        BadUsage: it is none.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadUsage(f"is no JSON: {error.msg}", field=f"--{name.replace('_', '-')}") from None
    if not isinstance(value, dict):
        raise BadUsage("must be a JSON object", field=f"--{name.replace('_', '-')}")
    return value


def sizes_in(values: Iterable[str], name: str) -> tuple[int, ...]:
    """`1 2 4`, `1,2,4` or `[1, 2, 4]` as sizes.

    Raises:
        BadUsage: something else.
    """
    parts = [part for value in values for part in re.split(r"[,\s]+", value.strip("[] ")) if part]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        bad = next(part for part in parts if not part.isdecimal() or len(part) >= 10)
        raise BadUsage(f"'{bad}' is not a size", field=name)
    return tuple(int(part) for part in parts)


def _mapping(text: str) -> dict[str, Any] | None:
    try:
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) and all(isinstance(key, str) for key in loaded) else None


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(re.sub(r"\\\r?\n", " ", text), comments=True)
    except ValueError as error:
        raise BadUsage(f"is no command line: {str(error).lower()}") from None


def _command(words: list[str], environment: dict[str, str], text: str) -> Given:
    plain: list[str] = []
    arguments: dict[str, tuple[str, ...]] = {}
    variables = dict(environment)
    current: str | None = None
    for word in words:
        assignment = _ASSIGNMENT.fullmatch(word)
        if word.startswith("-") and not _is_number(word) and word.strip("-"):
            name, equals, value = word.lstrip("-").partition("=")
            current = name.replace("-", "_")
            arguments[current] = (value,) if equals else ()
            current = None if equals else current
        elif assignment and (current in (None, "e", "env") or not plain):
            variables[assignment[1]] = assignment[2]
        elif current is not None:
            arguments[current] = (*arguments[current], word)
        else:
            plain.append(word)
    if not arguments and not variables:
        raise BadUsage("has no arguments: give a command line, or a file with one")
    return Given(tuple(plain), arguments, variables, {}, text)


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "", 1).isdecimal()


def _containers(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping that starts a process: a compose service, a Kubernetes container."""
    if isinstance(node, dict):
        if node.keys() & {"command", "args", "environment", "env"}:
            yield node
        for value in node.values():
            yield from _containers(value)
    elif isinstance(node, list):
        for value in node:
            yield from _containers(value)


def _as_words(value: Any) -> list[str]:
    if isinstance(value, str):
        return _shell_words(value)
    if not isinstance(value, list):
        return []
    words = [str(item) for item in value]
    # `sh -c "vllm serve ..."`
    return _shell_words(words[-1]) if len(words) >= 2 and words[-2] == "-c" else words


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    value = container.get("environment", container.get("env"))
    if isinstance(value, dict):
        return {str(key): str(item) for key, item in value.items() if item is not None}
    pairs: dict[str, str] = {}
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict) and "name" in item and "value" in item:
            pairs[str(item["name"])] = str(item["value"])
        elif isinstance(item, str) and "=" in item:
            key, _, text = item.partition("=")
            pairs[key] = text
    return pairs


def _leaves(node: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    pairs: dict[str, str] = {}
    for key, value in node.items():
        path = f"{prefix}{str(key).replace('-', '_')}"
        if isinstance(value, dict):
            pairs.update(_leaves(value, f"{path}."))
        elif isinstance(value, bool):
            pairs[path] = str(value).lower()
        elif isinstance(value, str) and value.lstrip().startswith("{"):
            pairs.update(_leaves(json_object(value, path), f"{path}."))
        elif value is not None:
            pairs[path] = str(value)
    return pairs
