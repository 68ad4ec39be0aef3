"""A kept run of `capture_h200.py` as a section of docs/measurements.md: what was promised, and what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np


def run_page(run: dict[str, Any]) -> str:
    """What a run that `keep_run.py` kept says of the promises, as Markdown."""
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
        found += _between("their replays alone", part.get("runs"))
    if "start_s" in (part := results.get("profile", {})):
        seconds = " and ".join(f"{each:.0f}" for each in part.get("seconds_per_start", [part["start_s"]]))
        starts = "one start" if part.get("starts", 1) == 1 else "starts one after the other"
        found.append((f"a profile of {part['sizes']} sizes, {starts}", f"{seconds} s"))
        found += _between("its length-one steps, second start against the first", part.get("between_starts"))
    predicted = results.get("prediction", {})
    found += _between("the predicted lists' start against the profile's", predicted.get("this_start"))
    found += _between("its replays alone", predicted.get("this_start_runs"))
    found += [("the predicted lists' start", told) for told in predicted.get("clocks", ())]
    if "attention_s" in (kernels := results.get("kernels", {})):
        found.append(("compiling attention's kernels, once a machine", f"{kernels['attention_s']:.0f} s"))
    for name, part in results.get("unseen lists", {}).items():
        if isinstance(part, dict) and part.get("error_s") is not None:
            seconds = f"{part['measured_s']:.2f} s (predicted {part['error_s']:+.1%})"
            told = f"{seconds}, {part['measured_mib']:.0f} MiB (predicted {part['error_mib']:+.1%})"
            found.append((f"capture of {name}, {part['sizes']} sizes, fresh process", told))
    for name, part in results.items():
        if "size_step_ms" in part:
            found.append((f"{name}, ms a step by size", _by_size(part["size_step_ms"])))
            if any(np.isfinite(list(part.get("size_fallback_ms", {}).values()))):
                found.append((f"{name}, ms an eager step by size", _by_size(part["size_fallback_ms"])))
            found.append(
                (f"{name}, capture of these sizes", f"{part['capture_s']:.2f} s, {part['memory_mib']:.0f} MiB")
            )
    for size, part in sorted(results.get("overhead", {}).get("sizes", {}).items(), key=lambda item: int(item[0])):
        found.append((f"own step / hand-written capture and replay, size {size}", f"{part['ratio']:.3f}"))
    return found


def _by_size(size_ms: dict[str, float]) -> str:
    return ", ".join(f"{size}: {ms:.2f}" for size, ms in size_ms.items())


def _between(what: str, errors: dict[str, float] | None) -> list[tuple[str, str]]:
    if errors is None:
        return []
    shares = f"median {errors['median']:.1%}, 95th percentile {errors['p95']:.1%}, bias {errors['bias']:+.1%}"
    return [(what, shares)]
