"""`captune restore`: an empty database from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from db.backup import restore as read_backup
from services.cli.backup import document_of, sentence
from services.cli.context import output
from services.cli.options import Json
from services.cli.stored import local_store
from services.settings import Settings

File = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Made by `captune backup`.")]


def restore(file: File, as_json: Json = False) -> None:
    """Fill an empty database, SQLite or PostgreSQL, from FILE: all of it or nothing."""
    with local_store() as store:
        result = read_backup(store, Settings.from_environment().data_dir, file)
    output(as_json).emit(
        document_of(file, result), lambda console: console.print(f"restored {sentence(result)}", markup=False)
    )
