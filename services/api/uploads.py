"""Handed-in files: copied under a name of ours, read in a reader child, with the mapping that came along."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from fastapi import UploadFile
from pydantic import ValidationError

from services.api.reading import limits_of, pool_of, read_in_child
from services.contract.mapping import MappingModel, MappingRequest
from services.settings import Settings
from workloads.errors import BadUsage, Unavailable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult


def read_upload(settings: Settings, file: UploadFile, name: str, asked: MappingRequest) -> ReadResult:
    """The traffic in an upload; messages call it `name`.

    Raises:
        BadInput: not understood, or over the limits of a reader child.
        BadUsage: the mapping names an unknown format or time zone.
    """
    mapping = asked.to_domain()
    with _copied(file) as path:
        given = None if mapping == ColumnMapping() else mapping
        return read_in_child(path, name, limits_of(settings), given, asked.format)


def propose_for(settings: Settings, file: UploadFile) -> MappingModel:
    """What the columns of an upload likely mean; nothing of it is kept."""
    with _copied(file) as path:
        return MappingModel.from_domain(pool_of(limits_of(settings)).propose(path, file_name(file.filename)))


def file_name(text: str | None) -> str:
    """The last part of what the client calls its file; a client on Windows may send a whole path."""
    return PurePosixPath((text or "").replace("\\", "/")).name or "upload"


def mapping_of(text: str | None) -> MappingRequest:
    """The form field `mapping`: a MappingRequest as JSON text.

    Raises:
        BadUsage: not one; names the field.
    """
    if text is None or text.strip() in ("", "null"):
        return MappingRequest()
    try:
        return MappingRequest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["mapping", *(str(part) for part in first["loc"])])
        raise BadUsage(str(first["msg"]), field=where) from None


@contextmanager
def _copied(file: UploadFile) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="captune-upload-") as copy:
        try:
            shutil.copyfileobj(file.file, copy)
            copy.flush()
        except OSError as error:
            raise Unavailable(f"there is no room to read the upload: {error.strerror}") from None
        yield Path(copy.name)
