"""SGLang's own defaults, final filter and argument parsing, run from its released files."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from packaging.version import Version

from tests.engines_real.extract import functions

GIB = 1024


@dataclass(frozen=True)
class Asked:
    """One point of the grid; the GPU in GiB."""

    gpu_gib: int = 80
    tp: int = 1
    dp: int = 1
    dp_attention: bool = False
    draft_tokens: int = 1
    algorithm: str | None = None
    overlap: bool = False
    no_padding: bool = False
    max_running: int | None = None
    max_decode: int | None = None
    decode: tuple[int, ...] | None = None
    mla: bool = False


class _Backend:
    FULL, BREAKABLE, DISABLED = "full", "breakable", "disabled"


class _Phase:
    DECODE, PREFILL = "decode", "prefill"


class RealSglang:
    """The package at one version; `package` holds the folder `sglang`."""

    def __init__(self, package: Path, version: str) -> None:
        self.root = package / "sglang" / "srt"
        self.hooks = self.root / "arg_groups"
        self.new = (self.hooks / "memory_hook.py").exists()
        self.version = Version(version)

    def resolved(self, asked: Asked) -> tuple[list[int], list[int], float]:
        """(decode list, prefill list, mem_fraction_static) after the engine's memory settings."""
        return self._resolved_new(asked) if self.new else self._resolved_old(asked)

    def captured(self, asked: Asked, decode: list[int], pool: int) -> list[int] | str:
        """The final filter on `decode` with `pool` request slots of one rank."""
        attn_tp = asked.tp // asked.dp if asked.dp_attention else asked.tp
        try:
            return (
                self._filter_new(asked, decode, pool, attn_tp)
                if self.new
                else self._filter_old(asked, decode, pool, attn_tp)
            )
        except AssertionError:
            return "AssertionError"

    def parse_config(self, text: str) -> dict[str, dict[str, Any]]:
        """`--cuda-graph-config` through the engine's own argparse type."""
        path = self.root / "model_executor" / "cuda_graph_config.py"
        names = ("Phase", "Backend", "parse_cuda_graph_backend_arg", "parse_cuda_graph_config_arg")
        space: dict[str, Any] = {"argparse": argparse, "json": json}
        tree_constants = {"ALLOWED_KEYS_PER_PHASE": _literal(path, "ALLOWED_KEYS_PER_PHASE")}
        made = functions(path, names, space | tree_constants)
        parsed: dict[str, dict[str, Any]] = made["parse_cuda_graph_config_arg"](text)
        return parsed

    def declared_flags(self) -> str:
        """The text that declares arguments, to look flags up in."""
        files = [self.root / "server_args.py", *sorted(self.hooks.rglob("*.py"))]
        return "".join(file.read_text() for file in files if file.exists())

    def _resolved_new(self, asked: Asked) -> tuple[list[int], list[int], float]:
        cfg = self._config(asked)
        decode = SimpleNamespace(
            backend=_Backend.FULL, bs=list(asked.decode) if asked.decode else None, max_bs=asked.max_decode
        )
        prefill = SimpleNamespace(backend=_Backend.BREAKABLE, bs=None, max_bs=None)
        cfg.cuda_graph_config = SimpleNamespace(decode=decode, prefill=prefill)
        cfg._cuda_graph_config_locked = set()
        hook, memory = self.hooks / "cuda_graph_hook.py", self.hooks / "memory_hook.py"
        space = self._space(cfg, asked)
        ladders = ("generate_prefill_cuda_graph_batch_sizes", "generate_decode_cuda_graph_batch_sizes")
        space |= functions(hook, ladders, space)
        names = ("handle_gpu_memory_settings", "reserve_for_graph_mb", "reserve_for_deepep_a2a_mb")
        functions(memory, names, space)["handle_gpu_memory_settings"](cfg)
        result = cfg.cuda_graph_config
        return result.decode.bs, result.prefill.bs, cfg.mem_fraction_static

    def _resolved_old(self, asked: Asked) -> tuple[list[int], list[int], float]:
        cfg = self._config(asked)
        cfg.cuda_graph_bs = list(asked.decode) if asked.decode else None
        cfg.cuda_graph_max_bs = asked.max_decode
        cfg.piecewise_cuda_graph_tokens, cfg.piecewise_cuda_graph_max_tokens = None, None
        cfg.disable_piecewise_cuda_graph = False
        cfg.use_mla_backend = lambda: asked.mla
        path = self.root / "server_args.py"
        names = (
            "_generate_cuda_graph_batch_sizes",
            "_generate_piecewise_cuda_graph_tokens",
            "_handle_gpu_memory_settings",
        )
        made = functions(path, names, self._space(cfg, asked))
        cfg._generate_cuda_graph_batch_sizes = lambda: made["_generate_cuda_graph_batch_sizes"](cfg)
        cfg._generate_piecewise_cuda_graph_tokens = lambda: made["_generate_piecewise_cuda_graph_tokens"](cfg)
        cfg.get_model_config = lambda: SimpleNamespace(is_multimodal=False)
        made["_handle_gpu_memory_settings"](cfg, asked.gpu_gib * GIB)
        return cfg.cuda_graph_bs, cfg.piecewise_cuda_graph_tokens, cfg.mem_fraction_static

    def _config(self, asked: Asked) -> Any:
        return SimpleNamespace(
            device="cuda", chunked_prefill_size=None, max_prefill_tokens=16384, tp_size=asked.tp, pp_size=1,
            dp_size=asked.dp, attn_dp_size=asked.dp if asked.dp_attention else 1,
            enable_dp_attention=asked.dp_attention, max_running_requests=asked.max_running, max_total_tokens=None,
            model_path="m", context_length=None, torch_compile_max_bs=32, mem_fraction_static=None,
            disable_cuda_graph_padding=asked.no_padding, speculative_algorithm=asked.algorithm,
            speculative_num_draft_tokens=asked.draft_tokens, disaggregation_mode="null", language_only=False,
            language_model_only=False, enable_symm_mem=False, moe_a2a_backend="none", ple_offload_backend=None,
        )  # fmt: skip

    def _space(self, cfg: Any, asked: Asked) -> dict[str, Any]:
        def declare(_: Any, __: str, **values: Any) -> None:
            vars(cfg).update(values)

        return {
            "resolving_view": lambda _: cfg, "resolved_view": lambda _: cfg, "declare_resolution": declare,
            "get_device_memory_capacity": lambda _: asked.gpu_gib * GIB, "copy": copy, "Phase": _Phase,
            "Backend": _Backend, "use_mla_backend": lambda _: asked.mla, "logger": MagicMock(),
            "model_config_of": lambda _: SimpleNamespace(is_multimodal=False), "replace": replace,
            "post_capture_kv_sizing_planned": lambda _: False, "dataclasses": dataclasses,
            "attn_dp_enabled_of": lambda _: asked.dp_attention, "ModelConfig": MagicMock(),
            "get_platform": lambda: SimpleNamespace(is_xpu=False), "envs": MagicMock(),
            "expand_multimodal_decode_graph_to_running_limit": lambda *_: None, "is_npu": lambda: False,
            "_DEFAULT_PP_PREFILL_CUDA_GRAPH_MAX_TOKENS": 8192,
        }  # fmt: skip

    def _filter_new(self, asked: Asked, decode: list[int], pool: int, attn_tp: int) -> list[int]:
        exec_ = SimpleNamespace(
            graph=SimpleNamespace(
                cuda_graph_config=SimpleNamespace(decode=SimpleNamespace(bs=decode)), torch_compile_max_bs=32
            ),
            overlap=SimpleNamespace(enable_two_batch_overlap=asked.overlap),
        )
        space: dict[str, Any] = {
            "get_exec": lambda: exec_, "is_hip": lambda: False, "require_gathered_buffer": lambda: asked.dp_attention,
            "get_parallel": lambda: SimpleNamespace(attn_tp_size=attn_tp, attn_cp_size=1),
            "ceil_align": lambda x, y: -(-x // y) * y, "DllmConfig": SimpleNamespace(from_server_args=lambda _: None),
            "get_flags": lambda: SimpleNamespace(capture=SimpleNamespace(enable_torch_compile=False)),
        }  # fmt: skip
        space |= functions(self.root / "utils" / "common.py", ("get_cuda_graph_batch_size_alignment",), space)
        path = self.root / "model_executor" / "runner" / "base_cuda_graph_runner.py"
        run = functions(path, ("get_batch_sizes_to_capture",), space)["get_batch_sizes_to_capture"]
        runner = SimpleNamespace(req_to_token_pool=SimpleNamespace(size=pool), server_args=None)
        captured: list[int] = run(runner, asked.draft_tokens)[0]
        return captured

    def _filter_old(self, asked: Asked, decode: list[int], pool: int, attn_tp: int) -> list[int]:
        path = self.root / "model_executor" / "cuda_graph_runner.py"
        space: dict[str, Any] = {
            "require_gathered_buffer": lambda _: asked.dp_attention, "get_attention_tp_size": lambda: attn_tp,
            "get_attention_cp_size": lambda: 1,
        }  # fmt: skip
        run = functions(path, ("get_batch_sizes_to_capture",), space)["get_batch_sizes_to_capture"]
        server = SimpleNamespace(
            cuda_graph_bs=list(decode), enable_two_batch_overlap=asked.overlap, torch_compile_max_bs=32,
            enable_torch_compile=False,
        )  # fmt: skip
        runner = SimpleNamespace(req_to_token_pool=SimpleNamespace(size=pool), server_args=server)
        width = [asked.draft_tokens] if run.__code__.co_argcount > 1 else []
        captured: list[int] = run(runner, *width)[0]
        return captured


def _literal(path: Path, name: str) -> Any:
    import ast

    class Names(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            return ast.copy_location(ast.Constant(node.attr.lower()), node)

    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(Names().visit(node.value))
    raise LookupError(f"{path} has no {name}")
