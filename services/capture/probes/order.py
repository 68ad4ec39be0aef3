"""In which order the lists of a comparison are started: interleaved, and turned round every time.

A machine drifts (clocks, temperature, caches of compiled code). Lists that take turns drift alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

HOPELESS_FAILURES = 2
"""A list that failed this often in a row is not started again by the same command."""

StartEnd = Literal["measured", "refused", "failed"]
"""refused: the engine will not take the list, however often it is asked. failed: anything else may be mended."""


@dataclass(frozen=True, slots=True)
class StartDone:
    """A start that is over, or taken as measured while it runs; `ours`: the present command began it."""

    name: str
    end: StartEnd
    ours: bool = True


def turns(wanted: Mapping[str, int]) -> tuple[str, ...]:
    """`{default: 2, tuned: 2, powers: 1}` -> default, tuned, powers, tuned, default."""
    order: list[str] = []
    for turn in range(max(wanted.values(), default=0)):
        names = [name for name, count in wanted.items() if turn < count]
        order += names if turn % 2 == 0 else names[::-1]
    return tuple(order)


def fairest(left: Sequence[str], here: Sequence[str]) -> str:
    """Which of the names left is started next on a GPU: of those with the fewest starts there, the first in order.

    GPUs that look alike differ by some per cent, too; lists that take turns on each differ alike.

    Args:
        left: not empty.
        here: names of the starts that this GPU has had.
    """
    had = Counter(here)
    return min(dict.fromkeys(left), key=lambda name: had[name])


def left_to_do(wanted: Mapping[str, int], done: Sequence[StartDone]) -> tuple[str, ...]:
    """What is still to be started, in order; failed starts are made again while there is hope.

    Args:
        done: every start so far, in order.
    """
    skip = Counter(start.name for start in done if start.end == "measured")
    hopeless = {name for name in wanted if _is_hopeless([start for start in done if start.name == name])}
    left = []
    for name in turns(wanted):
        if skip[name] > 0:
            skip[name] -= 1
        elif name not in hopeless:
            left.append(name)
    return tuple(left)


def _is_hopeless(starts: Sequence[StartDone]) -> bool:
    last = [start.end for start in starts if start.ours][-HOPELESS_FAILURES:]
    never = not any(start.end == "measured" for start in starts)
    return (never and any(start.end == "refused" for start in starts)) or (
        len(last) == HOPELESS_FAILURES and "measured" not in last
    )
