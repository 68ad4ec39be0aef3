"""Stored recommendations: JSON documents of the caller's making, with a digest over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.base import now
from db.models import RecommendationRow
from db.paging import Page, page_of
from db.records import RecommendationHead, StoredRecommendation, digest_of, record_of
from db.session import Transactions
from workloads.errors import NotFound

ID_LENGTH = 12


class RecommendationStore:
    """Recommendations by id; saving the same one again is a no-op, so a job may repeat its last step.

    A document never changes. Who needs only what surrounds it asks for its head: documents are large.
    """

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
                raise _missing(recommendation_id)
            return record_of(StoredRecommendation, row)

    def head(self, recommendation_id: str) -> RecommendationHead:
        """Raises:
        NotFound: no such recommendation.
        """
        columns = [getattr(RecommendationRow, item.name) for item in fields(RecommendationHead)]
        with self._db.read() as session:
            row = session.execute(select(*columns).where(RecommendationRow.id == recommendation_id)).first()
            if row is None:
                raise _missing(recommendation_id)
            return record_of(RecommendationHead, row)

    def of_sweep(self, sweep_id: str) -> StoredRecommendation | None:
        """What a sweep recommended; None while it has not ended well."""
        with self._db.read() as session:
            row = session.scalars(select(RecommendationRow).where(RecommendationRow.sweep_id == sweep_id)).first()
            return None if row is None else record_of(StoredRecommendation, row)

    def ids_of(self, sweep_ids: Sequence[str]) -> dict[str, str]:
        """Ids of recommendations by their sweep, of the sweeps that have one."""
        query = select(RecommendationRow.sweep_id, RecommendationRow.id)
        with self._db.read() as session:
            rows = session.execute(query.where(RecommendationRow.sweep_id.in_(sweep_ids)))
            return {str(sweep_id): found for sweep_id, found in rows}

    def page(self, limit: int = 50, after: str | None = None) -> Page[RecommendationHead]:
        """Newest first; `after` is the cursor of the page before."""
        with self._db.read() as session:
            return page_of(session, RecommendationRow, RecommendationHead, limit, after)


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


def _missing(recommendation_id: str) -> NotFound:
    return NotFound(f"there is no recommendation '{recommendation_id}'")
