"""`captune report`: a recommendation with its evidence, to read, print and hand on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from rich.console import Console

from services.cli.context import output
from services.cli.options import Json
from services.contract.recommendation import RecommendationModel
from services.report.content import report_of
from services.report.html import as_html
from services.report.markdown import as_markdown
from workloads.errors import BadInput, BadUsage

Form = Literal["html", "markdown"]
SUFFIXES: dict[str, Form] = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}


def report(
    reference: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A stored recommendation, or the sweep that made it.")
    ] = None,
    from_json: Annotated[
        Path | None, typer.Option("--from-json", metavar="FILE", help="What `captune tune --json` printed.")
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="html or markdown; default: by the name of --out, else markdown.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it there; Markdown puts its drawings beside the file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verdict, evidence, every list compared and the drawings, as one printable HTML file or as Markdown."""
    if (reference is None) == (from_json is None):
        raise BadUsage("give either the id of a recommendation or sweep, or --from-json FILE", field="ID")
    chosen = form or (SUFFIXES.get(out.suffix.lower(), "markdown") if out is not None else "markdown")
    found = _read(from_json) if from_json is not None else _stored(str(reference))
    made = report_of(found)
    if chosen == "html":
        text, beside = as_html(made), {}
    else:
        beside = {} if out is None else {f"{out.stem}.{drawing.name}.svg": drawing for drawing in made.drawings}
        text = as_markdown(made, {drawing.name: file for file, drawing in beside.items()})
    files = [] if out is None else _write(out, text, {file: drawing.svg for file, drawing in beside.items()})
    document = {"recommendation_id": found.id, "verdict": found.verdict, "format": chosen, "files": files, "text": text}
    output(as_json).emit(document, lambda console: _draw(console, text, files))


def _stored(reference: str) -> RecommendationModel:
    from services.cli.stored import local_store
    from services.report.stored import stored_recommendation

    with local_store() as store:
        return stored_recommendation(store, reference)


def _read(path: Path) -> RecommendationModel:
    """What `tune` printed; or a recommendation alone, as the API and the dashboard give it."""
    try:
        document = json.loads(path.read_bytes())
        found = document.get("recommendation", document) if isinstance(document, dict) else document
        return RecommendationModel.model_validate_json(json.dumps(found))
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or None
        raise BadInput(
            f"is not what `captune tune --json` prints: {first['msg']}", file=str(path), field=where
        ) from None
    except ValueError as error:
        raise BadInput(f"is not what `captune tune --json` prints: {error}", file=str(path)) from None


def _write(out: Path, text: str, beside: dict[str, str]) -> list[str]:
    texts = {out: text} | {out.parent / name: content for name, content in beside.items()}
    try:
        for path, content in texts.items():
            path.write_text(content)
    except OSError as error:
        raise BadUsage(f"cannot write there: {error.strerror}", field="--out") from None
    return [str(path) for path in texts]


def _draw(console: Console, text: str, files: list[str]) -> None:
    if files:
        console.print(f"written: {', '.join(files)}", markup=False)
    else:
        console.print(text, markup=False, soft_wrap=True)
