"""Make `decode_windows.json`: decode steps of the bundled sample on one engine, as windows to replay on a GPU node.

    .venv/bin/python benchmarks/decode_windows.py

A GPU node has neither polars nor numba, so the simulation happens here: four loads x two parts of the trace, each
a sample of steps with their real KV tokens. Step times of the shipped 8B profile decide how large the batches grow.
"""

from __future__ import annotations

import json
from pathlib import Path

from services.capture.replay_job import sample_window
from services.catalog import DEFAULT_PROFILE, find_profile
from tuner.recommendation import ServingOptions
from tuner.traffic import observe
from workloads.samples.bundled import sample_path
from workloads.traces.read import read

FILE = Path(__file__).parent / "decode_windows.json"
LOADS = (0.25, 0.5, 1.0, 1.5)
PARTS, STEPS = 2, 16
KV_TOKENS = 600_000  # what an 8B model leaves room for on the card that the windows are replayed on


def main() -> None:
    traffic, profile = read(sample_path()).traffic, find_profile(DEFAULT_PROFILE)
    windows = {}
    for load in LOADS:
        serving = ServingOptions(policy="decode", load=load, max_running=512, kv_tokens=KV_TOKENS)
        steps = observe(traffic, None, None, profile, serving).steps
        edges = [len(steps) * part // PARTS for part in range(PARTS + 1)]
        for part in range(PARTS):
            name = f"load {load:g}, part {part + 1} of {PARTS}"
            window = sample_window(steps.window(edges[part], edges[part + 1]), "decode_full", name=name, limit=STEPS)
            windows[name] = [[step.rows, step.kv_tokens, round(step.weight, 3)] for step in window.steps]
            rows = [step.rows for step in window.steps]
            context = sum(step.kv_tokens for step in window.steps) / sum(rows)
            print(f"{name}: batches {min(rows)} to {max(rows)}, mean context {context:.0f} tokens")
    FILE.write_text(json.dumps({"command": "python benchmarks/decode_windows.py", "windows": windows}) + "\n")


if __name__ == "__main__":
    main()
