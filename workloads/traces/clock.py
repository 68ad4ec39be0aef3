"""What can be odd about recorded arrival times, and the sentence that says what was done about it."""

from __future__ import annotations

import numpy as np

from workloads.arrays import F64, I64, Bool
from workloads.traces.row_lines import RowLines

DAY_S = 86_400.0
EPOCH_FROM_S, EPOCH_TO_S = 9.4e8, 4.2e9
"""1999 to 2103: a number of seconds in between is a Unix time, not an offset."""
_RECORDING_ROWS = 100


def is_epoch(time_s: float) -> bool:
    return EPOCH_FROM_S < time_s < EPOCH_TO_S


def unwrap_midnight(arrival: F64 | I64, scale: float, lines: RowLines) -> tuple[F64 | I64, tuple[str, ...]]:
    """Seconds of the day that start again at 0 go on to the next day."""
    if len(arrival) < 2 or float(arrival.max()) * scale > DAY_S or float(arrival.min()) < 0:
        return arrival, ()
    late, early = arrival[:-1] * scale > 0.9 * DAY_S, arrival[1:] * scale < 0.1 * DAY_S
    wraps = np.flatnonzero(late & early)
    if not len(wraps):
        return arrival, ()
    days = np.zeros(len(arrival))
    days[wraps + 1] = 1
    note = (
        f"the clock starts again {len(wraps)} times, first {lines.told(int(wraps[0]) + 1)}: read as midnight, "
        "a day was added from there on"
    )
    unwrapped: F64 = arrival + np.cumsum(days) * (DAY_S / scale)
    return unwrapped, (note,)


def order_note(behind: I64, lines: RowLines) -> str:
    """Rows that arrived before the row above them."""
    return (
        f"{len(behind)} rows arrived before the row above them, first {lines.told(int(behind[0]) + 1)}; the requests "
        "were sorted by arrival"
    )


def drop_back_note(arrival: F64 | I64, steps: F64 | I64, behind: I64, scale: float, lines: RowLines) -> tuple[str, ...]:
    """A clock that falls back by more than half of all it covers, a few times: likely two recordings in one file."""
    span = float(arrival.max() - arrival.min())
    jumps = behind[steps[behind] < -span / 2]
    if len(arrival) < _RECORDING_ROWS or not 0 < len(jumps) <= 10:
        return ()
    worst = int(jumps[0])
    return (
        f"the clock falls back by {-float(steps[worst]) * scale:.4g} s {lines.told(worst + 1)}, as where a second "
        "recording begins: both now lie on one time line; split the file there if they were not one engine's traffic",
    )


def duplicate_note(steps: F64 | I64, inputs: I64, outputs: I64, order: I64 | None, lines: RowLines) -> tuple[str, ...]:
    """Rows equal to an earlier one in time and lengths.

    Args:
        steps: differences of the sorted arrivals [N - 1].
        inputs, outputs: in that order [N].
        order: original row of each, None where the file was in order.
    """
    tied = np.flatnonzero(steps == 0)
    if not len(tied):
        return ()
    rows = np.union1d(tied, tied + 1)
    group = np.concatenate(([0], np.cumsum(_new_group(steps, rows))))
    by = np.lexsort((rows, outputs[rows], inputs[rows], group))
    same = (np.diff(group[by]) == 0) & (np.diff(inputs[rows[by]]) == 0) & (np.diff(outputs[rows[by]]) == 0)
    if not same.any():
        return ()
    repeats = rows[by[1:][same]]
    originals = repeats if order is None else order[repeats]
    return (
        f"{len(repeats)} rows repeat an earlier row's time and lengths, first {lines.told(int(originals.min()))}; they "
        "were kept, because two clients can send equal requests",
    )


def _new_group(steps: F64 | I64, rows: I64) -> Bool:
    """Whether each row but the first has another time than the tied row before it."""
    new: Bool = (np.diff(rows) > 1) | (steps[rows[1:] - 1] != 0)
    return new


def tick_note(steps: F64 | I64, scale: float) -> tuple[str, ...]:
    """A clock much coarser than the arrivals makes bursts that nobody sent."""
    moves = steps[steps > 0]
    distinct, rows = len(moves) + 1, len(steps) + 1
    if distinct < 3 or distinct > 0.5 * rows:
        return ()
    tick_ms = 1000 * scale * float(np.median(moves))
    return (
        f"arrival times stand on ticks of about {tick_ms:.0f} ms ({distinct} distinct times for {rows} "
        "requests), so bursts within a tick are an artefact of the recording",
    )


def spread_ticks(arrival_s: F64, seed: int) -> tuple[F64, str]:
    """Arrivals spread evenly at random between their tick and the next; order and ticks stay."""
    ticks, inverse = np.unique(arrival_s, return_inverse=True)
    if len(ticks) < 2:
        return arrival_s, "arrival times were not spread: all of them are equal"
    gaps = np.diff(ticks)
    room = np.append(gaps, np.median(gaps))
    spread = np.sort(arrival_s + np.random.default_rng(seed).uniform(0, 1, len(arrival_s)) * room[inverse])
    times: F64 = spread - spread[0]
    return times, f"arrivals were spread at random inside their ticks, as asked (seed {seed})"
