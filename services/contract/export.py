"""ExportModel: paste-ready configuration of one engine."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field

from services.contract.lint import ProblemModel, Size
from services.contract.plain import Answer, Request, shown
from tuner.engines.base import Engine, Lists, Provenance
from tuner.engines.diff import diff_text
from tuner.engines.importing import Present


class ExportRequest(Request):
    """Lists by the engine's own names, and its options as text.

    `running` is the command line or configuration that runs today; the answer then says what changes against it.
    """

    model_config = shown(
        {"engine": "vllm@0.33.0", "lists": {"capture": [1, 2, 4, 8]}, "options": {"max_num_seqs": "64"}}
    )

    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
    lists: Annotated[dict[str, Annotated[list[Size], Field(min_length=1, max_length=2048)]], Field(min_length=1)]
    options: dict[str, Annotated[str, Field(max_length=1000)]] = Field(default_factory=dict)
    running: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None


class ExportModel(Answer):
    """The keys of `captune export`."""

    engine: str
    text: str
    requested: dict[str, tuple[int, ...]]
    effective: dict[str, tuple[int, ...]]
    lint: tuple[ProblemModel, ...]
    files: dict[str, str]
    watch: str
    loss: str | None = None
    diff: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, engine: Engine, lists: Lists, options: Any, provenance: Provenance, running: Present | None = None
    ) -> Self:
        """Ask `engine`; `options` come from `engine.options`. With `running` the difference to it is part of it."""
        export = engine.export(lists, options, provenance)
        return cls(
            engine=engine.spec,
            text=export.text,
            requested={name: tuple(sizes) for name, sizes in lists.items()},
            effective={name: tuple(sizes) for name, sizes in engine.effective(lists, options).families.items()},
            lint=tuple(ProblemModel.from_domain(problem) for problem in engine.lint(lists, options)),
            files=dict(export.files),
            watch=export.watch,
            loss=export.loss,
            diff=None if running is None else diff_text(running, lists),
            notes=engine.notes,
        )
