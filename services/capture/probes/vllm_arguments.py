"""vLLM's own arguments for a launch, the same for `vllm serve` and for `LLM(...)` (0.20 or newer, read from 0.23.0)."""

from __future__ import annotations

import os
from typing import Any

from packaging.version import Version

from services.capture.probes.arguments import Passing
from services.capture.probes.base import Launch
from tuner.engines.options import canonical_key
from tuner.engines.vllm import facts
from tuner.engines.vllm.options import ALIASES
from workloads.errors import BadUsage

OLDEST = Version("0.20")

_PASSING = Passing(
    engine="vllm",
    arguments=frozenset(
        {
            *("max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size", "performance_mode", "enforce_eager"),
            *("max_model_len", "block_size", "gpu_memory_utilization", "kv_cache_memory_bytes"),
            *("num_gpu_blocks_override", "long_prefill_token_threshold"),
            *("cudagraph_mode", "max_cudagraph_capture_size"),
        }
    ),
    environment={
        "use_v2_model_runner": "VLLM_USE_V2_MODEL_RUNNER",
        "estimate_cudagraph_memory": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    },
    facts=frozenset({"gpu_memory_gib", "gpu_arch", "weights_gib", "activation_gib", "kv_bytes_per_token"}),
    aliases=ALIASES,
)
_IN_COMPILATION_CONFIG = ("cudagraph_mode", "max_cudagraph_capture_size")
_START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
_ALWAYS = ("max_num_seqs", "max_num_batched_tokens")
"""`LLM` and the server have different defaults for these, and our rules must know what runs."""


def engine_arguments(launch: Launch) -> dict[str, Any]:
    """Argument name -> value, without model, host and port.

    Raises:
        BadUsage: a version that the probe does not know, or an option that cannot be passed on.
    """
    if launch.engine.version < OLDEST:
        raise BadUsage(f"the engine probe runs vllm {OLDEST} or newer, not {launch.engine.version}", field="--engine")
    options, given = launch.options, _PASSING.names(launch.raw_options)
    passed = [name for name in sorted(given | set(_ALWAYS)) if name in _PASSING.arguments]
    arguments: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "load_format": "dummy" if launch.dummy_weights else None,
        **{name: getattr(options, name) for name in passed if name not in _IN_COMPILATION_CONFIG},
        "compilation_config": _compilation_config(launch) or None,
        # Model runner V2 fills no table of graphs; a line a step is written while the next step runs.
        "cudagraph_metrics": facts.METRICS_FLAG.known_in(launch.engine.version) or None,
        "enable_logging_iteration_details": facts.ITERATION_FLAG.known_in(launch.engine.version) or None,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def environment(launch: Launch) -> dict[str, str]:
    """No network, no telemetry, no kernel that has to be compiled with nvcc; the table of graphs once a second.

    vLLM's command line starts its engine by `spawn`, which imports everything a second time (0.23.0
    `entrypoints/serve/utils/api_utils.py:165`; 19 of 61 s on the machine that was tried); its library forks, and so do
    we, unless the user says otherwise.
    """
    return {
        _START_METHOD: os.environ.get(_START_METHOD, "fork"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_LOG_STATS_INTERVAL": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        **_caches(launch),
        **_PASSING.variables(launch.raw_options, launch.options),
    }


def _caches(launch: Launch) -> dict[str, str]:
    """Where compiled code is kept: all of it below the launch's folder, or no vLLM cache at all.

    What vLLM compiles ahead of time lies under a hash with the capture list in it, and no option moves it
    (0.23.0 `compilation/decorators.py:541-547`); without, it uses `compilation_config.cache_dir`, see `compile_cache`.
    There it does not redirect the caches of Inductor and Triton (`compilation/compiler_interface.py:282-285`).
    """
    if launch.cache is None:
        return {"VLLM_DISABLE_COMPILE_CACHE": "1"}
    return {
        "VLLM_DISABLE_COMPILE_CACHE": "0",
        "VLLM_USE_AOT_COMPILE": "0",
        "VLLM_CACHE_ROOT": str(launch.cache / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(launch.cache / "inductor"),
        "TRITON_CACHE_DIR": str(launch.cache / "triton"),
    }


def _compilation_config(launch: Launch) -> dict[str, Any]:
    cache = {} if launch.cache is None else {"cache_dir": str(launch.cache / "compiled")}
    return _graph_config(launch) | cache


def _graph_config(launch: Launch) -> dict[str, Any]:
    """The list as asked, also one that the engine would refuse: it is to say why. Its end is the engine's to derive."""
    given = {canonical_key(key, ALIASES) for key in launch.raw_options}
    config: dict[str, Any] = {name: getattr(launch.options, name) for name in _IN_COMPILATION_CONFIG if name in given}
    if launch.lists is not None:
        config["cudagraph_capture_sizes"] = list(launch.lists["capture"])
    return config
