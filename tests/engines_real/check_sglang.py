"""Our SGLang rules against the functions of the released packages (make test-engines)."""

from __future__ import annotations

import re
import shlex
from itertools import product
from pathlib import Path

import pytest

from tests.engines_real.sglang_package import Asked, RealSglang
from tuner.engines.base import Lists, Provenance
from tuner.engines.registry import engine
from tuner.engines.sglang import kv
from tuner.engines.sglang.options import SglangOptions

VERSIONS = ("0.5.23", "0.5.13")


@pytest.fixture(scope="module", params=VERSIONS)
def real(request: pytest.FixtureRequest, sglang_sources: dict[str, Path]) -> tuple[str, RealSglang]:
    return request.param, RealSglang(sglang_sources[request.param], request.param)


def grid() -> list[Asked]:
    asked = [
        Asked(gpu_gib=gpu, tp=tp, mla=mla)
        for gpu, tp, mla in product((16, 24, 32, 48, 80, 141, 180), (1, 4, 8), (False, True))
    ]
    algorithms: tuple[str | None, ...] = (None, "EAGLE", "NGRAM", "STANDALONE")
    for algorithm, running, largest in product(algorithms, (None, 3, 100, 512), (None, 7, 100, 300, 768)):
        asked.append(Asked(algorithm=algorithm, max_running=running, max_decode=largest))
        asked.append(Asked(algorithm=algorithm, max_running=running, max_decode=largest, no_padding=True))
    for dp, draft, overlap in product((2, 4), (1, 2, 3), (False, True)):
        common = {"tp": 4, "dp": dp, "dp_attention": True, "overlap": overlap, "draft_tokens": draft, "gpu_gib": 48}
        algorithm = "EAGLE" if draft > 1 else None
        for decode, running in product((None, (1, 2, 4, 8, 12, 16), (3, 5), (6, 400)), (8, 100, 512)):
            asked.append(Asked(**common, algorithm=algorithm, decode=decode, max_running=running))  # type: ignore[arg-type]
    return asked


def ours(version: str, asked: Asked) -> tuple[Lists, SglangOptions]:
    chosen = engine(f"sglang@{version}")
    raw = {
        "gpu_memory_gib": asked.gpu_gib, "tp_size": asked.tp, "dp_size": asked.dp,
        "enable_dp_attention": asked.dp_attention, "enable_two_batch_overlap": asked.overlap,
        "speculative_num_draft_tokens": asked.draft_tokens, "disable_cuda_graph_padding": asked.no_padding,
        "use_mla": asked.mla, "cuda_graph_backend_prefill": "breakable",
    }  # fmt: skip
    named = {
        "speculative_algorithm": asked.algorithm, "max_running_requests": asked.max_running,
        "cuda_graph_max_bs_decode": asked.max_decode,
    }  # fmt: skip
    raw |= {key: value for key, value in named.items() if value is not None}
    return ({} if asked.decode is None else {"decode": asked.decode}), chosen.options(
        {k: str(v) for k, v in raw.items()}
    )


def test_lists_filter_and_reservation_are_those_of_the_package(real: tuple[str, RealSglang]) -> None:
    version, package = real
    chosen, different, asked = engine(f"sglang@{version}"), [], grid()
    for point in asked:
        lists, options = ours(version, point)
        decode, prefill, fraction = package.resolved(point)
        captured = package.captured(point, decode, options.pool_requests)
        effective = chosen.effective(lists, options)
        mine = (
            "AssertionError" if effective.refused else list(effective.families.get("decode_full", ())),
            list(chosen.default_lists(options)["prefill"]),
            kv.mem_fraction(lists, options, chosen.version),
        )
        if mine != (captured, prefill, fraction):
            different.append((point, (captured, prefill, fraction), mine))
    print(f"sglang {version}: {len(asked)} configurations, {len(different)} differ")
    assert not different, different[:3]


@pytest.mark.parametrize(
    "lists", [{"decode": (1, 2, 8)}, {"decode": (1, 64), "prefill": (64, 256)}, {"decode": (4,), "prefill": ()}]
)
def test_the_package_takes_our_exports(real: tuple[str, RealSglang], lists: Lists) -> None:
    version, package = real
    chosen = engine(f"sglang@{version}")
    words = shlex.split(chosen.export(lists, chosen.options({}), Provenance("rec-1")).text, comments=True)
    declared = package.declared_flags()
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"\"{re.escape(word)}\"|\b{word[2:].replace('-', '_')}\b", declared), word
    if words[0] == "--cuda-graph-config":
        parsed = package.parse_config(words[1])
        assert {name: tuple(phase.get("bs", ())) for name, phase in parsed.items()} == lists
