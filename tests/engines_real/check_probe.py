"""What the probe says to an engine and looks for in its log, against the released packages (make test-engines)."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from services.capture.probes import compile_cache, sglang_arguments, vllm_arguments
from services.capture.probes.base import Launch
from services.capture.probes.failures import _NO_KV
from services.capture.probes.vllm_server import VllmServer
from tests.engines_real.packages import sources
from tuner.engines.registry import engine

VLLM, SGLANG = "0.23.0", "0.5.23"
IN_JSON = {"cudagraph_mode", "max_cudagraph_capture_size"}


@pytest.fixture(scope="module")
def vllm(engine_folder: Path) -> Path:
    return sources("vllm", VLLM, engine_folder) / "vllm"


@pytest.fixture(scope="module")
def sglang(engine_folder: Path) -> Path:
    return sources("sglang", SGLANG, engine_folder) / "sglang"


def fields_of(*files: Path) -> set[str]:
    """Annotated names in the bodies of all classes of some files: the arguments of a dataclass-like config."""
    bodies = [
        node.body for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
    ]
    return {
        item.target.id
        for body in bodies
        for item in body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def launch(spec: str, names: set[str]) -> Launch:
    values = {"cudagraph_mode": "FULL_AND_PIECEWISE", "performance_mode": "balanced", "enforce_eager": "true"}
    text = {"gpu_memory_utilization": "0.9", "mem_fraction_static": "0.8", "disable_cuda_graph_padding": "true"}
    raw = {name: (values | text).get(name, "1024") for name in sorted(names)}
    chosen = engine(spec)
    return Launch(chosen, raw, {chosen.list_names[0]: (1, 8)}, Path("m"), 1000)


def test_every_argument_that_vllm_gets_is_one_of_its_own(vllm: Path) -> None:
    known = fields_of(vllm / "engine" / "arg_utils.py")
    asked = replace(launch(f"vllm@{VLLM}", set(vllm_arguments._PASSING.arguments)), cache=Path("cache"))
    passed = vllm_arguments.engine_arguments(asked)
    assert set(passed) | {"stream_interval"} <= known
    compilation = fields_of(vllm / "config" / "compilation.py")
    assert set(passed["compilation_config"]) <= compilation and compilation >= IN_JSON
    frontend = fields_of(vllm / "entrypoints" / "openai" / "cli_args.py")
    assert {"host", "port", "disable_uvicorn_access_log"} <= frontend and "served_model_name" in known
    variables = (vllm / "envs.py").read_text()
    for name in vllm_arguments.environment(asked):
        assert name in variables or not name.startswith("VLLM_"), name


def test_vllms_completions_take_what_the_probe_sends(vllm: Path) -> None:
    request = fields_of(vllm / "entrypoints" / "openai" / "completion" / "protocol.py")
    assert {"model", "prompt", "max_tokens", "ignore_eos", "temperature", "stream", "stream_options"} <= request


def test_the_sentences_that_failures_are_told_by_are_vllms_own(vllm: Path) -> None:
    text = " ".join(file.read_text() for file in (vllm / "v1").rglob("*.py"))
    flat = "".join(text.split()).replace('"f"', "").replace('""', "")
    assert all("".join(sentence.split()) in flat for sentence in _NO_KV[:2])
    assert "Graphcapturingfinishedin" in flat and "GPUKVcachesize:" in flat


def test_what_the_log_and_the_counters_are_read_by_is_vllms_own(vllm: Path) -> None:
    compiler = " ".join(file.read_text() for file in (vllm / "compilation").glob("*.py"))
    assert all(words in compiler for words in (*compile_cache._LOADED, *compile_cache._COMPILED))
    counted = (vllm / "v1" / "metrics" / "loggers.py").read_text()
    for sample in VllmServer.counters:
        assert f'"{sample.removesuffix("_count")}"' in counted or f'"{sample.removesuffix("_total")}"' in counted
    # Model runner V2 tells no bucket of a step; the sizes are told by the engine's core, whatever the runner.
    assert "cudagraph_stats" not in (vllm / "v1" / "worker" / "gpu" / "model_runner.py").read_text()
    assert '" context requests, "' in (vllm / "v1" / "engine" / "core.py").read_text()


def test_every_argument_that_sglang_gets_is_one_of_its_own(sglang: Path) -> None:
    known = fields_of(*(sglang / "srt" / "arg_groups" / "fields").glob("*.py"))
    passed = sglang_arguments.engine_arguments(launch(f"sglang@{SGLANG}", set(sglang_arguments._PASSING.arguments)))
    assert set(passed) | {"host", "port", "log_level_http"} <= known
    assert _NO_KV[2] in (sglang / "srt" / "model_executor" / "pool_configurator.py").read_text()
