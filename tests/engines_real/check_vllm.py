"""Our vLLM rules against the functions of the released packages (make test-engines)."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.engines_real.vllm_package import Asked, RealVllm
from tuner.engines.base import Provenance
from tuner.engines.registry import engine
from tuner.engines.vllm import normalise
from tuner.engines.vllm.options import VllmOptions

VERSIONS = ("0.33.0", "0.11.0")
LISTS = ((1, 2, 4, 8), (8, 4, 4, 700, 16), (3, 5, 9000), (64,), (512, 1024))


@pytest.fixture(scope="module", params=VERSIONS)
def real(request: pytest.FixtureRequest, vllm_sources: dict[str, Path]) -> tuple[str, RealVllm]:
    return request.param, RealVllm(vllm_sources[request.param], request.param)


def grid() -> list[Asked]:
    asked: list[Asked] = []
    for seqs, tokens, draft in product((1, 6, 32, 100, 256, 1024), (64, 700, 2048, 16384), (0, 1, 6, 16)):
        if tokens < seqs or tokens < draft + 1:
            continue
        asked += [Asked(seqs, tokens, draft, max_size=size) for size in (None, 42, 256)]
        asked += [Asked(seqs, tokens, draft, blackwell=True), Asked(seqs, tokens, draft, interactive=True)]
        asked += [Asked(seqs, tokens, draft, sizes=sizes) for sizes in LISTS]
        asked += [Asked(seqs, tokens, draft, sizes=(1, 8, 40), max_size=size) for size in (40, 64)]
        asked += [Asked(seqs, tokens, draft, tp=4, sequence_parallel=True)]
    schedule = ((1, 64, 3), (65, 128, 1), (129, 512, 0))
    asked += [Asked(seqs, 8192, 3, schedule=schedule) for seqs in (32, 100, 512)]
    return asked


def options_of(version: str, asked: Asked) -> VllmOptions:
    raw = {
        "max_num_seqs": str(asked.max_num_seqs),
        "max_num_batched_tokens": str(asked.max_num_batched_tokens),
        "num_speculative_tokens": str(asked.num_speculative_tokens),
        "performance_mode": "interactivity" if asked.interactive else "balanced",
        "gpu_arch": "sm100" if asked.blackwell else "sm90",
        "tensor_parallel_size": str(asked.tp),
        "enable_sequence_parallelism": str(asked.sequence_parallel),
        "use_v2_model_runner": "true",
        "max_cudagraph_capture_size": "none" if asked.max_size is None else str(asked.max_size),
    }
    if asked.schedule:
        tiers = ",".join(f"{first}-{last}:{draft}" for first, last, draft in asked.schedule)
        raw["num_speculative_tokens_per_batch_size"] = tiers
    options: VllmOptions = engine(f"vllm@{version}").options(raw)
    return options


def ours(version: str, asked: Asked) -> list[int] | str:
    chosen, options = engine(f"vllm@{version}"), options_of(version, asked)
    resolved = normalise.resolve(asked.sizes, options, chosen.version)
    return "refused" if resolved.refused else list(resolved.sizes)


def test_lists_are_built_as_the_package_builds_them(real: tuple[str, RealVllm]) -> None:
    version, package = real
    asked = [a for a in grid() if version != "0.11.0" or (not (a.sizes and a.max_size) and not a.interactive)]
    different = []
    for point in asked:
        theirs, here = package.capture_sizes(point), ours(version, point)
        refused = isinstance(theirs, str) or not theirs
        if (here == "refused") != refused or (not refused and here != sorted(set(theirs))):
            different.append((point, theirs, here))
    print(f"vllm {version}: {len(asked)} configurations, {len(different)} differ")
    assert not different, different[:3]


def test_runner_v1_rounds_as_the_package_rounds(real: tuple[str, RealVllm]) -> None:
    version, package = real
    if not package.modern:
        pytest.skip("no rounding before 0.11.1")
    chosen, compared = engine(f"vllm@{version}"), 0
    for draft, sizes in product((1, 2, 6, 15, 16), ((1, 2, 4, 8), (1, 2), (8, 16, 24, 32, 512), (7, 14, 42))):
        raw = {"num_speculative_tokens": str(draft), "use_v2_model_runner": "false", "max_num_batched_tokens": "8192"}
        resolved = normalise.resolve(sizes, chosen.options(raw), chosen.version)
        theirs = package.rounded_for_v1(list(sizes), draft + 1)
        assert ("ValueError" if resolved.refused else list(resolved.sizes)) == theirs, (draft, sizes)
        compared += 1
    print(f"vllm {version}: {compared} roundings agree")


def test_runner_v2_captures_what_the_package_captures(real: tuple[str, RealVllm]) -> None:
    version, package = real
    if not package.modern:
        pytest.skip("no runner V2 before 0.12")
    schedule = ((1, 64, 3), (65, 128, 1), (129, 512, 0))
    points = [Asked(seqs, 8192, draft) for seqs, draft in product((1, 6, 100, 256, 1024), (0, 1, 2, 6, 16))]
    points += [Asked(seqs, 8192, 3, schedule=schedule) for seqs in (32, 100, 512)]
    modes, compared = ("PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"), 0
    chosen = engine(f"vllm@{version}")
    for point, mode, sizes, lora in product(points, modes, (None, (1, 2, 4, 8, 96, 104), (3, 6, 42, 512)), (1, 2)):
        asked = replace(point, sizes=sizes)
        options = replace(options_of(version, asked), cudagraph_mode=mode, enable_lora=lora == 2)
        effective = chosen.effective({} if sizes is None else {"capture": sizes}, options)
        resolved = package.capture_sizes(asked)
        assert not isinstance(resolved, str)
        full, graphs = package.captured_by_v2(asked, resolved, mode, lora)
        assert list(effective.families.get("decode_full", ())) == full, (asked, mode)
        assert effective.graphs == graphs, (asked, mode, lora)
        compared += 1
    print(f"vllm {version}: {compared} sets of graphs agree")


@pytest.mark.parametrize("sizes", [(1, 2, 4, 8, 64), (8, 512), (1, 256)])
def test_the_package_parses_our_exports(real: tuple[str, RealVllm], tmp_path: Path, sizes: tuple[int, ...]) -> None:
    version, package = real
    chosen = engine(f"vllm@{version}")
    export = chosen.export({"capture": sizes}, chosen.options({}), Provenance("rec-1", "abc", "2026-11-02"))
    yaml_file = tmp_path / "vllm.yaml"
    yaml_file.write_text(export.files["vllm.yaml"])
    for words in (shlex.split(export.text, comments=True), ["serve", "MODEL", "--config", str(yaml_file)]):
        parsed = package.parse([word for word in words if word not in ("serve", "MODEL")])
        from_json = (getattr(parsed, "compilation_config", None) or {}).get("cudagraph_capture_sizes")
        captured = package.capture_sizes(Asked(512, 8192, sizes=tuple(from_json or parsed.cuda_graph_sizes)))
        assert captured == list(sizes)
