"""What is written down about an engine: flags by version, changes by release, rules and traps.

The same objects decide what the code does and fill docs/engines.md, so the page cannot drift from the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that began with a release."""

    since: Version
    what: str

    def holds(self, version: Version) -> bool:
        return version >= self.since


@dataclass(frozen=True, slots=True)
class Flag:
    """One way to tell an engine its sizes.

    Attributes:
        name: as it is typed (a flag, a configuration path, an environment variable).
        unit: what its numbers count; `-` for a switch.
        since, until: first and last release that takes it; None is open.
    """

    name: str
    unit: str
    meaning: str
    since: Version | None = None
    until: Version | None = None

    def known_in(self, version: Version) -> bool:
        return (self.since is None or version >= self.since) and (self.until is None or version <= self.until)

    @property
    def releases(self) -> str:
        if self.since is None and self.until is None:
            return "all known"
        if self.until is None:
            return f"since {self.since}"
        return f"until {self.until}" if self.since is None else f"{self.since} to {self.until}"


@dataclass(frozen=True, slots=True)
class Facts:
    """One engine's page.

    Attributes:
        unit: what sizes of its lists count.
        changes: rules that differ by release.
        rules: what it does to a list, one sentence each.
        traps: what goes wrong in practice, with the public thread where there is one.
        source: which release was read.
    """

    unit: str
    flags: tuple[Flag, ...]
    rules: tuple[str, ...]
    traps: tuple[str, ...]
    source: str
    changes: tuple[Change, ...] = ()


def change(since: str, what: str) -> Change:
    return Change(Version(since), what)


def flag(name: str, unit: str, meaning: str, since: str | None = None, until: str | None = None) -> Flag:
    return Flag(name, unit, meaning, Version(since) if since else None, Version(until) if until else None)
