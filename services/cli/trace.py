"""`captune trace`: look at a file, or keep it in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.options import Arrivals, Columns, Format, Json, Source, SpreadTicks, TimeScale, TimeZone
from services.cli.output import number, table
from services.cli.stored import local_store
from services.cli.workload import Asked
from services.contract.mapping import MappingModel
from services.contract.trace import TraceModel
from workloads.traces.proposal import propose
from workloads.traces.records import ReadResult

app = typer.Typer(help="Inspect and import traces.", no_args_is_help=True)

Name = Annotated[str | None, typer.Option("--name", help="What to call it; default: the file name.")]


@app.command("inspect")
def inspect(
    source: Source,
    format: Format = None,
    columns: Columns = None,
    arrivals: Arrivals = None,
    time_zone: TimeZone = None,
    time_scale: TimeScale = 1.0,
    spread_ticks: SpreadTicks = None,
    as_json: Json = False,
) -> None:
    """What a file is: format, rows read, kept and dropped, span, sizes."""
    asked = _asked(source, format, columns, arrivals, time_zone, time_scale, spread_ticks)
    workload = asked.open()
    document = describe(workload.name, workload.read)
    output(as_json).emit(document, lambda console: _draw(console, document))


@app.command("import")
def import_(
    source: Source,
    name: Name = None,
    format: Format = None,
    columns: Columns = None,
    arrivals: Arrivals = None,
    time_zone: TimeZone = None,
    time_scale: TimeScale = 1.0,
    spread_ticks: SpreadTicks = None,
    as_json: Json = False,
) -> None:
    """Read a file and store its columns (never prompt text); prints the id that other commands take."""
    asked = _asked(source, format, columns, arrivals, time_zone, time_scale, spread_ticks)
    workload = asked.open()
    with local_store() as store:
        stored = store.traces.add(workload.read, name or workload.name)
    document = {"id": stored.id} | describe(name or workload.name, workload.read)
    output(as_json).emit(document, lambda console: _draw(console, document))


@app.command("columns")
def columns(source: Annotated[Path, typer.Argument(metavar="FILE")], as_json: Json = False) -> None:
    """Propose what the columns of a request file mean, and say what is left open; nothing is stored."""
    model = MappingModel.from_domain(propose(source))
    output(as_json).emit(model.model_dump(mode="json"), lambda console: _draw_mapping(console, model))


def _asked(
    source: str,
    format: str | None,
    columns: str | None,
    arrivals: str | None,
    time_zone: str | None,
    time_scale: float,
    spread_ticks: int | None,
) -> Asked:
    return Asked(
        source,
        format=format,
        columns=columns,
        arrivals=arrivals,
        time_zone=time_zone,
        time_scale=time_scale,
        spread_ticks=spread_ticks,
    )


def _draw_mapping(console: Console, model: MappingModel) -> None:
    if model.format:
        console.print(f"read as it stands: {escape(model.format)}")
    rows = [(column.name, column.kind, column.example or "") for column in model.columns]
    if rows:
        console.print(table("", ("column", "holds", "first value"), rows))
    for reading in model.unit_readings:
        rate = "all at once" if reading.rate_per_s is None else f"{reading.rate_per_s:.3g} requests/s"
        console.print(f"arrival in {reading.unit}: {rate}")
    for question in model.questions:
        console.print(f"open: {escape(question)}")
    if model.option:
        console.print(f"proposal: {escape(model.option)}")


def describe(name: str, read: ReadResult) -> dict[str, Any]:
    """The result keys of `trace inspect`."""
    model = TraceModel.from_domain(read, name=name)
    return model.model_dump(mode="json", exclude={"id", "created_at"}) | {"digest": read.traffic.digest()}


def _draw(console: Console, document: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(document['name'])}[/bold]: {document['format']}, {document['kind']}")
    dropped = ", ".join(f"{count} {reason}" for reason, count in document["dropped"].items()) or "none"
    console.print(f"rows: {document['rows_read']:,} read, {document['rows_kept']:,} kept, dropped: {dropped}")
    if document["span_s"] is not None:
        console.print(f"span: {number(document['span_s'], 1, ' s')}")
    summary = document["summary"]
    for family, figures in summary.pop("families", {}).items():
        summary |= {f"{family}: {key}": value for key, value in figures.items()}
    rows = [(key.replace("_", " "), number(v, 2) if isinstance(v, float) else v) for key, v in summary.items()]
    console.print(table("", ("figure", "value"), rows))
    for note in document["notes"]:
        console.print(f"note: {escape(note)}")
    if "id" in document:
        console.print(f"stored as [bold]{document['id']}[/bold]")
