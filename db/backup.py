"""Backup and restore: everything that is remembered in one zip file, the same on SQLite and PostgreSQL.

The file holds `about.json` (schema revision, time), one JSON-lines file a table, and the traces' Parquet files.
Optuna's own tables are left out: recorded trials are ours, and a resumed sweep asks for the same trials again. A
backup holds digests of tokens; it is made readable for its owner only.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, insert, select, text

from db.base import Base, UtcDateTime, now
from db.migrations.upgrade import revision
from db.store import Store
from workloads.errors import BadInput, Conflict, Unavailable

FORMAT = 1
_PARQUET = re.compile(r"traces/([0-9a-f]{64}\.parquet)")
_BATCH = 500


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds: rows by table without our prefix, and trace files."""

    rows: dict[str, int]
    traces: int


def backup(store: Store, data_dir: Path, file: Path) -> BackedUp:
    """Write everything to `file`, as it was at one moment; services may go on working.

    Raises:
        Unavailable: the file cannot be written.
    """
    part = file.with_name(file.name + ".part")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as raw:
            with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
                result = _write(store.engine, data_dir / "traces", archive)
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(part, file)
    except OSError as error:
        raise Unavailable(f"cannot be written: {error.strerror}", file=str(file)) from None
    finally:
        part.unlink(missing_ok=True)
    return result


def restore(store: Store, data_dir: Path, file: Path) -> BackedUp:
    """Fill an empty store from `file`; all of it, or nothing.

    Raises:
        BadInput: not a backup, or one of another schema.
        Conflict: the store is not empty.
        Unavailable: the trace files cannot be written.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(store.engine, data_dir / "traces", archive, file)
    except zipfile.BadZipFile:
        raise BadInput("is not a backup of Captune", file=str(file)) from None
    except OSError as error:
        raise Unavailable(f"{error.strerror}", file=str(error.filename or file)) from None


def _write(engine: Engine, traces: Path, archive: zipfile.ZipFile) -> BackedUp:
    rows: dict[str, int] = {}
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        about = {"format": FORMAT, "schema": revision(connection), "made_at": now().isoformat()}
        archive.writestr("about.json", json.dumps(about))
        for table in Base.metadata.sorted_tables:
            lines = [json.dumps(row) for row in _rows(connection, table)]
            rows[_short(table)] = len(lines)
            archive.writestr(f"tables/{_short(table)}.jsonl", "".join(line + "\n" for line in lines))
        digests = connection.scalars(text("SELECT digest FROM captune_traces")).all()
    for digest in digests:
        archive.write(traces / f"{digest}.parquet", f"traces/{digest}.parquet")
    return BackedUp(rows, len(digests))


def _rows(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    for row in connection.execute(select(table)).mappings():
        yield {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}


def _read(engine: Engine, traces: Path, archive: zipfile.ZipFile, file: Path) -> BackedUp:
    _check_about(engine, archive, file)
    rows: dict[str, int] = {}
    with engine.execution_options(captune_write=True).begin() as connection:
        for table in Base.metadata.sorted_tables:
            if connection.execute(select(table).limit(1)).first() is not None:
                raise Conflict(f"restore needs an empty database, and there are {_short(table)} in this one")
            rows[_short(table)] = _fill(connection, table, archive, file)
        # The files are in place before the rows that name them are committed.
        kept = [_keep(archive, name, traces) for name in archive.namelist() if name.startswith("traces/")]
    return BackedUp(rows, len(kept))


def _check_about(engine: Engine, archive: zipfile.ZipFile, file: Path) -> None:
    try:
        about = json.loads(archive.read("about.json"))
        made, schema = about["format"], about["schema"]
    except (KeyError, ValueError, TypeError):
        raise BadInput("is not a backup of Captune", file=str(file)) from None
    with engine.connect() as connection:
        here = revision(connection)
    if (made, schema) != (FORMAT, here):
        raise BadInput(f"is a backup of schema {schema}, and this is {here}; use the version it is of", file=str(file))


def _fill(connection: Connection, table: Table, archive: zipfile.ZipFile, file: Path) -> int:
    times = [column.name for column in table.columns if isinstance(column.type, UtcDateTime)]
    name = f"tables/{_short(table)}.jsonl"
    try:
        rows = [json.loads(line) for line in archive.read(name).splitlines() if line.strip()]
        for row in rows:
            row.update({key: datetime.fromisoformat(row[key]) for key in times if row[key] is not None})
    except (KeyError, ValueError, TypeError) as error:
        raise BadInput(f"{name} is damaged ({error})", file=str(file)) from None
    for start in range(0, len(rows), _BATCH):
        connection.execute(insert(table), rows[start : start + _BATCH])
    return len(rows)


def _keep(archive: zipfile.ZipFile, name: str, traces: Path) -> Path:
    found = _PARQUET.fullmatch(name)
    if found is None:
        raise BadInput(f"'{name}' is not the name of a trace")
    traces.mkdir(parents=True, exist_ok=True)
    path = traces / found[1]
    path.write_bytes(archive.read(name))
    return path


def _short(table: Table) -> str:
    return table.name.removeprefix("captune_")
