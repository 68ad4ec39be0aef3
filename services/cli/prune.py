"""`captune prune`: remove what ended long ago."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from services.cli.context import output
from services.cli.options import Json
from services.cli.stored import local_store
from workloads.errors import BadUsage

Days = Annotated[float, typer.Option("--days", metavar="N", help="Keep what is younger.")]


def prune(days: Days, as_json: Json = False) -> None:
    """Remove jobs that ended, audit lines, dead tokens and workers not seen, all older than N days.

    Recommendations and traces stay.
    """
    if not 0 < days < 1e6:
        raise BadUsage("must be above 0", field="--days")
    with local_store() as store:
        removed = asdict(store.retention.prune(timedelta(days=days)))
    text = ", ".join(f"{count} {kind}" for kind, count in removed.items())
    output(as_json).emit({"removed": removed}, lambda console: console.print(f"removed {text}"))
