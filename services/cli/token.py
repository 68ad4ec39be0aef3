"""`captune token`: access to an API that listens elsewhere than on loopback."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from db.base import now
from db.records import StoredToken
from services.cli.context import output
from services.cli.options import Json
from services.cli.output import table
from services.cli.stored import local_store
from workloads.errors import BadUsage

app = typer.Typer(help="Create, list and revoke tokens of the API.", no_args_is_help=True)

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@app.command("create")
def create(
    scope: Annotated[Literal["read", "write", "admin"], typer.Option("--scope", help="What the token allows.")],
    name: Annotated[str, typer.Option("--name", help="Whose it is; limits and the audit table go by it.")] = "default",
    expires: Annotated[str, typer.Option("--expires", metavar="90d", help="12h, 90d, 52w, or never.")] = "90d",
    as_json: Json = False,
) -> None:
    """Make a token and print it, once: only a digest of it is kept."""
    with local_store() as store:
        stored, text = store.tokens.create(name, scope, _duration(expires))
    document = {"token": text} | _document(stored)
    output(as_json).emit(document, lambda console: _draw_new(console, text, stored))


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Every token, without the token."""
    with local_store() as store:
        tokens = [_document(token) for token in store.tokens.list()]
    output(as_json).emit({"tokens": tokens}, lambda console: _draw(console, tokens))


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `captune token list` shows it.")],
    as_json: Json = False,
) -> None:
    """End a token; a running API notices within seconds."""
    with local_store() as store:
        document = _document(store.tokens.revoke(token_id))
    output(as_json).emit(document, lambda console: console.print(f"revoked {document['id']} ({document['name']})"))


def _duration(text: str) -> timedelta | None:
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", text)
    if found is None:
        raise BadUsage(f"takes 12h, 90d, 52w or never, not '{text}'", field="--expires")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _document(token: StoredToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "state": _state(token),
        "created_at": token.created_at.isoformat(),
        "expires_at": _text(token.expires_at),
        "revoked_at": _text(token.revoked_at),
        "used_at": _text(token.used_at),
    }


def _state(token: StoredToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now() else "valid"


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _draw_new(console: Console, text: str, token: StoredToken) -> None:
    console.print(text)
    until = "never" if token.expires_at is None else f"on {token.expires_at:%Y-%m-%d}"
    console.print(f"scope {token.scope}, expires {until}; it is not shown again: Authorization: Bearer TOKEN")


def _draw(console: Console, tokens: list[dict[str, Any]]) -> None:
    rows = [(t["id"], t["name"], t["scope"], t["state"], t["expires_at"] or "never", t["used_at"]) for t in tokens]
    console.print(table("", ("id", "name", "scope", "state", "expires", "last used"), rows))
