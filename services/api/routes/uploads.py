"""Uploads that are on their way."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InContext
from services.contract.upload import UploadModel
from workloads.errors import NotFound

router = APIRouter(prefix="/uploads", tags=["traces"])


@router.get("/{request_id}")
def show(context: InContext, request_id: str) -> UploadModel:
    """How far the upload with this X-Request-ID is; known to the process that receives it, for a while."""
    upload = context.uploads.get(request_id)
    if upload is None:
        raise NotFound(f"there is no upload '{request_id}' here")
    return UploadModel(
        id=request_id,
        state=upload.state,
        received_bytes=upload.received_bytes,
        expected_bytes=upload.expected_bytes,
    )
