"""The audit table, for administrators."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InPage, InStore
from services.contract.book import BookLine, BookModel

router = APIRouter(tags=["access"])


@router.get("/audit-log")
def list_changes(store: InStore, page: InPage) -> BookModel:
    """Who asked for which change and what became of it, newest first."""
    found = store.audit.page(page.limit, page.after)
    items = tuple(BookLine.model_validate(line, from_attributes=True) for line in found.items)
    return BookModel(items=items, next_after=found.next_after)
