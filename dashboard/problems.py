"""Lint findings on a page: the message, and the fix where there is a ready one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import text
from dashboard.list_editor import use
from services.contract.lint import ProblemModel

_SHOWN_AT_ONCE = 3


def show_problems(problems: Sequence[ProblemModel], *, fixable: bool = False) -> None:
    """Worst first; of many, the rest folded away. `fixable` adds buttons that put a fixed list into the editor."""
    order = {"error": 0, "warning": 1, "info": 2}
    ranked = sorted(problems, key=lambda problem: order[problem.severity])
    for at, problem in enumerate(ranked[:_SHOWN_AT_ONCE]):
        _problem(problem, f"fix-{at}" if fixable else None)
    if len(ranked) > _SHOWN_AT_ONCE:
        with st.expander(f"{text.count(len(ranked) - _SHOWN_AT_ONCE, 'more findings')}"):
            for at, problem in enumerate(ranked[_SHOWN_AT_ONCE:], _SHOWN_AT_ONCE):
                _problem(problem, f"fix-{at}" if fixable else None)


def _problem(problem: ProblemModel, key: str | None) -> None:
    show, icon = {
        "error": (st.error, ":material/error:"),
        "warning": (st.warning, ":material/warning:"),
        "info": (st.info, ":material/info:"),
    }[problem.severity]
    fix = _fix(problem.fix)
    show(problem.message if fix is None else f"{problem.message} Instead: {fix}", icon=icon)
    sizes = _sizes(problem.fix)
    if key is not None and sizes:
        st.button("Use the fixed list", key=key, icon=":material/build:", on_click=use, args=(sizes,))


def _fix(fix: Any) -> str | None:
    sizes = _sizes(fix)
    if sizes:
        return text.short_sizes(sizes)
    return None if fix is None or isinstance(fix, dict | list) else str(fix)


def _sizes(fix: Any) -> tuple[int, ...]:
    """The sizes of a fix that is a list, or a mapping with one list."""
    if isinstance(fix, dict) and len(fix) == 1:
        fix = next(iter(fix.values()))
    whole = isinstance(fix, list | tuple) and all(isinstance(size, int) for size in fix)
    return tuple(fix) if whole else ()
