"""vLLM configuration text."""

from __future__ import annotations

import json

from packaging.version import Version

from tuner.engines.base import Export, Provenance
from tuner.engines.header import header, join_sizes
from tuner.engines.vllm.options import VllmOptions
from workloads.errors import BadUsage

SIZES_FLAG_SINCE = Version("0.10.2")
COMPILATION_CONFIG_SINCE = Version("0.11.1")
METRICS_FLAG_SINCE = Version("0.13.0")


def lacks_flag(version: Version) -> str | None:
    """Why this version cannot be configured; None where it can."""
    if version < SIZES_FLAG_SINCE:
        return f"vLLM {version} has no flag for capture sizes; {SIZES_FLAG_SINCE} or later has one"
    return None


def is_single_value_max(sizes: tuple[int, ...], version: Version) -> bool:
    """0.10.2 - 0.11.0 read one value of --cuda-graph-sizes as a maximum, not as a list."""
    return len(sizes) == 1 and version < COMPILATION_CONFIG_SINCE


def write(sizes: tuple[int, ...], options: VllmOptions, version: Version, provenance: Provenance) -> Export:
    """Arguments that capture exactly `sizes` (already normalised).

    Raises:
        BadUsage: this version cannot express the list.
    """
    missing = lacks_flag(version)
    if missing is not None:
        raise BadUsage(missing, field="engine")
    if is_single_value_max(sizes, version):
        raise BadUsage(f"vLLM {version} reads a single size as a maximum; add a second size", field="capture")
    assumes = f"max_num_seqs={options.max_num_seqs} max_num_batched_tokens={options.max_num_batched_tokens}"
    if options.num_speculative_tokens:
        assumes += f" num_speculative_tokens={options.num_speculative_tokens}"
    head = header("vllm", version, provenance, assumes)
    if version < COMPILATION_CONFIG_SINCE:
        return Export(f"{head}--cuda-graph-sizes {join_sizes(sizes)}\n", _watch(version, "--cuda-graph-sizes"))
    config = json.dumps({"cudagraph_capture_sizes": list(sizes), "max_cudagraph_capture_size": sizes[-1]})
    note = (
        "# Do not combine with --cudagraph-capture-sizes or --max-cudagraph-capture-size: vLLM refuses both at once.\n"
    )
    return Export(f"{head}{note}--compilation-config '{config}'\n", _watch(version, "--compilation-config"))


def _watch(version: Version, flag: str) -> str:
    if version >= METRICS_FLAG_SINCE:
        how = (
            "Start once with --cudagraph-metrics: the logged table must show Runtime Mode FULL for decode steps and "
            "no row with NONE"
        )
    else:
        how = "The start-up log must show 'Capturing CUDA graphs' with this many sizes and 'Graph capturing finished'"
    return f"{how}. To go back, remove {flag}: vLLM then captures its default list."
