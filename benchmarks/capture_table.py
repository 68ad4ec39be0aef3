"""The table that `capture_h200.py` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Line = tuple[str, str]


def draw(results: dict[str, Any]) -> None:
    """Print one line a figure."""
    for label, text in lines(results):
        print(f"{label:<46} {text}")


def lines(results: dict[str, Any]) -> Iterator[Line]:
    """(what, figure) of every part that there is."""
    for name, part in results.items():
        if "failed" in part or "left_out" in part:
            yield name, part.get("failed") or f"left out: {part['left_out']}"
    if "attention_s" in (kernels := results.get("kernels", {})):
        of = {kernels["attention"]: kernels["attention_s"], "the solver": kernels["solver_s"]}
        yield "compiled once a machine", ", ".join(f"{what} {seconds:.0f} s" for what, seconds in of.items())
    yield from _profile(results.get("profile", {}))
    yield from _prediction(results.get("prediction", {}))
    again = results.get("start to start", {})
    if again.get("errors") is not None:
        yield "start to start, length-one steps", _spread(again["errors"])
    if again.get("runs") is not None:
        yield "  their replays alone", _spread(again["runs"])
    yield from _clocks(again)
    for name, found in results.get("unseen lists", {}).items():
        if isinstance(found, dict) and found.get("error_s") is not None:
            seconds = f"{found['measured_s']:.2f} s ({found['error_s']:+.1%})"
            yield f"capture of {name}", f"{seconds}, {found['measured_mib']:.0f} MiB ({found['error_mib'] or 0:+.1%})"
    for size, found in results.get("overhead", {}).get("sizes", {}).items():
        yield f"own step / hand-written step at {size}", f"{found['ratio']:.3f}"
    for name, part in results.items():
        if "family" in part:
            shown = ", ".join(f"{size}: {ms:.2f}" for size, ms in part["size_step_ms"].items())
            yield f"{name}, ms by size", f"{shown}; capture {part['capture_s']:.2f} s, {part['memory_mib']:.0f} MiB"


def _spread(errors: dict[str, Any]) -> str:
    return f"median {errors['median']:.2%}, p95 {errors['p95']:.2%}, bias {errors['bias']:+.2%}"


def _profile(part: dict[str, Any]) -> Iterator[Line]:
    if "sizes" not in part:
        return
    seconds = " and ".join(f"{each:.0f}" for each in part["seconds_per_start"])
    bound = "" if part["known_within"] is None else f", best list known within {part['known_within']:.1%}"
    yield "profile", f"{part['sizes']} sizes, starts of {seconds} s, {part['attention']}{bound}"
    for note in part["notes"]:
        yield "", note
    if part["between_starts"] is not None:
        yield "  its second start against the first", _spread(part["between_starts"])
    if part["median_residual_share"] is not None:
        terms = (
            f"{part['attention_ms_per_mtoken']:.2f} ms/Mtoken, {part['row_ms']:.5f} ms, {part['constant_ms']:.3f} ms, "
            f"{part.get('longest_row_ms_per_ktoken', 0.0):.3f} ms/1,000 tokens"
        )
        residuals = f"{part['median_residual_share']:.1%}, {part['worst_residual_share']:.1%}"
        refused = "" if part["trusted"] else " (refused: explains too little to claim anything from it)"
        yield "  a, h, constant, wait; median, worst residual", f"{terms}; {residuals}{refused}"


def _clocks(part: dict[str, Any]) -> Iterator[Line]:
    for told in part.get("clocks", ()):
        yield "  at", told


def _prediction(part: dict[str, Any]) -> Iterator[Line]:
    if "errors" not in part:
        return
    yield "predicted against measured step", f"{part['errors']['pairs']} pairs: {_spread(part['errors'])}"
    for window, worst in part["worst_by_window"].items():
        yield f"  worst on {window}", f"{worst:+.2%}"
    if part["this_start"] is not None:
        yield "  the same start against the profile's", _spread(part["this_start"])
    if part["this_start_runs"] is not None:
        yield "  their replays alone", _spread(part["this_start_runs"])
    yield from _clocks(part)
    if part["clipped_share"]:
        yield "  steps with a context cut to the memory", f"{part['clipped_share']:.0%}"
    yield "lists scored per GPU-minute (16 sampled steps each)", f"{part['lists_per_minute']:.0f}"
