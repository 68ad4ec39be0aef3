"""Tokens of the API: shown once, kept as a digest, expiring, revocable."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import select

from db.base import now
from db.models import TokenRow
from db.records import Scope, StoredToken, record_of
from db.session import Transactions
from workloads.errors import BadUsage, NotFound

PREFIX = "captune_"
_TOUCH_EVERY = timedelta(minutes=1)


class TokenStore:
    """A token is 256 random bits, so a plain SHA-256 of it is safe to keep: there is nothing to guess."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def create(self, name: str, scope: Scope, expires_after: timedelta | None = None) -> tuple[StoredToken, str]:
        """A new token and its text, which nobody can find out again.

        Raises:
            BadUsage: no name, or one that is too long.
        """
        if not name.strip() or len(name) > 100:
            raise BadUsage("a token needs a name of at most 100 characters", field="name")
        text = PREFIX + secrets.token_urlsafe(32)
        moment = now()
        row = TokenRow(
            id=secrets.token_hex(6),
            name=name.strip(),
            scope=scope,
            digest=digest_of_token(text),
            created_at=moment,
            expires_at=None if expires_after is None else moment + expires_after,
        )
        with self._db.write() as session:
            session.add(row)
            session.flush()
            return record_of(StoredToken, row), text

    def find(self, text: str) -> StoredToken | None:
        """The valid token with this text; None when unknown, expired or revoked."""
        moment = now()
        query = select(TokenRow).where(TokenRow.digest == digest_of_token(text), TokenRow.revoked_at.is_(None))
        with self._db.read() as session:
            row = session.scalars(query).first()
            if row is None or (row.expires_at is not None and row.expires_at <= moment):
                return None
            stored = record_of(StoredToken, row)
        if stored.used_at is None or moment - stored.used_at > _TOUCH_EVERY:
            self._touch(stored.id)
        return stored

    def list(self) -> Sequence[StoredToken]:
        """All of them, newest first, the revoked and expired ones too."""
        with self._db.read() as session:
            rows = session.scalars(select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id))
            return [record_of(StoredToken, row) for row in rows]

    def revoke(self, token_id: str) -> StoredToken:
        """End a token now; a second time changes nothing.

        Raises:
            NotFound: no such token.
        """
        with self._db.write() as session:
            row = session.get(TokenRow, token_id, with_for_update=True)
            if row is None:
                raise NotFound(f"there is no token '{token_id}'")
            row.revoked_at = row.revoked_at or now()
            session.flush()
            return record_of(StoredToken, row)

    def _touch(self, token_id: str) -> None:
        with self._db.write() as session:
            row = session.get(TokenRow, token_id)
            if row is not None:
                row.used_at = now()


def digest_of_token(text: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(text.encode()).hexdigest()
