"""SGLang configuration text."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version

from tuner.engines import deploy
from tuner.engines.base import Export, Provenance
from tuner.engines.header import assumed, header
from tuner.engines.sglang import facts
from tuner.engines.sglang.options import SglangOptions, parse
from workloads.errors import BadUsage

CONFIG_FILE = "sglang.yaml"


def lacks_prefill_flag(version: Version) -> str | None:
    """Why this version takes no prefill list; None where it does."""
    if facts.PREFILL_LIST.known_in(version) or facts.OLD_PREFILL_LIST.known_in(version):
        return None
    return f"SGLang {version} has no flag for prefill sizes; {facts.OLD_PREFILL_LIST.since} or later has one"


def settings(lists: Mapping[str, tuple[int, ...]], version: Version) -> deploy.Settings:
    """The flags of this version with `lists` (already normalised); an empty prefill list switches its graphs off.

    Raises:
        BadUsage: this version cannot express a list.
    """
    if not facts.CONFIG.known_in(version):
        return deploy.Settings("sglang", tuple(_old_arguments(lists, version)))
    phases = {name: {"bs": list(sizes)} if sizes else {"backend": "disabled"} for name, sizes in lists.items()}
    value = deploy.compact_json(phases)
    text = f"cuda-graph-config: '{value}'\n"
    return deploy.Settings("sglang", ((facts.CONFIG.name, value),), config_file=CONFIG_FILE, config_text=text)


def write(
    lists: Mapping[str, tuple[int, ...]], options: SglangOptions, version: Version, provenance: Provenance
) -> Export:
    """Arguments that capture exactly `lists` (already normalised).

    Raises:
        BadUsage: this version cannot express a list.
    """
    always = ["max_running_requests", "tp_size"]
    head = header("sglang", version, provenance, assumed(options, lambda raw: parse(raw, version), always))
    if options.enable_dp_attention:
        head += "# sizes are requests of one attention-DP rank\n"
    made = settings(lists, version)
    files = deploy.files(deploy.Settings(made.service, made.arguments), head)
    if made.config_file is not None:
        usage = f"# python -m sglang.launch_server --config {made.config_file} --model-path MODEL\n"
        files[made.config_file] = head + usage + made.config_text
    flag = facts.CONFIG.name if facts.CONFIG.known_in(version) else "these flags"
    return Export(f"{head}{deploy.argument_lines(made)}\n", _watch(flag), files)


def _old_arguments(lists: Mapping[str, tuple[int, ...]], version: Version) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []
    if "decode" in lists:
        sizes = tuple(str(size) for size in lists["decode"])
        made.append((facts.OLD_LIST.name, *sizes) if sizes else ("--disable-cuda-graph",))
    if "prefill" not in lists:
        return made
    missing = lacks_prefill_flag(version)
    if lists["prefill"]:
        if missing is not None:
            raise BadUsage(missing, field="prefill")
        if facts.PREFILL_ON.known_in(version):
            made.append((facts.PREFILL_ON.name,))
        made.append((facts.OLD_PREFILL_LIST.name, *(str(size) for size in lists["prefill"])))
    elif facts.PREFILL_OFF.known_in(version):
        made.append((facts.PREFILL_OFF.name,))
    return made


def _watch(flag: str) -> str:
    return (
        "The decode log line must say 'cuda graph: True', and with --enable-metrics the counter "
        'sglang:cuda_graph_passes_total{mode="decode_none"} must stand still. '
        f"To go back, remove {flag}: SGLang then captures its default lists."
    )
