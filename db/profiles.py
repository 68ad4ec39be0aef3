"""Stored cost profiles: the file's text, found by id or by name."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError

from db.base import now
from db.models import ProfileRow
from db.paging import Page, page_of
from db.records import StoredProfile, digest_of, record_of
from db.session import Transactions
from tuner.cost_profile import CostProfile
from tuner.profile_file import dump_profile, parse_profile
from workloads.errors import Conflict, NotFound

ID_LENGTH = 12


class ProfileStore:
    """Profiles by id (a digest of the content) or by their unique name."""

    def __init__(self, transactions: Transactions) -> None:
        self._db = transactions

    def add(self, profile: CostProfile) -> StoredProfile:
        """Keep a profile; the same content again gives the first row back.

        Raises:
            Conflict: another profile has that name.
        """
        document = dump_profile(profile)
        profile_id = digest_of([document])[:ID_LENGTH]
        try:
            with self._db.write() as session:
                row = session.get(ProfileRow, profile_id)
                if row is None:
                    row = _row_of(profile, profile_id, document)
                    session.add(row)
                    session.flush()
                return record_of(StoredProfile, row)
        except IntegrityError:
            raise Conflict(f"another profile is named '{profile.name}'; rename one of them", field="name") from None

    def get(self, reference: str) -> StoredProfile:
        """By id or name.

        Raises:
            NotFound: neither.
        """
        stored = self.find(reference)
        if stored is None:
            raise NotFound(f"there is no stored profile '{reference}'")
        return stored

    def find(self, reference: str) -> StoredProfile | None:
        """By id or name; None when there is none."""
        query = select(ProfileRow).where(or_(ProfileRow.id == reference, ProfileRow.name == reference))
        with self._db.read() as session:
            row = session.scalars(query.order_by(ProfileRow.created_at)).first()
            return None if row is None else record_of(StoredProfile, row)

    def load(self, reference: str) -> CostProfile:
        """The profile itself; see `get`."""
        stored = self.get(reference)
        return parse_profile(stored.document, file=stored.name)

    def page(self, limit: int = 50, after: str | None = None) -> Page[StoredProfile]:
        """Newest first; `after` is the cursor of the page before."""
        with self._db.read() as session:
            return page_of(session, ProfileRow, StoredProfile, limit, after)

    def delete(self, reference: str) -> None:
        """Forget a profile; sweeps keep the name they used.

        Raises:
            NotFound: no such profile.
        """
        stored = self.get(reference)
        with self._db.write() as session:
            row = session.get(ProfileRow, stored.id)
            if row is not None:
                session.delete(row)


def _row_of(profile: CostProfile, profile_id: str, document: str) -> ProfileRow:
    def label(part: object) -> str | None:
        name = part.get("name") if isinstance(part, dict) else None
        return None if name is None else str(name)[:200]

    return ProfileRow(
        id=profile_id,
        name=profile.name,
        document=document,
        device=label(profile.device),
        model=label(profile.model),
        recorded_at=None if profile.recorded_at is None else profile.recorded_at[:60],
        created_at=now(),
    )
