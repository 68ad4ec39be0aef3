"""SGLang configuration text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from packaging.version import Version

from tuner.engines.base import Export, Provenance
from tuner.engines.header import header, join_sizes
from tuner.engines.sglang.options import SglangOptions
from workloads.errors import BadUsage

CONFIG_FLAG_SINCE = Version("0.5.14")
PIECEWISE_SINCE = Version("0.5.6")
PIECEWISE_BY_DEFAULT_SINCE = Version("0.5.10")


def lacks_prefill_flag(version: Version) -> str | None:
    """Why this version takes no prefill list; None where it does."""
    if version < PIECEWISE_SINCE:
        return f"SGLang {version} has no flag for prefill sizes; {PIECEWISE_SINCE} or later has one"
    return None


def write(
    lists: Mapping[str, tuple[int, ...]], options: SglangOptions, version: Version, provenance: Provenance
) -> Export:
    """Arguments that capture exactly `lists` (already normalised); an empty prefill list switches its graphs off.

    Raises:
        BadUsage: this version cannot express a list.
    """
    head = header("sglang", version, provenance, _assumes(options))
    if version >= CONFIG_FLAG_SINCE:
        phases = {name: {"bs": list(sizes)} if sizes else {"backend": "disabled"} for name, sizes in lists.items()}
        text = f"--cuda-graph-config '{json.dumps(phases)}'"
        flag = "--cuda-graph-config"
    else:
        text = " \\\n".join(_old_flags(lists, version))
        flag = "these flags"
    return Export(f"{head}{text}\n", _watch(flag))


def _old_flags(lists: Mapping[str, tuple[int, ...]], version: Version) -> list[str]:
    flags: list[str] = []
    if "decode" in lists:
        flags.append(f"--cuda-graph-bs {join_sizes(lists['decode'])}" if lists["decode"] else "--disable-cuda-graph")
    if "prefill" not in lists:
        return flags
    missing = lacks_prefill_flag(version)
    if lists["prefill"]:
        if missing is not None:
            raise BadUsage(missing, field="prefill")
        if version < PIECEWISE_BY_DEFAULT_SINCE:
            flags.append("--enable-piecewise-cuda-graph")
        flags.append(f"--piecewise-cuda-graph-tokens {join_sizes(lists['prefill'])}")
    elif version >= PIECEWISE_BY_DEFAULT_SINCE:
        flags.append("--disable-piecewise-cuda-graph")
    return flags


def _assumes(options: SglangOptions) -> str:
    text = f"max_running_requests={options.max_running_requests} tp_size={options.tp_size}"
    if options.enable_dp_attention:
        text += f" dp_size={options.dp_size} enable_dp_attention=true (sizes are requests of one rank)"
    if options.speculative_algorithm is not None:
        text += f" speculative_algorithm={options.speculative_algorithm}"
    return text


def _watch(flag: str) -> str:
    return (
        "The decode log line must say 'cuda graph: True', and with --enable-metrics the counter "
        'sglang:cuda_graph_passes_total{mode="decode_none"} must stand still. '
        f"To go back, remove {flag}: SGLang then captures its default lists."
    )
