"""SGLang's own arguments for a launch, the same for `launch_server` and for `Engine(...)` (read from 0.5.23).

Exercised against recorded start-up lines and a stand-in server only; see docs/in_engine.md.
"""

from __future__ import annotations

import json
from typing import Any

from packaging.version import Version

from services.capture.probes.arguments import Passing
from services.capture.probes.base import Launch
from tuner.engines.sglang import export
from tuner.engines.sglang.options import ALIASES
from workloads.errors import BadUsage

OLDEST = Version("0.5.14")

_PASSING = Passing(
    engine="sglang",
    arguments=frozenset(
        {
            *("max_running_requests", "chunked_prefill_size", "max_prefill_tokens", "max_total_tokens"),
            *("context_length", "mem_fraction_static", "tp_size", "disable_cuda_graph_padding"),
            *("cuda_graph_max_bs_decode", "cuda_graph_max_bs_prefill"),
        }
    ),
    environment={"post_capture_kv_sizing": "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"},
    facts=frozenset({"gpu_memory_gib", "weights_gib", "kv_bytes_per_token", "is_llama_2", "use_mla"}),
    aliases=ALIASES,
)
_ALWAYS = ("max_running_requests",)


def engine_arguments(launch: Launch) -> dict[str, Any]:
    """Argument name -> value, without host and port.

    Raises:
        BadUsage: a version that the probe does not know, or an option that cannot be passed on.
    """
    if launch.engine.version < OLDEST:
        raise BadUsage(f"the engine probe runs sglang {OLDEST} or newer, not {launch.engine.version}", field="--engine")
    options = launch.options
    passed = [name for name in sorted(_PASSING.names(launch.raw_options) | set(_ALWAYS)) if name in _PASSING.arguments]
    arguments: dict[str, Any] = {
        "model_path": str(launch.model),
        "skip_tokenizer_init": True,
        "load_format": "dummy" if launch.dummy_weights else None,
        "incremental_streaming_output": True,
        **{name: getattr(options, name) for name in passed},
        "cuda_graph_config": None if launch.lists is None else _graph_config(launch),
    }
    return {name: value for name, value in arguments.items() if value is not None}


def environment(launch: Launch) -> dict[str, str]:
    return {"HF_HUB_OFFLINE": "1", **_PASSING.variables(launch.raw_options, launch.options)}


def _graph_config(launch: Launch) -> dict[str, Any]:
    assert launch.lists is not None
    ((_, text),) = export.settings(launch.lists, launch.engine.version).arguments
    config: dict[str, Any] = json.loads(text)
    return config
