"""The local database, opened only when a command needs it: reading a file never creates one."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url

from db.store import Store
from services.cli.options import existing_file
from services.settings import Settings


def local_store() -> Store:
    """The store of `CAPTUNE_DATABASE_URL`, or of the embedded SQLite file; migrated to the current schema."""
    settings = Settings.from_environment()
    return Store(settings.database_url, settings.data_dir)


def lazy_store(reference: str) -> Callable[[], Store] | None:
    """How to open the store, should `reference` turn out to be a stored id; None for a path."""
    return None if existing_file(reference) else local_store


def without_password(database_url: str) -> str:
    """The URL as it may be shown."""
    return make_url(database_url).render_as_string(hide_password=True)
