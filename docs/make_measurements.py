"""Rebuild docs/measurements.md from the shipped profiles and the recorded runs of benchmarks/capture_h200.py.

.venv/bin/python docs/make_measurements.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.refit_profile import step_models, unsplit_rows
from benchmarks.run_page import run_page
from services.capture.readings import StepModel
from services.capture.start_notes import notes
from services.report.svg import Panel, document
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.profile_file import read_profile
from tuner.regret import best_by_size, worst_regret

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 200, 256, 320, 384, 448, 512, 768, 1024)
SPLIT = ("warmup_s", "record_s", "instantiate_s", "first_launch_s")
STEP, EAGER, INVERTED = "#4575b4", "#7f7f7f", "#A3195B"
HEAD = """# What was measured

Every figure here is rebuilt from `profiles/` and `benchmarks/h200/` by one command:

```
python docs/make_measurements.py
```

Measured means: captured and replayed on the device that the table names, with the software it names. A profile is
made by the command inside it, a run by `python benchmarks/capture_h200.py --out DIR`. Weights are random, shapes are
those of the public configs; the decoder is plain torch with the attention named, not vLLM and not SGLang, but for
profiles that name an engine: those were read inside it ([in_engine.md](in_engine.md)).

## What a second group of graphs does

Read once on an H200 on 2026-11-30 (Qwen3-0.6B, flashinfer, rows of length one, the run alone; the start as it was
before its order was changed). Capturing sizes above the ladder in a group of their own, with its own stream and pool,
slowed every graph of the process, also those captured before, by 0.2 ms. A ladder that holds 1024 itself does not:

| captured | 8 | 64 | 512 |
|---|---|---|---|
| 8, 64, 512 | 1.92 ms | 2.28 ms | 6.05 ms |
| 8, 64, 512, 1024 | 1.92 ms | 2.29 ms | 6.06 ms |
| 8, 64, 256, 512, and 576 to 1024 as a second group | 2.14 ms | 2.51 ms | 6.22 ms |

So what lists are chosen by is timed before anything else is captured, and the profiler comes last. The three profiles
with torch's flash operator are older than that, and may be slower by as much. Replays in other starts were 3 to 10 %
faster than profiles before, and agree within 0.4 % since (runs alone, below).
"""
WAIT = """## What a step waits for its longest row

A profile reads its buckets with rows of length one and prices contexts in a few of them. Flashinfer's planner splits
the rows of a size over the GPU as long as there are fewer than places for them: two blocks on each of 132
multiprocessors, each with one KV head of a row, so 33 rows of 8 heads. From there on a row is one stream, and the step
lasts as long as its longest row: time that follows the context, whatever all rows hold together. The readings say the
same. If waiting began at so many rows, the step model of each profile would leave this sum of squared residuals (shares
of a step, in thousandths, both starts):

{table}

Of a mixture of experts the readings decide less: its curve over rows can take a part of it.

A step of a thousand tokens more a row waits {waits} ms longer there. The wait at 1,536 tokens, the middle of the
contexts that were read, is part of every point below. A list for one workload is chosen with the wait at its mean
context, one for several with that at 1,536 tokens; what is predicted for recorded steps, here and by `captune verify`,
has the wait of each step's own context, and of a mixture of experts also what padding adds to it. Profiles measured
before the term was known have been fitted anew from their own readings (`python -m benchmarks.refit_profile
profiles/NAME.json`).
"""
ROWS = (None, 8, 16, 33, 66, 132, 264)


def render() -> str:
    """The page."""
    profiles = _shipped()
    runs = [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / "h200").glob("*.json"))]
    parts = [HEAD, _waiting(profiles), *(_profile(profile) for profile in profiles), *(run_page(run) for run in runs)]
    return "\n".join(parts)


def _waiting(profiles: Sequence[CostProfile]) -> str:
    """What the readings say of the number of rows at which waiting begins."""
    read = [profile for profile in profiles if unsplit_rows(profile) is not None]
    rows = ["| profile | its planner's rows | " + " | ".join("no wait" if n is None else str(n) for n in ROWS) + " |"]
    rows.append("|---" * (len(ROWS) + 2) + "|")
    for profile in read:
        left = [sum(_squares(model) for model in step_models(profile, n)) * 1e3 for n in ROWS]
        cells = " | ".join(f"**{one:.1f}**" if one == min(left) else f"{one:.1f}" for one in left)
        rows.append(f"| {profile.name} | {unsplit_rows(profile)} | {cells} |")
    waits = sorted(profile.family("decode_full").longest_row.ms_per_ktoken for profile in read)
    return WAIT.format(table="\n".join(rows), waits=f"{waits[0]:.2f} to {waits[-1]:.2f}")


def _squares(model: StepModel) -> float:
    return sum((point.residual_ms / point.step_ms) ** 2 for point in model.points)


def _shipped() -> list[CostProfile]:
    profiles = [read_profile(path) for path in (ROOT / "profiles").glob("*.json")]
    return sorted(profiles, key=lambda profile: profile.name)


def _profile(profile: CostProfile) -> str:
    software: Any = profile.software or {}
    device: Any = profile.device or {}
    starts = "1 start" if profile.starts == 1 else f"{profile.starts} starts"
    lines = [
        f"## Profile {profile.name}",
        "",
        f"{device.get('name')}, {_ran_on(software)}, recorded {profile.recorded_at}, {starts}. Made by "
        f"`{profile.command}`.",
        "",
    ]
    measurement = software.get("measurement", {})
    for name, cost in profile.families.items():
        lines += [*_curve(name, cost), f"![{name} of {profile.name}](plots/{_plot_name(profile, name)})", ""]
    parts = (_starts, _probes, _splits, _busy, _terms)
    return "\n".join([*lines, *(line for part in parts for line in part(measurement))])


def _ran_on(software: dict[str, Any]) -> str:
    engine = software.get("engine")
    return f"inside {engine}" if engine else f"torch {software.get('torch')}, attention {software.get('attention')}"


def plots() -> dict[str, str]:
    """File name -> SVG of every family of every shipped profile."""
    profiles = _shipped()
    return {_plot_name(profile, name): _plot(profile, name) for profile in profiles for name in profile.families}


def _plot_name(profile: CostProfile, family: str) -> str:
    return f"{profile.name}-{family.replace('_', '-')}.svg"


def _plot(profile: CostProfile, family: str) -> str:
    """Above the step with and without a graph, below what capturing costs; one axis of sizes."""
    cost = profile.families[family]
    sizes = cost.sizes.astype(float)
    across = (0.0, float(sizes[-1]) * 1.02)
    known = np.isfinite(cost.fallback_ms)
    most_ms = float(np.nanmax(np.concatenate((cost.step_ms, cost.fallback_ms[known]))))
    times = Panel("times", f"size ({cost.unit})", "step time (ms)", across, (0.0, most_ms * 1.08))
    times.line(zip(sizes[known], cost.fallback_ms[known], strict=True), EAGER, "without a graph", dash="5,3")
    times.line(zip(sizes, cost.step_ms, strict=True), STEP, "captured step")
    slow = _inversions(cost)
    if slow:
        marks = [(float(sizes[i]), float(cost.step_ms[i])) for i in slow]
        times.points(marks, INVERTED, "more than 1 % slower than a larger size", "diamond")
    if cost.captured_with_another:
        return document([times], f"{family} of {profile.name}: step times by size")
    capture_ms = cost.capture_s * 1e3
    timed = np.isfinite(capture_ms)
    most_capture_ms = float(capture_ms[timed].max()) if timed.any() else 1.0
    price = Panel("price", f"size ({cost.unit})", "capture (ms)", across, (0.0, most_capture_ms * 1.1))
    price.points(zip(sizes[timed], capture_ms[timed], strict=True), STEP, "warm-up, record and instantiation", "circle")
    return document([times, price], f"{family} of {profile.name}: step times and capture times by size")


def _starts(measurement: dict[str, Any]) -> list[str]:
    """Where the starts' seconds went, at which clocks they ran, how far apart they are."""
    told = notes(measurement)
    return [*(f"- {one}" for one in told), ""] if told else []


def _probes(measurement: dict[str, Any]) -> list[str]:
    """How sizes were chosen, where the measurement chose them."""
    return [
        f"Sizes were probed: {len(probing['sizes'])} read, {probing['rounds']} rounds after the first grid; then the "
        f"best list's expected time was known within {probing['mean_ms'] / probing['bound_ms'] - 1:.1%} over all sizes "
        f"alike ({probing['mean_ms']:.2f} ms; no list goes below {probing['bound_ms']:.2f} ms while readings stay "
        "within the optimism).\n"
        for probing in measurement.get("probing", [])
    ]


def _splits(measurement: dict[str, Any]) -> list[str]:
    """Where capture seconds and memory go."""
    seconds, memory = measurement.get("capture_split", []), measurement.get("memory_split", {})
    if not seconds:
        return []
    rows = [
        f"| {row['size']} | " + " | ".join(f"{row[part] * 1e3:.0f}" for part in SPLIT) + " |"
        for row in seconds
        if row["size"] in SHOWN
    ]
    head = ["| size | warm-up ms | record ms | instantiate ms | first launch ms |", "|---|---|---|---|---|"]
    told = (
        f"Memory: pool of the largest size {memory['pool_mib']:.0f} MiB, shared output buffer "
        f"{memory['outputs_mib']:.0f} MiB, and for one more size {memory['allocator_mib_per_size']:.1f} MiB in torch's "
        f"allocator and {memory['driver_mib_per_size']:.1f} MiB in the driver (medians)."
    )
    caption = "Milliseconds of a capture by part; the first launch is no part of what an engine's start pays:"
    return [caption, "", *head, *rows, "", told, ""]


def _busy(measurement: dict[str, Any]) -> list[str]:
    """How long the GPU works of each step, and whether eager steps wait for the host."""
    readings = measurement.get("gpu_busy", [])
    if not readings:
        return []
    rows = [
        f"| {one['size']} | {one['run_ms']:.2f} | {one['busy_ms'] / one['run_ms']:.0%} | {one['eager_step_ms']:.2f} | "
        f"{one['eager_busy_ms'] / one['eager_step_ms']:.0%} | {'yes' if one['launch_bound'] else 'no'} |"
        for one in readings
    ]
    head = "| size | replay ms | GPU busy | eager step ms | GPU busy | launch-bound |"
    return ["GPU-busy share by the profiler:", "", head, "|---|---|---|---|---|---|", *rows, ""]


def _curve(name: str, cost: FamilyCost) -> list[str]:
    shown = [i for i, size in enumerate(cost.sizes) if cost.captured_with_another or size in SHOWN]
    columns = ["size", "step ms", "eager ms", *([] if cost.captured_with_another else ["break-even"])]
    rows = [(str(cost.sizes[i]), _ms(cost.step_ms[i]), _ms(cost.fallback_ms[i]), _gain(cost, i)) for i in shown]
    table = [_cells(columns), "|" + "---|" * len(columns), *(_cells(row[: len(columns)]) for row in rows)]
    inverted = _inversions(cost)
    best = best_by_size(cost.sizes, cost.bucket_ms(), int(cost.sizes[-1]))
    padded = np.concatenate(([np.nan], cost.bucket_ms()[np.searchsorted(cost.sizes, np.arange(1, cost.sizes[-1] + 1))]))
    regret, at = worst_regret(padded, best)
    spread = cost.spread_ms / cost.step_ms
    known = spread[np.isfinite(spread)]
    told = [
        f"All {len(cost.sizes)} measured sizes as one list: {len(inverted)} of them are more than 1 % slower than some "
        f"larger one{_worst(cost, inverted)}; the worst regret is {regret:.2f}, at size {at}.",
        _price(cost),
    ]
    if cost.context_tokens > 1:
        told.insert(0, f"Every row of these steps has {cost.context_tokens:,.0f} tokens of context.")
    if len(known):
        told.append(f"Start-to-start spread: median {np.median(known):.2%} of a step, largest {known.max():.2%}.")
    return [f"### {name}", "", *table, "", *told, ""]


def _cells(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _price(cost: FamilyCost) -> str:
    if cost.captured_with_another:
        return "These graphs are captured together with those of decode steps, where seconds and memory of both count."
    return (
        f"Capture: {cost.capture_fixed_s:.2f} s once, {np.nanmedian(cost.capture_s) * 1e3:.0f} ms a size; memory: "
        f"{cost.pool_mib:.0f} MiB once, {np.nanmean(cost.memory_mib):.1f} MiB a size."
    )


def _gain(cost: FamilyCost, i: int) -> str:
    """Steps after which capturing this size has paid for itself against eager."""
    saved_ms = cost.fallback_ms[i] - cost.step_ms[i]
    if not np.isfinite(saved_ms + cost.capture_s[i]):
        return "unknown"
    return f"{cost.capture_s[i] * 1e3 / saved_ms:.0f} steps" if saved_ms > 0 else "never"


def _inversions(cost: FamilyCost) -> list[int]:
    g = cost.bucket_ms()
    return [i for i in range(len(g) - 1) if g[i] > 1.01 * g[i + 1 :].min()]


def _worst(cost: FamilyCost, inverted: list[int]) -> str:
    if not inverted:
        return ""
    g = cost.bucket_ms()
    i = max(inverted, key=lambda k: g[k] / g[k + 1 :].min())
    j = i + 1 + int(np.argmin(g[i + 1 :]))
    return f" (worst: {cost.sizes[i]} takes {g[i]:.2f} ms, {cost.sizes[j]} takes {g[j]:.2f})"


def _terms(measurement: dict[str, Any]) -> list[str]:
    fits = measurement.get("step_model", [])
    if isinstance(fits, dict):  # inside an engine: one fit over buckets
        return [_fitted(fits)]
    if not fits:
        return []
    rows = []
    for number, fit in enumerate(fits, 1):
        shares = [abs(point["residual_ms"]) / point["step_ms"] for point in fit["points"]]
        cells = (
            str(number),
            f"{fit['attention_ms_per_mtoken']:.2f}",
            f"{fit['row_ms']:.4f}",
            f"{fit.get('constant_ms', 0.0):.2f}",
            _waits(fit),
            _bent(fit),
            str(len(shares)),
            *(f"{share:.1%}" for share in (np.median(shares), np.quantile(shares, 0.9), max(shares))),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return [
        "Step model by start (residuals as shares of the step; 90 %: nine points in ten stay below it):",
        "",
        "| start | a, ms per million KV tokens | h, ms a row | constant ms | wait, ms per 1,000 tokens "
        "| curve over rows | points | median residual | 90 % | worst |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _waits(fit: dict[str, Any]) -> str:
    wait_ms = fit.get("longest_row_ms_per_ktoken", 0.0)
    return f"{wait_ms:.2f} from {fit['unsplit_rows']} rows on" if wait_ms else "none"


def _bent(fit: dict[str, Any]) -> str:
    """What the most rows of the curve cost more than the fewest."""
    if not fit.get("rows"):
        return "none"
    return f"{fit['rows_ms'][-1] - fit['rows_ms'][0]:.2f} ms from {fit['rows'][0]} to {fit['rows'][-1]} rows"


def _fitted(fit: dict[str, Any]) -> str:
    limited = "; scaled down, because noise had made them larger than a step" if fit["limited"] else ""
    return (
        f"Step model: a {fit['attention_ms_per_mtoken']:.2f} ms per million KV tokens, h {fit['row_ms']:.4f} ms a row "
        f"(residuals as shares of the step: median {fit['median_residual_share']:.1%}, worst "
        f"{fit['worst_residual_share']:.1%}{limited}). Seconds and MiB per size are the slope over lists of different "
        "lengths.\n"
    )


def _ms(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "unknown"


if __name__ == "__main__":
    (ROOT / "docs" / "measurements.md").write_text(render())
    (ROOT / "docs" / "plots").mkdir(exist_ok=True)
    for name, svg in plots().items():
        (ROOT / "docs" / "plots" / name).write_text(svg + "\n")
