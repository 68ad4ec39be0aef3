"""From `--set` pairs to an engine's own arguments: what is passed on, what only our rules need, what cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.engines.options import canonical_key
from workloads.errors import BadUsage


@dataclass(frozen=True, slots=True)
class Passing:
    """What becomes of the options of one engine.

    Attributes:
        arguments: passed on under their own names.
        environment: passed on as this variable.
        facts: what our rules want to know; the engine finds out by itself.
    """

    engine: str
    arguments: frozenset[str]
    environment: Mapping[str, str]
    facts: frozenset[str]
    aliases: Mapping[str, str]

    def names(self, raw: Mapping[str, str]) -> set[str]:
        """Canonical names of the given options.

        Raises:
            BadUsage: one that a probe cannot pass on; measuring without it would measure something else.
        """
        names = {canonical_key(key, self.aliases) for key in raw}
        unknown = names - self.arguments - set(self.environment) - self.facts
        if unknown:
            raise BadUsage(
                f"{', '.join(sorted(unknown))} cannot be passed on to {self.engine} by the engine probe yet; it knows "
                f"{', '.join(sorted(self.arguments | set(self.environment)))}",
                field="--set",
            )
        return names

    def variables(self, raw: Mapping[str, str], options: Any) -> dict[str, str]:
        """Environment variables for the given options; switches are 1 and 0."""
        given = self.names(raw)
        return {
            variable: str(int(getattr(options, name))) for name, variable in self.environment.items() if name in given
        }


def command_line(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Arguments by name as words: True is a flag alone, objects are JSON; False and None are left out."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(json.dumps(value) if isinstance(value, dict | list) else str(value))
    return tuple(words)
