"""The compile cache of an experiment: one folder that every start shares, and whether a start found its code there.

vLLM compiles the model once, whatever the capture list: the ranges that it compiles for end at the token budget
(0.23.0 `config/vllm.py:1790-1877`), and sizes to compile apart (`compile_sizes`) are given by nobody here. Yet the list
is part of its cache's key (`config/compilation.py:776-812`). Left to itself, a list that was started before starts
faster than one that was not, and two lists run code that was compiled, and autotuned, twice. With a folder given, vLLM
uses the folder and no key (`compilation/backends.py:1053`), so the first start is cold, and all later ones are warm
and run the very same code. The key's other parts are then unchecked too: a folder serves one engine with one model and
one set of options, differing in the list alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

CacheState = Literal["cold", "warm"]

_LOADED = ("Directly load the compiled graph(s) for compile range", "Directly load AOT compilation from path")
_COMPILED = (
    "Compiling a graph for compile range",
    "Cache the graph of compile range",
    "vLLM's torch.compile cache is disabled",
)


def cache_in(records: Path, gpu: str) -> Path:
    """The folder for the compile cache of an experiment, made where it is missing; git leaves it alone.

    Args:
        gpu: as it is named to CUDA. Each has its own: two first starts at the same time would write the same files.
    """
    folder = records / "compile-cache"
    (folder / f"gpu-{gpu}").mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return (folder / f"gpu-{gpu}").resolve()


def state_in(log: str, engine: str) -> CacheState | None:
    """Whether the start whose log this is compiled its model or loaded it, in the engine's own words.

    Compiled in part is cold. None where nothing is said of it: a start that compiled nothing (`enforce_eager`) or did
    not get that far, and every engine but vLLM (SGLang's decode graphs run uncompiled code).

    Args:
        log: from the start of the engine on.
        engine: its name.
    """
    if engine != "vllm":
        return None
    if any(words in log for words in _COMPILED):
        return "cold"
    return "warm" if any(words in log for words in _LOADED) else None
