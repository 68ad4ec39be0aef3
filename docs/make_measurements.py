"""Rebuild docs/measurements.md from the shipped profiles and the recorded runs of benchmarks/capture_h200.py.

.venv/bin/python docs/make_measurements.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tuner.cost_profile import CostProfile, FamilyCost
from tuner.profile_file import read_profile
from tuner.regret import best_by_size, worst_regret

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 200, 256, 320, 384, 448, 512, 768, 1024)
HEAD = """# What was measured

Every figure here is rebuilt from `profiles/` and `benchmarks/h200/` by one command:

```
python docs/make_measurements.py
```

Measured means: captured and replayed on the device that the table names, with the software it names. A profile is
made by the command inside it, a run by `python benchmarks/capture_h200.py --out DIR`. Weights are random, shapes are
those of the public configs; the decoder is plain torch with the attention named, not vLLM and not SGLang.
"""


def render() -> str:
    """The page."""
    profiles = [read_profile(path) for path in sorted((ROOT / "profiles").glob("*.json"))]
    runs = [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks" / "h200").glob("*.json"))]
    parts = [HEAD, *(_profile(profile) for profile in profiles), *(_run(run) for run in runs)]
    return "\n".join(parts)


def _profile(profile: CostProfile) -> str:
    software: Any = profile.software or {}
    device: Any = profile.device or {}
    lines = [
        f"## Profile {profile.name}",
        "",
        f"{device.get('name')}, torch {software.get('torch')}, attention {software.get('attention')}, recorded "
        f"{profile.recorded_at}, {profile.starts} starts. Made by `{profile.command}`.",
        "",
    ]
    for name, cost in profile.families.items():
        lines += _curve(name, cost)
    return "\n".join([*lines, *_terms(software.get("measurement", {}))])


def _curve(name: str, cost: FamilyCost) -> list[str]:
    rows = [int(np.searchsorted(cost.sizes, size)) for size in SHOWN if size in cost.sizes]
    table = [
        f"| {cost.sizes[i]} | {_ms(cost.step_ms[i])} | {_ms(cost.fallback_ms[i])} | {_gain(cost, i)} |" for i in rows
    ]
    inverted = _inversions(cost)
    best = best_by_size(cost.sizes, cost.bucket_ms(), int(cost.sizes[-1]))
    padded = np.concatenate(([np.nan], cost.bucket_ms()[np.searchsorted(cost.sizes, np.arange(1, cost.sizes[-1] + 1))]))
    regret, at = worst_regret(padded, best)
    spread = cost.spread_ms / cost.step_ms
    known = spread[np.isfinite(spread)]
    told = [
        f"All {len(cost.sizes)} measured sizes as one list: {len(inverted)} of them are more than 1 % slower than some "
        f"larger one{_worst(cost, inverted)}; the worst regret is {regret:.2f}, at size {at}.",
        f"Capture: {cost.capture_fixed_s:.2f} s once, {np.nanmedian(cost.capture_s) * 1e3:.0f} ms a size; memory: "
        f"{cost.pool_mib:.0f} MiB once, {np.nanmean(cost.memory_mib):.1f} MiB a size.",
    ]
    if len(known):
        told.append(f"Start-to-start spread: median {np.median(known):.2%} of a step, largest {known.max():.2%}.")
    head = ["| size | step ms | eager ms | break-even |", "|---|---|---|---|"]
    return [f"### {name}", "", *head, *table, "", *told, ""]


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
    if not fits:
        return []
    rows = []
    for number, fit in enumerate(fits, 1):
        shares = sorted(abs(point["residual_ms"]) / point["step_ms"] for point in fit["points"])
        rows.append(
            f"| {number} | {fit['attention_ms_per_mtoken']:.2f} | {fit['row_ms']:.4f} | "
            f"{fit.get('constant_ms', 0.0):.2f} | {len(shares)} | {shares[len(shares) // 2]:.1%} | {shares[-1]:.1%} |"
        )
    head = ["| start | a, ms per million KV tokens | h, ms a row | constant ms | points | median residual | worst |"]
    return [
        "Step model by start (residuals as shares of the step):",
        "",
        *head,
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _run(run: dict[str, Any]) -> str:
    results, device, software = run["results"], run["device"], run["software"]
    note = f" {run['note'][0].upper()}{run['note'][1:]}." if run.get("note") else ""
    lines = [
        f"## Promises held: {run['model']} on {device['name']}, {run['recorded_at'][:10]}",
        "",
        f"torch {software['torch']}, driver {software['driver']}, attention {software['attention']}. Made by "
        f"`{run['command']}`.{note}",
        "",
        "| what | measured |",
        "|---|---|",
    ]
    lines += [f"| {what} | {told} |" for what, told in _promises(results)]
    if "pairs" in (predicted := results.get("prediction", {})):
        lines += ["", "| list | window | predicted ms | measured ms | error |", "|---|---|---|---|---|"]
        for pair in predicted["pairs"]:
            figures = f"{pair['predicted_ms']:.3f} | {pair['measured_ms']:.3f} | {pair['error']:+.1%}"
            lines.append(f"| {pair['list_name']} | {pair['window']} | {figures} |")
    return "\n".join([*lines, ""])


def _promises(results: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    if "errors" in (part := results.get("prediction", {})):
        errors = part["errors"]
        shares = f"median {errors['median']:.1%}, 95th percentile {errors['p95']:.1%}, bias {errors['bias']:+.1%}"
        found.append((f"predicted against measured step, {errors['pairs']} list x window pairs", shares))
        found.append(("lists scored per GPU-minute (16 sampled steps each)", f"{part['lists_per_minute']:.0f}"))
    if "errors" in (part := results.get("start to start", {})):
        shares = f"median {part['errors']['median']:.1%}, 95th percentile {part['errors']['p95']:.1%}"
        found.append(("the same length-one steps in another start", f"{shares}, bias {part['errors']['bias']:+.1%}"))
    if "start_s" in (part := results.get("profile", {})):
        found.append((f"a profile of {part['sizes']} sizes, one start", f"{part['start_s']:.0f} s"))
    for name, part in results.get("unseen lists", {}).items():
        if isinstance(part, dict) and part.get("error_s") is not None:
            seconds = f"{part['measured_s']:.2f} s (predicted {part['error_s']:+.1%})"
            told = f"{seconds}, {part['measured_mib']:.0f} MiB (predicted {part['error_mib']:+.1%})"
            found.append((f"capture of {name}, {part['sizes']} sizes, fresh process", told))
    for size, part in sorted(results.get("overhead", {}).get("sizes", {}).items(), key=lambda item: int(item[0])):
        found.append((f"own step / hand-written capture and replay, size {size}", f"{part['ratio']:.3f}"))
    return found


def _ms(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "unknown"


if __name__ == "__main__":
    (ROOT / "docs" / "measurements.md").write_text(render())
