"""`captune histogram`: how many steps of each size a workload makes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.options import (
    Json,
    ProfileName,
    Sizes,
    given_lists,
)
from services.cli.output import number, percent, table
from services.cli.workload import DEFAULT_PROFILE, Asked, Workload, open_profile, workload_command
from tuner.traffic import Observed

_BAR_CHARACTERS = 40


@workload_command
def histogram(
    asked: Asked,
    profile: ProfileName = None,
    sizes: Sizes = None,
    as_json: Json = False,
) -> None:
    """Step sizes per graph family; requests are simulated with the step times of a profile."""
    workload = asked.open()
    reference = profile or (DEFAULT_PROFILE if workload.needs_simulation else None)
    observed = workload.observe(open_profile(reference) if reference else None, given_lists(sizes, workload.choice))
    document = describe(workload, observed, reference)
    output(as_json).emit(document, lambda console: _draw(console, document))


def describe(workload: Workload, observed: Observed, profile: str | None) -> dict[str, Any]:
    """The result keys of `captune histogram`."""
    return {
        "source": workload.name,
        "step_times_from": profile if workload.needs_simulation else None,
        "families": {
            name: {
                "unit": family.unit,
                "origin": family.origin,
                "mean_size": family.mean_size,
                "counts": {str(size): steps for size, steps in family.counts().items()},
            }
            for name, family in observed.histograms.items()
        },
        "serving": asdict(observed.report) if observed.report else None,
        "notes": [*workload.read.notes, *observed.notes],
    }


def _draw(console: Console, document: dict[str, Any]) -> None:
    for name, family in document["families"].items():
        counts = {int(size): steps for size, steps in family["counts"].items()}
        title = f"{name}: {sum(counts.values()):,.0f} steps, sizes in {family['unit']} ({family['origin']})"
        console.print(table(title, ("sizes", "steps", "share", ""), _bars(counts)))
    serving = document["serving"]
    if serving:
        state = "overloaded" if serving["overloaded"] else "keeps up"
        console.print(
            f"load {percent(serving['load_share'])} of what one engine sustains ({state}); queue wait p99 "
            f"{number(serving['queue_wait_p99_s'], 2, ' s')}; TPOT {number(serving['tpot_mean_ms'], 2, ' ms')}; "
            f"{percent(serving['share_at_cap'])} of decode steps at the cap"
        )
        console.print(f"step times of profile '{document['step_times_from']}'")
    for note in document["notes"]:
        console.print(f"note: {escape(note)}")


def _bars(counts: dict[int, float]) -> list[tuple[str, str, str, str]]:
    """Powers-of-two ranges of sizes, enough for a terminal; --json has every size."""
    groups: dict[int, float] = {}
    for size, steps in counts.items():
        top = 1 << (size - 1).bit_length()
        groups[top] = groups.get(top, 0.0) + steps
    total, most = sum(groups.values()), max(groups.values())
    return [
        (
            str(top) if top < 3 else f"{top // 2 + 1}-{top}",
            f"{steps:,.0f}",
            percent(steps / total),
            "█" * round(_BAR_CHARACTERS * steps / most),
        )
        for top, steps in sorted(groups.items())
    ]
