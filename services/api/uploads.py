"""Handed-in files: copied under a name of ours, read in a reader child, with the mapping that came along."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import UploadFile
from pydantic import ValidationError
from starlette.requests import Request

from services.api.reading import limits_of, pool_of, read_in_child
from services.contract.mapping import MappingModel, MappingRequest
from services.settings import Settings
from workloads.errors import BadInput, BadUsage, Unavailable
from workloads.traces.mapping import ColumnMapping
from workloads.traces.records import ReadResult

LONGEST_NAME = 300


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
    """What the client calls its file.

    Raises:
        BadInput: it is a path, too long, or not printable.
    """
    name = text or "upload"
    if "/" in name or "\\" in name:
        raise BadInput("the name of a file has no folders in it", field="file")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"the name of a file is printable, and no longer than {LONGEST_NAME} characters", field="file")
    return name


async def check_form(request: Request, known: Collection[str]) -> None:
    """One file a form, and nothing in it that would be dropped without a word.

    Raises:
        BadInput: another field, or a field twice.
    """
    form = await request.form()
    for field in form:
        if field not in known:
            raise BadInput(f"is not a field of this form; it has {', '.join(known)}", field=field[:100])
        if len(form.getlist(field)) > 1:
            raise BadInput("is there more than once; send one file at a time", field=field)


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
