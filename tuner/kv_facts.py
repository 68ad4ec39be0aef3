"""What a profile says about KV capacity, for people who gave an engine no such facts."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine
from tuner.engines.kv import GIB_IN_MIB

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_PARALLEL = ("tp_size", "tensor_parallel_size", "pp_size", "pipeline_parallel_size")


def kv_facts(profile: CostProfile, engine: Engine, given: Mapping[str, str]) -> dict[str, str]:
    """Options that `given` leaves out and the profile knows: the GPU's memory, weights and KV bytes of one token.

    A profile is of one GPU, so nothing is known of a model that is spread over several, nor without that GPU's memory.

    Raises:
        BadUsage: options that the engine refuses.
    """
    options = engine.options(given)
    if any(getattr(options, name, 1) != 1 for name in _PARALLEL):
        return {}
    facts = {name: f"{value:.6g}" for name, value in _known(profile).items()}
    named = engine.known_options(given)
    if "gpu_memory_gib" not in {**facts, **named}:
        return {}  # an engine's default is a GPU that nobody spoke of, least of all for a profile of a CPU
    return {name: value for name, value in engine.known_options(facts).items() if name not in named}


def _known(profile: CostProfile) -> dict[str, float]:
    device, model = profile.device or {}, profile.model or {}
    memory_mib, parameters = _number(device.get("memory_mib")), _number(model.get("parameters"))
    width = _BYTES.get(str(model.get("dtype")))
    known = {
        "gpu_memory_gib": None if memory_mib is None else memory_mib / GIB_IN_MIB,
        "kv_bytes_per_token": _number(model.get("kv_bytes_per_token")),
        "weights_gib": None if parameters is None or width is None else parameters * width / 2**30,
    }
    return {name: value for name, value in known.items() if value is not None}


def _number(value: object) -> float | None:
    """A file's free text as a number above 0; None where it is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
