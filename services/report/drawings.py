"""The drawings of a report: the list over the traffic and over the measured times, the front, and the two branches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from services.contract.figures import CHOSEN, COLOURS, DEFAULT, LINE, PATTERNS, bar_width, bars_of
from services.contract.recommendation import RecommendationModel
from services.report.svg import Panel, document

MOST_LOAD = 3.0
"""Loads are drawn to a little beyond where the lists tip over, and no further than this multiple of the recorded."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing and what is to be seen on it, in a sentence."""

    name: str
    svg: str
    caption: str


def traffic_drawing(found: RecommendationModel) -> Drawing:
    """The list over the histogram, and below it over the measured staircase."""
    counts, sizes = _decode(found), _sizes(found.lists)
    # On top the recorded traffic, below the price of every size, over one axis of sizes.
    reach = max(max(counts), max(sizes, default=1))
    across = (0.0, reach * 1.02)
    total = sum(counts.values()) or 1.0
    outcomes = {outcome: bars_of(counts, sizes, outcome) for outcome in COLOURS}
    tallest = max((height for _, heights in outcomes.values() for height in heights), default=1.0) / total
    top = Panel("traffic", "step size", "share of steps", across, (0.0, tallest * 1.08), percent=True)
    for outcome, colour in COLOURS.items():
        centres, heights = outcomes[outcome]
        name = f"{outcome} ({sum(heights) / total:.1%})"
        shares = [height / total for height in heights]
        top.bars(zip(centres, shares, strict=True), float(bar_width(counts)), colour, name, PATTERNS[outcome])
    top.points([(size, 0.0) for size in sizes], "#3B8FD4", f"captured ({len(sizes)})", "tick")
    panels = [top]
    curve = found.evidence.get("curve")
    if curve:
        panels.append(_staircase(curve, found, across))
    unit = curve["unit"] if curve else "slots"
    return Drawing(
        "list",
        document(panels, "the list over the traffic and over the measured times"),
        f"Above: how often steps of each size ({unit}) run, and what the list makes of them. Below: what every "
        "measured size costs, and a step under both lists; it runs in the next captured size up.",
    )


def _staircase(curve: Mapping[str, Any], found: RecommendationModel, across: tuple[float, float]) -> Panel:
    sizes, times = curve["sizes"], curve["bucket_ms"]
    shown = [ms for size, ms in zip(sizes, times, strict=True) if size <= across[1]] or times
    panel = Panel("times", f"step size ({curve['unit']})", "step time (ms)", across, (0.0, max(shown) * 1.1))
    panel.points(zip(sizes, times, strict=True), LINE, "measured size", "circle")
    panel.line(_steps(_sizes(found.default.lists), sizes, times), DEFAULT, "engine default", dash="5,3", wide_px=1.5)
    panel.line(_steps(_sizes(found.lists), sizes, times), CHOSEN, "this list")
    return panel


def _steps(buckets: Sequence[int], sizes: Sequence[int], times: Sequence[float]) -> list[tuple[float, float]]:
    """The time of a step of any size under `buckets`, as corners of a line."""
    corners: list[tuple[float, float]] = []
    before = 0
    for bucket in buckets:
        ms = _at(bucket, sizes, times)
        if ms is not None:
            corners += [(before, ms), (bucket, ms)]
        before = bucket
    return corners


def _at(size: int, sizes: Sequence[int], times: Sequence[float]) -> float | None:
    """Measured, or between two measured neighbours; None outside."""
    at = bisect_left(sizes, size)
    if at == len(sizes):
        return None
    if sizes[at] == size or at == 0:
        return times[at]
    share = (size - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
    return times[at - 1] + share * (times[at] - times[at - 1])


def front_drawing(found: RecommendationModel) -> Drawing:
    """Mean step time of the best list of every length."""
    front, own, new = found.front, found.default.scorecard, found.scorecard
    known = [card.mean_step_ms for card in (own, new) if card.mean_step_ms is not None]
    times = [point.mean_step_ms for point in front] + known
    low, high = min(times), max(times)
    room = (high - low or high * 0.01) * 0.08
    longest = max([point.list_length for point in front] + [own.list_length])
    panel = Panel(
        "front", "sizes in the list", "mean step (ms)", (0.0, longest + 1.0), (low - room, high + room), height_px=230.0
    )
    corners: list[tuple[float, float]] = []
    for point, after in pairwise(front):
        corners += [(point.list_length, point.mean_step_ms), (after.list_length, point.mean_step_ms)]
    corners += [(point.list_length, point.mean_step_ms) for point in front[-1:]]
    panel.line(corners, LINE, "best list of at most that length")
    if own.mean_step_ms is not None:
        panel.points([(own.list_length, own.mean_step_ms)], DEFAULT, "engine default", "cross")
    if new.mean_step_ms is not None:
        panel.points([(new.list_length, new.mean_step_ms)], CHOSEN, "this list", "diamond")
    return Drawing(
        "front",
        document([panel], "mean step time of the best list of every length"),
        "What a longer list would still buy. Lists are chosen on the upper confidence curve and drawn at their mean.",
    )


def branches_drawing(found: RecommendationModel) -> Drawing | None:
    """Settled batch against offered load under both lists; None where no requests were simulated."""
    loop = found.evidence.get("closed_loop") or {}
    curves = loop.get("branch_curves")
    if not curves:
        return None
    tips = {name: branch["tip_load"] for name, branch in loop["branches"].items() if branch["tip_load"] is not None}
    most = min(max([1.3, *(tip * 1.25 for tip in tips.values())]), MOST_LOAD)
    batches = [
        batch
        for curve in curves.values()
        for batch, load in zip(curve["batch"], curve["load"], strict=True)
        if load <= most
    ]
    highest = max([*batches, 2]) * 1.05
    panel = Panel(
        "branches", "offered load (1 = as asked)", "requests running", (0.0, most), (0.0, highest), legend_rows=2
    )
    for name, colour, words in (("default", DEFAULT, "engine default"), ("tuned", CHOSEN, "this list")):
        wide_px = 4.0 if name == "default" else 2.0  # the lower line stays visible where both agree
        for rising, segment in _runs(curves[name]):
            panel.line(segment, colour, dash="" if rising else "2,4", wide_px=wide_px if rising else 1.0)
        panel.line([], colour, f"{words}: settles there", wide_px=wide_px)
        panel.line([], colour, f"{words}: tips over from there", dash="2,4", wide_px=1.0)
    panel.upright(1.0, "this load")
    for row, (name, tip) in enumerate(tips.items(), 1):
        if tip < most:
            panel.upright(tip, f"{'default' if name == 'default' else 'this list'} tips at {tip:.2f}x", row)
    return Drawing("branches", document([panel], "settled batch against offered load"), _branch_words(loop))


def _runs(curve: Mapping[str, Sequence[float]]) -> list[tuple[bool, list[tuple[float, float]]]]:
    """(whether batches settle there, points) of every stretch between two turns of the load that batches keep up with.

    A batch settles where a larger one keeps up with more load; elsewhere it is the threshold of a burst.
    """
    points = list(zip(curve["load"], curve["batch"], strict=True))
    runs: list[tuple[bool, list[tuple[float, float]]]] = []
    for left, right in pairwise(points):
        rising = right[0] >= left[0]
        if runs and runs[-1][0] == rising:
            runs[-1][1].append(right)
        else:
            runs.append((rising, [left, right]))
    return runs


def _branch_words(loop: Mapping[str, Any]) -> str:
    words = [
        "The batch at which arrivals and step time balance (n = rate x tokens x t(n), decode steps only). Dotted "
        "stretches are thresholds: a burst beyond one ends on the next branch up and does not come back by itself."
    ]
    for name, label in (("default", "the engine's default"), ("tuned", "this list")):
        branch = loop["branches"][name]
        settled = " or ".join(f"{n:,}" for n in branch["settled"])
        tip = branch["tip_load"]
        ends = "never tips over" if tip is None else f"tips over at {tip:.2f} times this load"
        beyond = ""
        if tip is not None:
            to = branch["tips_to"]
            beyond = f" (from {branch['tips_from']:,} running to {'no end' if to is None else format(to, ',')})"
        words.append(f"Under {label} {settled} requests run at this load, and it {ends}{beyond}.")
    return " ".join(words)


def _decode(found: RecommendationModel) -> dict[int, float]:
    return next(iter(found.histogram.values()))


def _sizes(lists: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    return tuple(next(iter(lists.values()), ()))
