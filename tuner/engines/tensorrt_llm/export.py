"""TensorRT-LLM configuration file."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines import deploy
from tuner.engines.base import Export, Provenance
from tuner.engines.header import assumed, header
from tuner.engines.tensorrt_llm import facts
from tuner.engines.tensorrt_llm.options import TensorrtLlmOptions, parse

FILE_NAME = "captune.yaml"

_WATCH = (
    "With print_iter_log: true compare host_step_time of generation-only steps (num_ctx_tokens 0) before and after; a "
    "batch above the largest size runs without a graph. To go back, remove the cuda_graph_config block: TensorRT-LLM "
    "then captures its default list."
)


def write(
    sizes: tuple[int, ...],
    prefill: tuple[int, ...] | None,
    options: TensorrtLlmOptions,
    version: Version,
    provenance: Provenance,
) -> Export:
    """A YAML fragment that captures exactly these (already normalised) sizes; max_batch_size follows from the list."""
    head = header("tensorrt-llm", version, provenance, assumed(options, parse, ["max_batch_size", "max_num_tokens"]))
    lines = [
        f"# trtllm-serve MODEL --config {FILE_NAME}   (older: --extra_llm_api_options {FILE_NAME})",
        "cuda_graph_config:",
        "  enable_padding: true",
        f"  batch_sizes: [{_joined(sizes)}]",
        *(_prefill(prefill, options, version) if prefill else []),
    ]
    text = head + "".join(f"{line}\n" for line in lines)
    settings = deploy.Settings(
        "trtllm", config_file=FILE_NAME, config_text=text, config_mount=("--extra_llm_api_options", "{path}")
    )
    return Export(text, _WATCH, deploy.files(settings, head))


def _prefill(sizes: tuple[int, ...], options: TensorrtLlmOptions, version: Version) -> list[str]:
    if facts.PREFILL_LIST.known_in(version):
        backend = options.prefill_cuda_graph_backend or "piecewise"
        return [f"{facts.PREFILL_BACKEND.name}: {backend}", f"{facts.PREFILL_LIST.name}: [{_joined(sizes)}]"]
    return [
        "torch_compile_config:",
        "  enable_piecewise_cuda_graph: true",
        f"  capture_num_tokens: [{_joined(sizes)}]",
    ]


def _joined(sizes: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in sizes)
