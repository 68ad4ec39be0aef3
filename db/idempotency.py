"""Idempotency keys: a create that is sent twice makes one object, also when the first answer was lost."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.base import now
from db.models import IdempotencyRow
from db.records import Key
from db.session import Transactions
from workloads.errors import Conflict


class KeyReused(Conflict):
    """The key already stands for another request."""

    code = "key_reused"
    http_status = 422


class IdempotencyStore:
    """For objects that are content-addressed: making them twice is harmless, and the key is remembered afterwards."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def remember(self, key: Key, object_id: str) -> bool:
        """Bind `key` to an object; True when it was bound before.

        Raises:
            KeyReused: it stands for another request.
        """
        with self._db.write() as session:
            if made_before(session, key) is not None:
                return True
            bind(session, key, object_id)
            return False


def made_before(session: Session, key: Key | None) -> str | None:
    """The id of the object that `key` made, within the caller's transaction.

    Raises:
        KeyReused: it stands for another request.
    """
    row = None if key is None else session.get(IdempotencyRow, (key.owner, key.key))
    if row is None or key is None:
        return None
    if row.digest != key.digest:
        raise KeyReused("was used for another request; take a new key", field="Idempotency-Key")
    return row.object_id


def bind(session: Session, key: Key | None, object_id: str) -> None:
    """Remember what `key` made, in the transaction that made it."""
    if key is not None:
        session.add(
            IdempotencyRow(owner=key.owner, key=key.key, digest=key.digest, object_id=object_id, created_at=now())
        )
        session.flush()
