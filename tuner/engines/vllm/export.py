"""vLLM configuration text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from packaging.version import Version

from tuner.engines import deploy
from tuner.engines.base import Export, Provenance
from tuner.engines.header import assumed, header
from tuner.engines.vllm import facts
from tuner.engines.vllm.options import VllmOptions, parse

_NO_MIXING = (
    "# Do not combine with --cudagraph-capture-sizes or --max-cudagraph-capture-size: vLLM refuses both at once.\n"
)


def lacks_flag(version: Version) -> str | None:
    """Why the list travels in the compilation config; None where this version has a flag for it."""
    if facts.SIZES_FLAG.known_in(version) or facts.LIST_FLAG.known_in(version):
        return None
    return f"vLLM {version} has no flag for capture sizes ({facts.SIZES_FLAG.since} or later has one)"


def takes_sizes_flag(version: Version) -> bool:
    """0.9.0 - 0.11.0: `--cuda-graph-sizes` is the only flag."""
    return facts.SIZES_FLAG.known_in(version) and not facts.LIST_FLAG.known_in(version)


def is_single_value_max(sizes: tuple[int, ...], version: Version) -> bool:
    """`--cuda-graph-sizes` reads one value as a maximum, not as a list."""
    return len(sizes) == 1 and takes_sizes_flag(version)


def settings(sizes: tuple[int, ...], version: Version) -> deploy.Settings:
    """The flag of this version with `sizes` (already normalised)."""
    if takes_sizes_flag(version):
        argument = (facts.SIZES_FLAG.name, *(str(size) for size in sizes))
    else:
        config: dict[str, object] = {"cudagraph_capture_sizes": list(sizes)}
        if facts.MAX_FLAG.known_in(version):
            config["max_cudagraph_capture_size"] = sizes[-1]
        argument = ("--compilation-config", deploy.compact_json(config))
    key = argument[0].removeprefix("--")
    value = f"'{argument[1]}'" if key == "compilation-config" else f"[{', '.join(argument[1:])}]"
    # The layout of the vLLM production stack's chart.
    helm = {"servingEngineSpec": {"modelSpec": [{"name": "NAME", "vllmConfig": {"extraArgs": list(argument)}}]}}
    return deploy.Settings("vllm", (argument,), {}, "vllm.yaml", f"{key}: {value}\n", ("--config", "{path}"), helm)


def write(
    sizes: tuple[int, ...],
    options: VllmOptions,
    version: Version,
    provenance: Provenance,
    name: str = "vllm",
    read: Callable[[Mapping[str, str]], VllmOptions] | None = None,
) -> Export:
    """Arguments that capture exactly `sizes` (already normalised)."""
    always = ["max_num_seqs", "max_num_batched_tokens"]
    head = header(name, version, provenance, assumed(options, read or (lambda raw: parse(raw, version)), always))
    made = settings(sizes, version)
    note = _NO_MIXING if facts.LIST_FLAG.known_in(version) else ""
    # Either the arguments or the YAML file, never both: the deployment files carry the arguments.
    as_arguments = deploy.Settings(made.service, made.arguments, helm=made.helm)
    files = deploy.files(as_arguments, head + note)
    usage = f"# vllm serve MODEL --config {made.config_file}\n"
    files[str(made.config_file)] = f"{head}{note}{usage}{made.config_text}"
    text = f"{head}{note}{deploy.argument_lines(made)}\n"
    return Export(text, _watch(version, made.arguments[0][0]), files)


def _watch(version: Version, flag: str) -> str:
    if facts.V2_RUNNER.holds(version) and not facts.WIDE_BLACKWELL.holds(version):
        how = (
            f"Start once with {facts.ITERATION_FLAG.name} and compare step times ({facts.METRICS_FLAG.name} prints "
            "nothing on model runner V2 of this version, #52728)"
        )
    elif facts.V2_FOR_SOME.holds(version) and not facts.V2_RUNNER.holds(version):
        how = (
            f"Start once with {facts.METRICS_FLAG.name}: the logged table must show Runtime Mode FULL for decode steps "
            f"and no row with NONE; where it prints nothing (model runner V2, #52728), compare step times with "
            f"{facts.ITERATION_FLAG.name}"
        )
    elif facts.METRICS_FLAG.known_in(version):
        how = (
            f"Start once with {facts.METRICS_FLAG.name}: the logged table must show Runtime Mode FULL for decode steps "
            "and no row with NONE"
        )
    else:
        how = "The start-up log must show 'Capturing CUDA graphs' with this many sizes and 'Graph capturing finished'"
    return f"{how}. To go back, remove {flag}: vLLM then captures its default list."
