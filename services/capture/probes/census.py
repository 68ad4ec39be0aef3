"""How the engine itself ran the served requests: the steps that its log tells of them, where it does."""

from __future__ import annotations

import tempfile
from pathlib import Path

from services.capture.probes.records import Census
from tuner.audit import audit, engine_of, options_of
from tuner.engines.registry import engine as rules_of
from workloads.errors import BadInput
from workloads.traces.observe import observe_file
from workloads.traces.read import read
from workloads.traces.records import StepTrace

_FORMATS = {"vllm": ("vllm-cudagraph-metrics", "vllm-iterations")}
"""Logs that count every step, the more telling one first. SGLang logs one decode step in forty."""


def census_of(log: Path, from_byte: int, engine: str) -> Census | None:
    """The steps logged after `from_byte`; None where this engine or version logs none.

    vLLM's table of graphs says in which bucket a step ran. Its model runner V2 fills no table (0.23.0 has it for Llama,
    Mistral and dense Qwen3: `config/vllm.py:69`, `v1/worker/gpu/model_runner.py`); there the sizes are the engine's
    word, and the bucket is by its dispatch rule on the list that it logged.
    """
    steps = next((found for name in _FORMATS.get(engine, ()) if (found := _steps(log, from_byte, name))), None)
    if steps is None:
        return None
    seen = observe_file(log, engine)
    rules = rules_of(engine_of(seen) or engine)
    judged = audit(steps, seen, rules, options_of(seen, rules))
    return Census(steps=int(steps.steps.sum()), **judged.step_share, padding_waste=judged.padding_waste)


def _steps(log: Path, from_byte: int, format: str) -> StepTrace | None:
    with log.open("rb") as whole, tempfile.NamedTemporaryFile(suffix=".log") as part:
        whole.seek(from_byte)
        part.write(whole.read())
        part.flush()
        try:
            steps = read(Path(part.name), format=format).traffic
        except BadInput:  # nothing of the kind in it
            return None
    return steps if isinstance(steps, StepTrace) else None
