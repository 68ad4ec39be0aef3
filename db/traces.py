"""Stored traces: a row that describes, and the normalised columns as one Parquet file below the data folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, select
from sqlalchemy.exc import IntegrityError

from db.base import now
from db.models import SweepRow, TraceRow
from db.paging import Page, page_of
from db.records import StoredTrace, digest_of, record_of
from db.session import Transactions
from workloads.errors import BadInput, Conflict, NotFound, Unavailable
from workloads.traces.columns import dump_traffic, load_traffic
from workloads.traces.records import EngineObservation, ReadResult, RowCount, StepTrace

ID_LENGTH = 12
MOST_TAG_CHARACTERS = 40
PROBE_BYTES = 64 * 1024
"""Room for less than this is no room."""


class TraceStore:
    """Content-addressed traces: the same columns (and the same log header) are the same trace, however often stored."""

    def __init__(self, transactions: Transactions, folder: Path) -> None:
        self._db = transactions
        self._folder = folder

    def add(self, read: ReadResult, name: str) -> StoredTrace:
        """Keep a trace; the file is in place before the row says so. A second time gives the first row back.

        Raises:
            Unavailable: the folder cannot be written.
        """
        digest, columns = trace_digest(read), dump_traffic(read.traffic)
        self._write(digest, columns)
        try:
            stored = self._insert(read, name, digest)
        except IntegrityError:  # the same trace at the same moment: it is there now
            stored = self._insert(read, name, digest)
        if not self._path(digest).exists():  # an older row of it was deleted in between, and its file after ours came
            self._write(digest, columns)
        return stored

    def _insert(self, read: ReadResult, name: str, digest: str) -> StoredTrace:
        with self._db.write() as session:
            row = session.get(TraceRow, digest[:ID_LENGTH])
            if row is None:
                row = _row_of(read, name, digest)
                session.add(row)
                session.flush()
            return record_of(StoredTrace, row)

    def get(self, trace_id: str) -> StoredTrace:
        """Raises:
        NotFound: no such trace.
        """
        with self._db.read() as session:
            row = session.get(TraceRow, trace_id)
            if row is None:
                raise NotFound(f"there is no trace '{trace_id}'")
            return record_of(StoredTrace, row)

    def page(self, limit: int = 50, after: str | None = None, *, tag: str | None = None) -> Page[StoredTrace]:
        """Newest first, those with `tag` if one is given; `after` is the cursor of the page before."""
        where = () if tag is None else (_tagged(tag),)
        with self._db.read() as session:
            return page_of(session, TraceRow, StoredTrace, limit, after, where)

    def load(self, trace_id: str) -> ReadResult:
        """The trace as its reader gave it.

        Raises:
            NotFound: no such trace.
            Unavailable: its file is gone or unreadable.
        """
        stored = self.get(trace_id)
        try:
            traffic = load_traffic(self._path(stored.digest).read_bytes())
        except OSError as error:
            raise Unavailable(f"the columns of trace '{trace_id}' cannot be read: {error.strerror}") from None
        return ReadResult(
            format=stored.format,
            kind=stored.kind,
            rows=RowCount(**stored.rows),
            traffic=traffic,
            observation=_observation_of(stored.observation),
            notes=tuple(stored.notes),
        )

    def change(self, trace_id: str, *, name: str | None = None, tags: Sequence[str] | None = None) -> StoredTrace:
        """Give a trace another name or other tags; sweeps keep the name that it had when they started.

        Raises:
            NotFound: no such trace.
            BadInput: nothing printable is left of the name, or a tag that is none.
        """
        with self._db.write() as session:
            row = session.get(TraceRow, trace_id)
            if row is None:
                raise NotFound(f"there is no trace '{trace_id}'")
            if name is not None:
                row.name = _printable(name)
            if tags is not None:
                row.tags = sorted({_tag(tag) for tag in tags})
            session.flush()
            return record_of(StoredTrace, row)

    def delete(self, trace_id: str) -> None:
        """Forget a trace and its columns; finished sweeps keep their results and the trace's name.

        Raises:
            NotFound: no such trace.
            Conflict: a queued or running sweep needs it.
        """
        with self._db.write() as session:
            row = session.get(TraceRow, trace_id)
            if row is None:
                raise NotFound(f"there is no trace '{trace_id}'")
            needing = select(SweepRow.id).where(
                SweepRow.trace_id == trace_id, SweepRow.state.in_(("queued", "running"))
            )
            busy = session.scalars(needing.limit(1)).first()
            if busy is not None:
                raise Conflict(f"trace '{trace_id}' is in use by sweep '{busy}'; cancel that first")
            digest = row.digest
            session.delete(row)
        # The file goes after the row is gone for sure, unless the same trace has come back meanwhile.
        with self._db.write() as session:
            if session.get(TraceRow, trace_id) is None:
                self._path(digest).unlink(missing_ok=True)

    def check(self) -> None:
        """Whether a trace could be kept now.

        Raises:
            Unavailable: the folder cannot be written, or its disk has no room.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix="probe-", suffix=".part") as file:
                file.write(bytes(PROBE_BYTES))
        except OSError as error:
            raise Unavailable(f"cannot keep traces in {self._folder}: {error.strerror}") from None

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.parquet"

    def _write(self, digest: str, content: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, self._path(digest))
                _sync_folder(self._folder)
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Unavailable(f"cannot keep the trace in {self._folder}: {error.strerror}") from None


def _sync_folder(folder: Path) -> None:
    """Make a new name in it outlive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def trace_digest(read: ReadResult) -> str:
    """The content address: the columns, and what a log said of its engine (equal steps may come from two engines)."""
    if read.observation is None:
        return read.traffic.digest()
    return digest_of([read.traffic.digest(), _plain_observation(read.observation)])


def _row_of(read: ReadResult, name: str, digest: str) -> TraceRow:
    return TraceRow(
        id=digest[:ID_LENGTH],
        digest=digest,
        name=_printable(name),
        format=read.format,
        kind=read.kind,
        rows=_plain_rows(read.rows),
        span_s=read.traffic.span_s,
        notes=list(read.notes),
        observation=None if read.observation is None else _plain_observation(read.observation),
        origin=read.traffic.origin if isinstance(read.traffic, StepTrace) else None,
        created_at=now(),
    )


def _printable(name: str) -> str:
    text = "".join(mark if mark.isprintable() else " " for mark in name).strip()[:300]
    if not text:
        raise BadInput("a trace needs a name", field="name")
    return text


def _tag(tag: str) -> str:
    """In lower case, without marks that would end it inside JSON text."""
    plain = "".join(mark for mark in tag.lower() if mark.isprintable() and mark not in '"\\,')
    text = plain.strip()[:MOST_TAG_CHARACTERS]
    if not text:
        raise BadInput("a tag needs a letter or a digit", field="tags")
    return text


def _tagged(tag: str) -> ColumnElement[bool]:
    """Rows whose tags hold this one: a tag has no quotes, so its JSON text stands in theirs only as a whole."""
    return cast(TraceRow.tags, Text).contains(json.dumps(_tag(tag)), autoescape=True)


def _plain_rows(rows: RowCount) -> dict[str, Any]:
    return {
        "read": rows.read,
        "kept": rows.kept,
        "dropped": dict(rows.dropped),
        "first_line": dict(rows.first_line),
    }


def _plain_observation(observation: EngineObservation) -> dict[str, Any]:
    document = asdict(observation)
    document["lists"] = {name: list(sizes) for name, sizes in observation.lists.items()}
    document["options"] = dict(observation.options)
    by_size = document.pop("memory_by_size_mib")
    if by_size:  # left out where unknown: addresses of traces stored before stay what they were
        document["memory_by_size_mib"] = {str(size): mib for size, mib in by_size.items()}
    return document


def _observation_of(document: Mapping[str, Any] | None) -> EngineObservation | None:
    if document is None:
        return None
    lists = {name: tuple(sizes) for name, sizes in document["lists"].items()}
    by_size = {int(size): float(mib) for size, mib in document.get("memory_by_size_mib", {}).items()}
    return EngineObservation(**{**document, "lists": lists, "memory_by_size_mib": by_size})
