"""In which order the lists of a comparison are started: interleaved, and turned round every time.

A machine drifts (clocks, temperature, caches of compiled code). Lists that take turns drift alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

HOPELESS_FAILURES = 2
"""A list that failed this often and never started is not started again."""


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


def left_to_do(wanted: Mapping[str, int], done: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    """What is still to be started, in order.

    Args:
        done: (name, whether it was measured) of every start so far; failed ones are started again while there is hope.
    """
    measured = Counter(name for name, good in done if good)
    failed = Counter(name for name, good in done if not good)
    skip = Counter({name: measured[name] for name in wanted})
    left = []
    for name in turns(wanted):
        if skip[name] > 0:
            skip[name] -= 1
        elif measured[name] > 0 or failed[name] < HOPELESS_FAILURES:
            left.append(name)
    return tuple(left)
