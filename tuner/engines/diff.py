"""How a recommended list differs from the one that runs today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.engines.base import Lists
from tuner.engines.header import join_sizes
from tuner.engines.importing import Present


@dataclass(frozen=True, slots=True)
class ListDiff:
    """One list: what goes, what comes, what stays."""

    list_name: str
    removed: tuple[int, ...]
    added: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def unchanged(self) -> bool:
        return not (self.removed or self.added)


def list_diffs(present: Present, wanted: Lists) -> tuple[ListDiff, ...]:
    """Every list of `wanted` against the present one, the engine's default where none was asked for."""
    today = present.captured_lists()
    return tuple(_diff(name, today.get(name, ()), sizes) for name, sizes in wanted.items())


def diff_text(present: Present, wanted: Lists) -> str:
    """A unified diff of sizes, with what stays summed up; empty where nothing changes."""
    changed = [diff for diff in list_diffs(present, wanted) if not diff.unchanged]
    if not changed:
        return ""
    today = present.captured_lists()
    lines = [f"--- running ({present.engine.spec})", "+++ recommended"]
    for diff in changed:
        source = "" if diff.list_name in present.lists else ", the engine's default"
        lines.append(f"@@ {diff.list_name}: {len(diff.removed)} go, {len(diff.added)} come, {len(diff.kept)} stay @@")
        lines.append(f"-{join_sizes(today.get(diff.list_name, ()))}{source}")
        lines.append(f"+{join_sizes(wanted[diff.list_name])}")
    return "\n".join(lines) + "\n"


def _diff(name: str, today: Sequence[int], wanted: Sequence[int]) -> ListDiff:
    old, new = set(today), set(wanted)
    return ListDiff(name, tuple(sorted(old - new)), tuple(sorted(new - old)), tuple(sorted(old & new)))
