"""`captune backup`: everything that is remembered, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from db.backup import BackedUp
from db.backup import backup as write_backup
from services.cli.context import output
from services.cli.options import Json
from services.cli.stored import local_store
from services.settings import Settings

File = Annotated[Path, typer.Argument(metavar="FILE", help="A zip file; it holds digests of tokens: keep it private.")]


def backup(file: File, as_json: Json = False) -> None:
    """Write database and traces to FILE, as they are at one moment; services may go on working."""
    with local_store() as store:
        result = write_backup(store, Settings.from_environment().data_dir, file)
    output(as_json).emit(
        document_of(file, result), lambda console: console.print(f"{file}: {sentence(result)}", markup=False)
    )


def document_of(file: Path, result: BackedUp) -> dict[str, object]:
    """The result of both directions."""
    return {"file": str(file), "rows": result.rows, "traces": result.traces}


def sentence(result: BackedUp) -> str:
    """What is in it, in words."""
    rows = result.rows
    return f"{result.traces} traces, {rows['profiles']} profiles, {rows['sweeps']} jobs, {rows['trials']} trials"
