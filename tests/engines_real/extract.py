"""Run single functions of a package that cannot be imported without its GPU stack.

A function is cut out of its file by name, loses decorators, annotations and imports of its own package, and is
compiled in a namespace that holds exactly what the caller gives it: what runs is the engine's own arithmetic.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any


class _Plain(ast.NodeTransformer):
    def __init__(self, package: str) -> None:
        self.package = package

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list = []
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        own = node.module is not None and node.module.split(".")[0] == self.package
        return ast.copy_location(ast.Pass(), node) if own else node


def functions(path: Path, names: tuple[str, ...], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The named functions and classes of a file (methods become functions of `self`); they see each other.

    Raises:
        LookupError: the file has no such function, so the engine has changed and this check must be read again.
    """
    made: dict[str, Any] = dict(namespace)
    exec(_compiled(path, names), made)
    return {name: made[name] for name in names}


@lru_cache
def _compiled(path: Path, names: tuple[str, ...]) -> CodeType:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.ClassDef)
    wanted = {node.name: node for node in ast.walk(tree) if isinstance(node, kinds) and node.name in names}
    absent = set(names) - set(wanted)
    if absent:
        raise LookupError(f"{path} has no {', '.join(sorted(absent))}")
    module = ast.Module(body=[_Plain(path_package(path)).visit(wanted[name]) for name in names], type_ignores=[])
    return compile(ast.fix_missing_locations(module), str(path), "exec")


def path_package(path: Path) -> str:
    """`vllm` for .../vllm-0.33.0/vllm/config/vllm.py."""
    return next(part for part in path.parts if part in ("vllm", "sglang"))
