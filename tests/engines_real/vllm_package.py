"""vLLM's own list building and argument parsing, run from its released files."""

from __future__ import annotations

import argparse
import enum
import json
import re
import sys
from argparse import (
    Namespace,
)
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from itertools import groupby, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import yaml

from tests.engines_real.extract import functions


class Mode(Enum):
    """Stands for vLLM's CUDAGraphMode: the functions only compare it with NONE."""

    NONE = 0
    FULL_AND_PIECEWISE = 3


@dataclass(frozen=True)
class Asked:
    """One point of the grid."""

    max_num_seqs: int
    max_num_batched_tokens: int
    num_speculative_tokens: int = 0
    sizes: tuple[int, ...] | None = None
    max_size: int | None = None
    interactive: bool = False
    blackwell: bool = False
    tp: int = 1
    sequence_parallel: bool = False
    schedule: tuple[tuple[int, int, int], ...] | None = None


class RealVllm:
    """The package at one version; `package` holds the folder `vllm`."""

    def __init__(self, package: Path, version: str) -> None:
        self.root = package / "vllm"
        self.modern = tuple(int(part) for part in version.split(".")) >= (0, 11, 1)
        self.config_file = self.root / "config" / ("vllm.py" if self.modern else "__init__.py")
        if not self.config_file.exists():
            self.config_file = self.root / "config.py"

    def capture_sizes(self, asked: Asked) -> list[int] | str:
        """`cudagraph_capture_sizes` after the engine's configuration; the error's name where it raises."""
        config = self._config(asked)
        names = ("_set_cudagraph_sizes",)
        helpers = {"update_sizes_for_sequence_parallelism": self._tp_filter(config)}
        run = functions(self.config_file, names, self._namespace(asked))["_set_cudagraph_sizes"]
        for name, helper in helpers.items():
            setattr(config, name, helper)
        try:
            run(config)
        except (ValueError, AssertionError) as error:
            return type(error).__name__
        sizes: list[int] = config.compilation_config.cudagraph_capture_sizes
        return sorted(sizes)

    def rounded_for_v1(self, sizes: list[int], q: int, tp: int = 1) -> list[int] | str:
        """What model runner V1 makes of the list with speculation."""
        path = self.root / "config" / "compilation.py"
        name = "adjust_cudagraph_sizes_for_spec_decode"
        space = {"round_up": lambda x, y: -(-x // y) * y, "logger": MagicMock()}
        run = functions(path, (name,), space)[name]
        state = MagicMock(cudagraph_capture_sizes=list(sizes), max_cudagraph_capture_size=max(sizes))
        state.pass_config.enable_sp = state.pass_config.enable_sequence_parallelism = False
        arguments = (q, tp) if "tensor_parallel_size" in run.__code__.co_varnames else (q,)
        try:
            run(state, *arguments)
        except ValueError as error:
            return type(error).__name__
        return list(state.cudagraph_capture_sizes)

    def captured_by_v2(self, asked: Asked, sizes: list[int], mode: str, lora_cases: int) -> tuple[list[int], int]:
        """(FULL decode sizes, graphs) that model runner V2 makes of the resolved list."""
        path = self.root / "v1" / "worker" / "gpu" / "cudagraph_utils.py"
        flag = _mode_enum(self.root / "config" / "compilation.py")
        space = self._namespace(asked) | {
            "CUDAGraphMode": flag,
            "BatchExecutionDescriptor": _described,
            "defaultdict": defaultdict,
            "product": product,
            "groupby": groupby,
            "round_up": lambda x, y: -(-x // y) * y,
        }
        q = 1 + asked.num_speculative_tokens
        config = self._config(asked)
        runner = MagicMock(
            compilation_config=SimpleNamespace(
                cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=max(sizes, default=0)
            ),
            cudagraph_mode=flag[mode], max_num_reqs=asked.max_num_seqs, decode_query_len=q, varlen_decode=False,
            lora_capture_cases=list(range(lora_cases)), _capture_descs={}, _candidates={},
            vllm_config=SimpleNamespace(
                speculative_config=config.speculative_config, num_speculative_tokens=asked.num_speculative_tokens,
                cache_config=SimpleNamespace(use_kda_recoverssm=False),
            ),
        )  # fmt: skip
        runner._maybe_ubatch_twin = lambda _: None
        functions(path, ("_init_candidates",), space)["_init_candidates"](runner)
        full = runner._capture_descs.get(flag.FULL, [])
        return sorted({d.num_tokens for d in full}), sum(len(descs) for descs in runner._capture_descs.values())

    def parse(self, words: list[str]) -> Namespace:
        """The engine's own argument parser with the capture options declared as `arg_utils.py` declares them."""
        path = self.root / "utils" / "argparse_utils.py"
        path = path if path.exists() else self.root / "utils" / "__init__.py"
        space = (
            _typing_names()
            | vars(argparse)
            | {
                "argparse": argparse,
                "json": json,
                "re": re,
                "sys": sys,
                "yaml": yaml,
                "logger": MagicMock(),
            }
        )
        wanted = _parser_parts(path)
        kind = functions(path, wanted, space)["FlexibleArgumentParser"]
        parser = kind(prog="vllm serve")
        for flag in self.declared_flags():
            if flag == "--compilation-config":
                parser.add_argument(flag, "-cc", "-O", type=json.loads)
            else:
                parser.add_argument(flag, type=int, nargs="+" if flag.endswith("sizes") else None)
        parser.add_argument("--config", type=str)
        parsed: Namespace = parser.parse_args(words)
        return parsed

    def declared_flags(self) -> list[str]:
        """Which capture flags this version's `arg_utils.py` declares."""
        text = (self.root / "engine" / "arg_utils.py").read_text()
        flags = (
            "--compilation-config",
            "--cuda-graph-sizes",
            "--cudagraph-capture-sizes",
            "--max-cudagraph-capture-size",
        )
        return [flag for flag in flags if f'"{flag}"' in text or f"'{flag}'" in text]

    def _config(self, asked: Asked) -> Any:
        asked_sizes = list(asked.sizes) if asked.sizes is not None else None
        old_sizes = asked_sizes or [asked.max_size or min(asked.max_num_seqs * 2, 512)]
        spec = None
        if asked.num_speculative_tokens:
            spec = SimpleNamespace(
                num_speculative_tokens=asked.num_speculative_tokens,
                num_speculative_tokens_per_batch_size=[list(tier) for tier in asked.schedule or ()],
                uses_dynamic_speculative_decoding=lambda: asked.schedule is not None,
            )
        compilation = MagicMock(
            cudagraph_capture_sizes=asked_sizes if self.modern else None,
            max_cudagraph_capture_size=asked.max_size,
            cudagraph_mode=Mode.FULL_AND_PIECEWISE,
        )
        compilation.pass_config.enable_sp = asked.sequence_parallel
        compilation.pass_config.enable_sequence_parallelism = asked.sequence_parallel
        compilation.init_with_cudagraph_sizes = lambda sizes: setattr(compilation, "cudagraph_capture_sizes", sizes)
        return SimpleNamespace(
            model_config=SimpleNamespace(enforce_eager=False),
            compilation_config=compilation,
            scheduler_config=SimpleNamespace(
                max_num_seqs=asked.max_num_seqs,
                max_num_batched_tokens=asked.max_num_batched_tokens,
                cuda_graph_sizes=old_sizes,
            ),
            parallel_config=SimpleNamespace(tensor_parallel_size=asked.tp),
            speculative_config=spec,
            num_speculative_tokens=asked.num_speculative_tokens,
            uniform_decode_query_len=1 + asked.num_speculative_tokens,
            performance_mode="interactivity" if asked.interactive else "balanced",
        )

    def _namespace(self, asked: Asked) -> dict[str, Any]:
        platform = SimpleNamespace(is_device_capability_family=lambda _: asked.blackwell)
        space: dict[str, Any] = {
            "CUDAGraphMode": Mode,
            "logger": MagicMock(),
            "current_platform": platform,
            "envs": SimpleNamespace(VLLM_USE_V1=True),
        }
        dynamic = self.root / "v1" / "spec_decode" / "dynamic" / "utils.py"
        if dynamic.exists():
            names = ("validate_and_normalize_dynamic_sd_schedule", "build_dynamic_sd_schedule_lookup")
            space |= functions(dynamic, names, {"DynamicSDSchedule": list})
        return space

    def _tp_filter(self, config: Any) -> Any:
        if "def update_sizes_for_sequence_parallelism" not in self.config_file.read_text():
            return None
        name = "update_sizes_for_sequence_parallelism"
        run = functions(self.config_file, (name,), {"logger": MagicMock()})[name]
        return lambda sizes: run(config, sizes)


@dataclass(frozen=True)
class _Descriptor:
    """The fields that the real descriptor has; it only carries them."""

    cg_mode: Any
    num_tokens: int
    num_reqs: int | None
    uniform_token_count: int | None = None
    max_query_len: int | None = None
    num_active_loras: int = 0


def _described(**values: Any) -> _Descriptor:
    return _Descriptor(**values)


def _mode_enum(path: Path) -> Any:
    """vLLM's own CUDAGraphMode, with the methods that split it into decode and mixed."""
    return functions(path, ("CUDAGraphMode",), {"enum": enum, "Enum": Enum})["CUDAGraphMode"]


def _typing_names() -> dict[str, Any]:
    import textwrap
    import typing

    return {**vars(typing), "defaultdict": defaultdict, "textwrap": textwrap}


def _parser_parts(path: Path) -> tuple[str, ...]:
    text = path.read_text()
    helpers = ("StoreBoolean", "SortedHelpFormatter", "EnableDisableAction", "_register_action")
    return (
        *(name for name in helpers if re.search(rf"^(class|def) {name}\b", text, re.MULTILINE)),
        "FlexibleArgumentParser",
    )
