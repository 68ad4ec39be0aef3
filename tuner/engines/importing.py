"""What runs today, from a command line, a configuration file or a start-up log: engine, version, options, lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.engines.base import Engine, Lists
from tuner.engines.given import Given, read_given
from tuner.engines.header import read_header
from tuner.engines.registry import engine as find_engine
from workloads.errors import BadUsage
from workloads.traces.records import EngineObservation

_PROGRAMS: tuple[tuple[str, str], ...] = (
    (r"sglang[.:/@]|\bsglang\b", "sglang"),
    (r"vllm[-_]ascend", "vllm-ascend"),
    (r"vllm[-_]gaudi", "vllm-gaudi"),
    (r"nano-?vllm", "nano-vllm"),
    (r"\bvllm\b", "vllm"),
    (r"trtllm-serve|tensorrt[-_]llm", "tensorrt-llm"),
    (r"\blmdeploy\b", "lmdeploy"),
    (r"text-generation-(launcher|inference)", "tgi"),
    (r"minisgl|mini-sglang", "mini-sglang"),
    (r"lightllm", "lightllm"),
)
_TELLTALE: Mapping[str, str] = {
    "cudagraph_capture_sizes": "vllm",
    "compilation_config": "vllm",
    "cuda_graph_sizes": "vllm",
    "cuda_graph_config": "sglang",
    "cuda_graph_bs": "sglang",
    "cuda_graph_bs_decode": "sglang",
    "cudagraph_capture_batch_sizes": "lmdeploy",
    "CUDA_GRAPHS": "tgi",
    "cuda_graphs": "tgi",
    "graph_split_batch_size": "lightllm",
    "VLLM_BUCKETING_FROM_FILE": "vllm-gaudi",
}
_IMAGE = re.compile(
    r"\b(vllm-openai|vllm-ascend|sglang|tensorrt-llm/release|lmdeploy|text-generation-inference|lightllm)"
    r":v?(\d+(?:\.\d+)+)"
)
_BUCKET_LINE = re.compile(r"^\(\[([\d, ]+)\], 1, ", re.MULTILINE)
_PYTHON_LIST = re.compile(r"^(?:cuda_graph_bs|self\.graph_bs) = \[([\d, ]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Present:
    """What runs today.

    Attributes:
        raw: options that this engine knows, as `Engine.options` takes them.
        options: the same, resolved.
        lists: list name -> sizes that are asked for; a list that is left to the engine is missing.
        notes: what was assumed.
    """

    engine: Engine
    raw: Mapping[str, str]
    options: Any
    lists: Lists
    notes: tuple[str, ...] = ()

    def captured_lists(self) -> Lists:
        """The lists asked for, and the engine's defaults for the others."""
        return {**self.engine.default_lists(self.options), **self.lists}


def import_text(text: str, spec: str | None = None) -> Present:
    """Read a command line or a configuration; `spec` (`name@version`) wins over what the text says.

    Raises:
        BadUsage: no engine can be told, or a value that the engine refuses.
    """
    header = read_header(text)
    bucket = _BUCKET_LINE.search(text) or _PYTHON_LIST.search(text)
    given = Given(text=text) if bucket else read_given(text)
    named = spec or (header.engine if header else None) or _named(given)
    if named is None:
        raise BadUsage("does not say which engine it is for; give --engine NAME@VERSION")
    chosen = find_engine(named)
    raw, lists = chosen.read_given(given)
    if bucket:
        lists = {chosen.list_names[0]: tuple(int(size) for size in bucket.group(1).split(","))}
    if header is not None and find_engine(header.engine).name == chosen.name:
        raw = {**header.options, **raw}
    notes = [*chosen.notes, *([] if "@" in named else [f"no version is given: read as {chosen.spec}"])]
    return Present(chosen, raw, chosen.options(raw), lists, tuple(notes))


def import_observation(observation: EngineObservation, spec: str | None = None) -> Present:
    """What a start-up log told.

    Raises:
        BadUsage: the log names no engine and `spec` is None.
    """
    named = observation.engine
    if named is not None and observation.version is not None:
        named = f"{named}@{observation.version}"
    if (spec or named) is None:
        raise BadUsage("does not say which engine wrote it; give --engine NAME@VERSION")
    chosen = find_engine(str(spec or named))
    raw = chosen.known_options(observation.options)
    lists = {name: tuple(sizes) for name, sizes in observation.lists.items() if name in chosen.list_names}
    return Present(chosen, raw, chosen.options(raw), lists, chosen.notes)


def _named(given: Given) -> str | None:
    """`name@version` or `name`, by program, image, module or a flag that only one engine has."""
    modules = [value for name in ("m", "image") for value in given.arguments.get(name, ())]
    image = _IMAGE.search(given.text)
    spoken = " ".join((*given.words, *modules, image.group(1) if image else ""))
    name = next((engine for pattern, engine in _PROGRAMS if re.search(pattern, spoken)), None)
    if name is None:
        names = {part for key in given.flat() for part in key.split(".")} | set(given.arguments)
        if "cuda_graph_config" in given.document:
            name = "tensorrt-llm"
        else:
            name = next((engine for key, engine in _TELLTALE.items() if key in names), None)
    return f"{name}@{image.group(2)}" if name is not None and image is not None else name
