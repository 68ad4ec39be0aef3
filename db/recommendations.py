"""Stored recommendations: JSON documents of the caller's making, with a digest over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.base import now
from db.models import RecommendationRow
from db.paging import Page, page_of
from db.records import StoredRecommendation, digest_of, record_of
from db.session import Transactions
from workloads.errors import NotFound

ID_LENGTH = 12


class RecommendationStore:
    """Recommendations by id; saving the same one again is a no-op, so a job may repeat its last step."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def add(
        self, document: Mapping[str, Any], *, engine: str, options: Mapping[str, str], verdict: str
    ) -> StoredRecommendation:
        """Keep a recommendation that no sweep made (the command line's)."""
        with self._db.write() as session:
            return insert_recommendation(session, document, engine, options, verdict, None)

    def get(self, recommendation_id: str) -> StoredRecommendation:
        """Raises:
        NotFound: no such recommendation.
        """
        with self._db.read() as session:
            row = session.get(RecommendationRow, recommendation_id)
            if row is None:
                raise NotFound(f"there is no recommendation '{recommendation_id}'")
            return record_of(StoredRecommendation, row)

    def of_sweep(self, sweep_id: str) -> StoredRecommendation | None:
        """What a sweep recommended; None while it has not ended well."""
        with self._db.read() as session:
            row = session.scalars(select(RecommendationRow).where(RecommendationRow.sweep_id == sweep_id)).first()
            return None if row is None else record_of(StoredRecommendation, row)

    def page(self, limit: int = 50, after: str | None = None) -> Page[StoredRecommendation]:
        """Newest first; `after` is the cursor of the page before."""
        with self._db.read() as session:
            return page_of(session, RecommendationRow, StoredRecommendation, limit, after)


def insert_recommendation(
    session: Session,
    document: Mapping[str, Any],
    engine: str,
    options: Mapping[str, str],
    verdict: str,
    sweep_id: str | None,
) -> StoredRecommendation:
    """Insert within the caller's transaction; an equal one of the same sweep is returned as it is."""
    digest = digest_of(document)
    row_id = digest_of([digest, sweep_id])[:ID_LENGTH] if sweep_id else digest[:ID_LENGTH]
    row = session.get(RecommendationRow, row_id)
    if row is None:
        row = RecommendationRow(
            id=row_id,
            sweep_id=sweep_id,
            engine=engine,
            options=dict(options),
            verdict=verdict,
            document=dict(document),
            digest=digest,
            created_at=now(),
        )
        session.add(row)
        session.flush()
    return record_of(StoredRecommendation, row)
