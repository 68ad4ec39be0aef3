"""Engines with one decode list in requests and few rules: what they share, so that each file holds only its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines import deploy
from tuner.engines.base import AllowedSizes, Effective, Engine, Export, Lists, Problem, Provenance, SizeChange
from tuner.engines.header import assumed, header
from tuner.engines.options import known_options, read_pairs
from tuner.engines.sizes import check_names, requested, shape_problems, some, unique
from workloads.errors import BadUsage
from workloads.serving.limits import PolicyName, SchedulerLimits


@dataclass(frozen=True, slots=True)
class Captured:
    """The decode list after the engine's own rules; `refused` is the error it stops with instead."""

    sizes: tuple[int, ...]
    changes: tuple[SizeChange, ...] = ()
    refused: str | None = None


class SingleList(Engine):
    """One decode list, one family, no prefill graphs."""

    list_names: ClassVar[tuple[str, ...]] = ("decode",)
    list_families: ClassVar[Mapping[str, tuple[str, ...]]] = {"decode": ("decode_full",)}
    policy: ClassVar[PolicyName] = "vllm"
    options_type: ClassVar[type[Any]]
    aliases: ClassVar[Mapping[str, str]] = {}
    shown: ClassVar[tuple[str, ...]]  # options that every export names
    parametric: ClassVar[bool] = False  # an arbitrary list cannot be expressed
    watch: ClassVar[str]

    @abstractmethod
    def ladder(self, options: Any) -> tuple[int, ...]:
        """The list this engine makes by itself."""

    @abstractmethod
    def capture(self, asked: tuple[int, ...], options: Any) -> Captured:
        """What is captured when these sizes are asked for."""

    @abstractmethod
    def top(self, options: Any) -> int:
        """The largest decode step, in requests."""

    @abstractmethod
    def settings(self, sizes: tuple[int, ...], options: Any) -> deploy.Settings:
        """How the engine is told `sizes` (already captured sizes)."""

    def options(self, raw: Mapping[str, str]) -> Any:
        return self.options_type(**read_pairs(self.options_type, raw, engine=self.name, aliases=self.aliases))

    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        return known_options(self.options_type, raw, self.aliases)

    def default_lists(self, options: Any) -> Lists:
        return {"decode": self.ladder(options)}

    def effective(self, lists: Lists, options: Any) -> Effective:
        check_names(lists, self.list_names, self.name)
        made = self._captured(requested(lists, "decode"), options)
        if made.refused is not None:
            return Effective({}, 0, made.changes, made.refused)
        families = {"decode_full": made.sizes} if made.sizes else {}
        return Effective(families, len(made.sizes), made.changes)

    def dispatch(self, effective: Effective, options: Any) -> DispatchTable:
        """The smallest captured size that is large enough, else eager."""
        sizes = np.array(effective.families.get("decode_full", ()), dtype=np.int64)
        return DispatchTable({"decode_full": FamilyDispatch(sizes)})

    def allowed(self, options: Any) -> AllowedSizes:
        return AllowedSizes(self.top(options), self.top(options))

    def limits(self, options: Any) -> SchedulerLimits:
        return SchedulerLimits(max_running_requests=self.top(options))

    def lint(self, lists: Lists, options: Any) -> tuple[Problem, ...]:
        check_names(lists, self.list_names, self.name)
        asked = requested(lists, "decode")
        made = self._captured(asked, options)
        found = [*self._shape(asked, options), *self._covered(made, options), *self.traps(asked, made, options)]
        order = ("error", "warning", "info")
        found.sort(key=lambda problem: order.index(problem.severity))
        return (*found, *(Problem("VERSION_NOTE", f"{note}.", "info") for note in self.notes))

    def traps(self, asked: tuple[int, ...] | None, made: Captured, options: Any) -> list[Problem]:
        """Findings of this engine alone."""
        return []

    def export(self, lists: Lists, options: Any, provenance: Provenance) -> Export:
        """Raises BadUsage where the engine would not start with this list."""
        check_names(lists, self.list_names, self.name)
        made = self._captured(requested(lists, "decode"), options)
        if made.refused is not None:
            raise BadUsage(f"{self.name} would not start with this list: {made.refused}", field="decode")
        head = header(self.name, self.version, provenance, assumed(options, self.options, self.shown))
        settings = self.settings(made.sizes, options)
        files = deploy.files(settings, head)
        body = files.get(settings.config_file or "", "").removeprefix(head) or deploy.argument_lines(settings)
        if not settings.arguments and settings.config_file is None:
            body = "".join(f"{key}={value}\n" for key, value in settings.environment.items())
        if settings.config_file is not None:
            files[settings.config_file] = head + settings.config_text
        text = head + body if body.endswith("\n") else f"{head}{body}\n"
        loss = self.loss(requested(lists, "decode"), made) if self.parametric else None
        return Export(text, self.watch, files, loss)

    def loss(self, asked: tuple[int, ...] | None, made: Captured) -> str | None:
        """What is lost where only a ladder can be expressed."""
        if asked is None or unique(asked) == made.sizes:
            return None
        return f"{self.name} takes no list: {len(made.sizes)} sizes instead of {len(unique(asked))} are captured."

    def _captured(self, asked: tuple[int, ...] | None, options: Any) -> Captured:
        return Captured(self.ladder(options)) if asked is None else self.capture(asked, options)

    def _shape(self, asked: tuple[int, ...] | None, options: Any) -> list[Problem]:
        if not asked:
            return []
        found = shape_problems("decode", asked)
        top = self.top(options)
        above = [size for size in unique(asked) if size > top]
        if above:
            message = f"No step is larger than {top} requests, so {some(above)} are never used."
            fix = list(unique([*(size for size in asked if size <= top), top]))
            found.append(Problem("ABOVE_LIMIT", message, "warning", fix))
        return found

    def _covered(self, made: Captured, options: Any) -> list[Problem]:
        top = self.top(options)
        if made.refused is not None:
            code = "EMPTY_LIST" if "empty" in made.refused else "EMPTY_AFTER_FILTER"
            return [Problem(code, f"{self.name} does not start: {made.refused}.", "error", list(self.ladder(options)))]
        last = made.sizes[-1] if made.sizes else 0
        if last >= top:
            return []
        message = f"Decode steps of {last + 1} to {top} requests run without a graph."
        return [Problem("TOP_NOT_COVERED", message, "warning", list(unique([*made.sizes, top])))]


def bounded(asked: tuple[int, ...], limit: int, reason: str) -> tuple[tuple[int, ...], tuple[SizeChange, ...]]:
    """(sizes up to `limit`, what was dropped)."""
    kept = unique(size for size in asked if size <= limit)
    return kept, tuple(SizeChange("decode", size, None, reason) for size in unique(asked) if size > limit)
