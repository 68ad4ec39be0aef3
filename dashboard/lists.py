"""Capture lists as people write them, and ladders to compare with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dashboard.state import api

MOST_SIZES = 2048


def parse_sizes(typed: str) -> tuple[tuple[int, ...], str | None]:
    """`1, 2 4-8:2 [16]` as sorted sizes, and what is wrong with it. `4-8:2` means 4, 6, 8."""
    sizes: set[int] = set()
    for part in re.split(r"[\s,;\[\]]+", typed):
        if not part:
            continue
        found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", part)
        if found is None:
            return (), f"'{part}' is neither a size nor a range such as 8-64:8."
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if first < 1 or step < 1 or last < first:
            return (), f"'{part}' is not a range of sizes of at least 1."
        if (last - first) // step + len(sizes) >= MOST_SIZES:
            return (), f"A list holds at most {MOST_SIZES:,} sizes."
        sizes |= set(range(first, last + 1, step))
    return tuple(sorted(sizes)), None if sizes else "The list is empty."


def list_text(sizes: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in sizes)


def compact(sizes: tuple[int, ...]) -> str:
    """Sizes for a URL: `1.2.4.8-32:8` with runs of at least four equal steps shortened."""
    parts, i = [], 0
    while i < len(sizes):
        j = i + 1
        step = sizes[j] - sizes[i] if j < len(sizes) else 0
        while j + 1 < len(sizes) and sizes[j + 1] - sizes[j] == step:
            j += 1
        if j - i >= 3:
            parts.append(f"{sizes[i]}-{sizes[j]}:{step}")
            i = j + 1
        else:
            parts.append(str(sizes[i]))
            i += 1
    return ".".join(parts)


def expanded(text: str) -> tuple[int, ...]:
    """The sizes of `compact`; empty where it is none."""
    return parse_sizes(text.replace(".", ","))[0]


def powers_of_two(largest: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(max(largest, 1).bit_length()))


def default_list(engine: str, options: Mapping[str, str]) -> tuple[str, tuple[int, ...]]:
    """(name, sizes) of the list that an engine's decode steps use by default."""
    requested = api().lint(engine, None, options).requested
    family = engine.partition("@")[0]
    names = {item.name: item.list_names[0] for item in api().engines().items}
    name = names.get(family, next(iter(requested), "capture"))
    return name, tuple(requested.get(name, ()))
