"""ExportModel: paste-ready configuration of one engine."""

from __future__ import annotations

from typing import Any, Self

from services.contract.lint import ProblemModel
from services.contract.plain import Answer
from tuner.engines.base import Engine, Lists, Provenance


class ExportModel(Answer):
    """The keys of `captune export`."""

    engine: str
    text: str
    requested: dict[str, tuple[int, ...]]
    effective: dict[str, tuple[int, ...]]
    lint: tuple[ProblemModel, ...]
    files: dict[str, str]
    watch: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, engine: Engine, lists: Lists, options: Any, provenance: Provenance) -> Self:
        """Ask `engine`; `options` come from `engine.options`."""
        export = engine.export(lists, options, provenance)
        return cls(
            engine=engine.spec,
            text=export.text,
            requested={name: tuple(sizes) for name, sizes in lists.items()},
            effective={name: tuple(sizes) for name, sizes in engine.effective(lists, options).families.items()},
            lint=tuple(ProblemModel.from_domain(problem) for problem in engine.lint(lists, options)),
            files=dict(export.files),
            watch=export.watch,
            notes=engine.notes,
        )
