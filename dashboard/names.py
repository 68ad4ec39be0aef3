"""Words for what the API names in short."""

from __future__ import annotations

import re
from typing import Literal

Colour = Literal["gray", "blue", "green", "red", "orange"]

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM", "lmdeploy": "LMDeploy"} | {
    "tgi": "TGI",
    "vllm-ascend": "vLLM Ascend",
    "vllm-gaudi": "vLLM Gaudi",
    "nano-vllm": "nano-vLLM",
}

FAMILIES = {
    "decode_full": "Decode, full graphs",
    "decode_piecewise": "Decode, piecewise graphs",
    "prefill_piecewise": "Prefill, piecewise graphs",
    "prefill_breakable": "Prefill, breakable graphs",
    "mixed_piecewise": "Mixed steps, piecewise graphs",
    "target_verify": "Speculative verification",
    "draft": "Draft model",
}

POLICIES = {
    None: "The engine's own",
    "vllm": "vLLM: prefill and decode mixed in one step",
    "sglang": "SGLang: prefill first",
    "decode": "Decode node: no prefill here",
}

OBJECTIVES = {
    "step": "Mean time of a step (GPU time)",
    "token": "Mean time per generated token (what users feel)",
}

GOALS = {"step": "mean step time", "token": "time per generated token"}

OBJECTIVE_AXES = {"step": ("Mean step", "mean_step_ms"), "token": ("Time per token", "tpot_ms")}
"""Objective -> what its figure is called, and the figure of a scorecard."""

KV_FACTS = {
    "gpu_memory_gib": "GiB of GPU memory",
    "weights_gib": "GiB of weights",
    "kv_bytes_per_token": "bytes of KV cache a token",
}

ORIGINS = {
    "census": "every step was logged",
    "sample": "a sample of the steps",
    "reconstruction": "reconstructed from telemetry",
    "simulation": "simulated from the recorded requests",
    "given": "a size,count file",
}

EVIDENCE = {
    "census": "Every step",
    "sample": "A sample",
    "reconstruction": "Reconstructed",
    "simulation": "Simulated",
    "given": "As given",
}

KINDS = {"requests": "Requests", "steps": "Engine steps", "histogram": "Histogram"}

STATES: dict[str, tuple[str, Colour, str]] = {
    "queued": ("Queued", "gray", ":material/schedule:"),
    "running": ("Running", "blue", ":material/play_circle:"),
    "complete": ("Complete", "green", ":material/check_circle:"),
    "failed": ("Failed", "red", ":material/error:"),
    "cancelled": ("Cancelled", "gray", ":material/cancel:"),
}

VERDICTS: dict[str, tuple[str, Colour, str]] = {
    "adopt": ("Adopt this list", "green", ":material/check_circle:"),
    "try": ("Try this list", "blue", ":material/science:"),
    "keep_default": ("Keep the engine's default", "gray", ":material/pause_circle:"),
    "inconclusive": ("Inconclusive", "orange", ":material/help:"),
}


def engine_name(spec: str) -> str:
    """`vllm@0.33.0` as `vLLM 0.33.0`."""
    name, _, version = spec.partition("@")
    return f"{ENGINES.get(name, name)} {version}".strip()


def device_name(device: str) -> str:
    """`0: NVIDIA H200` as `NVIDIA H200`, `cpu` as `CPU`."""
    name = device.partition(": ")[2] or device
    return "CPU" if name == "cpu" else name


def spoken(sentence: str) -> str:
    """A sentence of the API with engines by their names (`vllm@0.33.0` as `vLLM 0.33.0`) and a capital in front."""
    known = re.sub(r"\b([a-z][a-z-]*@\d[\w.]*\w)", lambda found: engine_name(found[1]), sentence)
    return known[:1].upper() + known[1:]


def family_name(name: str) -> str:
    return FAMILIES.get(name, name.replace("_", " ").capitalize())


def format_name(name: str) -> str:
    """A reader's name, such as `azure_2023`, as words."""
    return name.replace("_", " ").replace("-", " ").capitalize().replace("Vllm", "vLLM").replace("Sglang", "SGLang")
