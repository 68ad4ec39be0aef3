"""What every engine's normalisation starts with: the sizes as asked for, and what is untidy about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner.engines.base import Lists, Problem, SizeChange
from workloads.errors import BadUsage


def check_names(lists: Lists, list_names: tuple[str, ...], engine: str) -> None:
    """Refuse a list that the engine does not have.

    Raises:
        BadUsage: naming the lists it has.
    """
    for name in lists:
        if name not in list_names:
            raise BadUsage(f"{engine} has no list '{name}', only {', '.join(list_names)}", field=name)


def requested(lists: Lists, name: str) -> tuple[int, ...] | None:
    """The sizes asked for, as they were asked for; None where the list is left to the engine.

    Raises:
        BadUsage: a size below 1.
    """
    if name not in lists:
        return None
    sizes = tuple(int(size) for size in lists[name])
    for size in sizes:
        if size < 1:
            raise BadUsage(f"a capture size must be at least 1, not {size}", field=name)
    return sizes


def unique(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(sizes)))


def round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def dropped(name: str, sizes: Iterable[int], reason: str) -> list[SizeChange]:
    return [SizeChange(name, size, None, reason) for size in sizes]


def shape_problems(name: str, sizes: Sequence[int]) -> list[Problem]:
    """Duplicates and disorder: every engine here repairs them by itself, so they are only worth a note."""
    clean = list(unique(sizes))
    found: list[Problem] = []
    if len(clean) < len(sizes):
        twice = [size for size in clean if list(sizes).count(size) > 1]
        found.append(
            Problem("DUPLICATE", f"The {name} list names {some(twice)} more than once; one copy counts.", "info", clean)
        )
    if list(sizes) != sorted(sizes):
        found.append(Problem("UNSORTED", f"The {name} list is not in order; the engine sorts it.", "info", clean))
    return found


def some(sizes: Sequence[int], most: int = 6) -> str:
    """A short enumeration for messages: `1, 2, 4 and 30 more`."""
    text = ", ".join(str(size) for size in sizes[:most])
    return text if len(sizes) <= most else f"{text} and {len(sizes) - most} more"
