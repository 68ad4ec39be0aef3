"""The compile cache that the starts of an experiment share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from services.capture.probes.compile_cache import cache_in, state_in
from services.capture.probes.vllm_server import VllmServer
from tests.services.capture.probes.conftest import MakeLaunch

COMPILES = "INFO [backends.py:345] Cache the graph of compile range (1, 8192) for later use\n"
LOADS = (
    "INFO [backends.py:281] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1 s\n"
)


def test_a_start_is_cold_or_warm_in_the_engines_own_words() -> None:
    assert state_in(COMPILES, "vllm") == "cold"
    assert state_in(LOADS, "vllm") == "warm"
    assert state_in(LOADS + COMPILES, "vllm") == "cold"
    assert state_in("INFO vLLM's torch.compile cache is disabled.\n", "vllm") == "cold"
    assert state_in("INFO enforce_eager\n", "vllm") is None
    assert state_in(LOADS, "sglang") is None


def test_everything_compiled_goes_below_the_folder_whatever_the_list(launch: MakeLaunch, tmp_path: Path) -> None:
    folder = cache_in(tmp_path, "0")
    assert cache_in(tmp_path, "0") == folder and (folder.parent / ".gitignore").read_text() == "*\n"
    assert cache_in(tmp_path, "1") != folder  # two GPUs start at the same time
    probe = VllmServer()
    for lists in (None, {"capture": (1, 2)}):
        asked = replace(launch(lists), cache=folder)
        assert f'"cache_dir": "{folder}/compiled"' in " ".join(probe.command(asked, 1))
        variables = probe.environment(asked)
        assert variables["VLLM_USE_AOT_COMPILE"] == "0"
        assert sum(value.startswith(str(folder)) for value in variables.values()) == 3
    assert probe.environment(launch())["VLLM_DISABLE_COMPILE_CACHE"] == "1"
