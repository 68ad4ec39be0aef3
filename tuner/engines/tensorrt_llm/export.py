"""TensorRT-LLM configuration file."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.base import Export, Provenance
from tuner.engines.header import header
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions

FILE_NAME = "captune.yaml"

_WATCH = (
    "With print_iter_log: true compare host_step_time of generation-only steps (num_ctx_tokens 0) before and after; a "
    "batch above the largest size runs without a graph. To go back, remove the cuda_graph_config block: TensorRT-LLM "
    "then captures its default list."
)


def write(sizes: tuple[int, ...], options: TensorrtLlmOptions, version: Version, provenance: Provenance) -> Export:
    """A YAML fragment that captures exactly `sizes` (already normalised); max_batch_size is derived from the list."""
    assumes = f"max_batch_size={options.max_batch_size} max_num_tokens={options.max_num_tokens}"
    if options.max_draft_len:
        assumes += f" max_draft_len={options.max_draft_len}"
    head = header("tensorrt-llm", version, provenance, assumes)
    lines = [
        f"# trtllm-serve MODEL --config {FILE_NAME}   (older: --extra_llm_api_options {FILE_NAME})",
        "cuda_graph_config:",
        "  enable_padding: true",
        f"  batch_sizes: [{', '.join(str(size) for size in sizes)}]",
    ]
    text = head + "".join(f"{line}\n" for line in lines)
    return Export(text, _WATCH, {FILE_NAME: text})
