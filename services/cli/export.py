"""`captune export`: capture sizes as an engine's own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.lint import PrefillSizes, asked_lists
from services.cli.options import EngineChoice, EngineName, Json, Sets, Sizes
from services.cli.running import Running, choice_of, read_running
from services.contract.export import ExportModel
from tuner.engines.base import Lists, Provenance
from tuner.engines.options import split_pairs
from workloads.errors import BadUsage

RecommendationId = Annotated[
    str | None, typer.Option("--recommendation", metavar="ID", help="A stored recommendation.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write the files into this folder instead of printing them.")
]


def export(
    recommendation: RecommendationId = None,
    sizes: Sizes = None,
    prefill_sizes: PrefillSizes = None,
    engine: EngineName = None,
    running: Running = None,
    sets: Sets = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Paste-ready configuration, with what the engine will really capture and how to see that it works."""
    if (recommendation is None) == (sizes is None and prefill_sizes is None):
        raise BadUsage("give either --recommendation or --sizes", field="--recommendation")
    present = None if running is None else read_running(running, engine)
    if recommendation is not None:
        choice, lists, provenance = _stored(recommendation, engine, sets)
    else:
        spec = engine or (present.engine.spec if present else None)
        choice, lists = asked_lists(spec, sets, sizes, prefill_sizes, default=False)
        provenance = Provenance()
        if present is not None and present.engine.name == choice.engine.name:
            choice = choice_of(present, sets)
    if present is not None and present.engine.name != choice.engine.name:
        raise BadUsage(f"runs {present.engine.name}, but the export is for {choice.engine.name}", field="--running")
    document = ExportModel.of(choice.engine, lists, choice.options, provenance, present)
    if out is not None:
        _write(out, document.files)
    output(as_json).emit(document.model_dump(mode="json"), lambda console: _draw(console, document, out))


def _stored(
    recommendation_id: str, engine: str | None, sets: list[str] | None
) -> tuple[EngineChoice, Lists, Provenance]:
    from services.cli.stored import local_store
    from services.exporting import recommended

    with local_store() as store:
        given = split_pairs(sets or (), field="--set")
        made = recommended(store.recommendations.get(recommendation_id), engine, given)
    return EngineChoice(made.engine, dict(made.raw), made.options), made.lists, made.provenance


def _write(folder: Path, files: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content)
    except OSError as error:
        raise BadUsage(f"cannot write there: {error.strerror}", field="--out") from None


def _draw(console: Console, document: ExportModel, out: Path | None) -> None:
    console.print(document.text, markup=False)
    if document.diff is not None:
        console.print(document.diff or "nothing changes against what runs today", markup=False)
    if document.loss is not None:
        console.print(f"[yellow]loss[/yellow] {escape(document.loss)}")
    for problem in document.lint:
        console.print(f"[yellow]{problem.severity} {problem.code}[/yellow] {escape(problem.message)}")
    console.print(f"\n{document.watch}", markup=False)
    if out is not None:
        console.print(f"written to {out}: {', '.join(document.files) or 'nothing (this engine takes no file)'}")
