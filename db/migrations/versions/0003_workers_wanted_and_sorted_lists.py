"""Which worker a measuring job asks for; and lists that are positive and increasing, by the database's own word."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TABLES = ("captune_recommendations", "captune_trials")

# SQLite has neither functions of ours nor subqueries in a CHECK: there a trigger refuses the row.
_SQLITE = """
CREATE TRIGGER {table}_lists BEFORE INSERT ON {table}
WHEN EXISTS (
  SELECT 1 FROM json_each(NEW.document, '$.lists') AS list, json_each(list.value) AS size
  WHERE size.type <> 'integer' OR size.value < 1
     OR (size.key > 0 AND size.value <= json_extract(list.value, '$[' || (size.key - 1) || ']'))
)
BEGIN SELECT RAISE(ABORT, 'the sizes of a list must be positive and increasing'); END
"""

_FUNCTION = """
CREATE FUNCTION captune_lists_are_sorted(document json) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN json_typeof(document -> 'lists') IS DISTINCT FROM 'object' THEN true ELSE NOT EXISTS (
    SELECT 1 FROM json_each(document -> 'lists') AS list,
      LATERAL (
        SELECT size::text::numeric AS size, lag(size::text::numeric, 1, 0::numeric) OVER (ORDER BY place) AS before
        FROM json_array_elements(list.value) WITH ORDINALITY AS each(size, place)
      ) AS pair
    WHERE size <> trunc(size) OR size <= before
  ) END
$$
"""


def upgrade() -> None:
    op.execute("ALTER TABLE captune_sweeps ADD COLUMN worker JSON DEFAULT '{}' NOT NULL")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_FUNCTION)
    for table in _TABLES:
        op.execute(_constraint(table))


def _constraint(table: str) -> str:
    if op.get_bind().dialect.name == "sqlite":
        return _SQLITE.format(table=table)
    return f"ALTER TABLE {table} ADD CONSTRAINT ck_{table}_lists CHECK (captune_lists_are_sorted(document))"


def downgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table in _TABLES:
        op.execute(f"DROP TRIGGER {table}_lists" if sqlite else f"ALTER TABLE {table} DROP CONSTRAINT ck_{table}_lists")
    if not sqlite:
        op.execute("DROP FUNCTION captune_lists_are_sorted(json)")
    op.execute("ALTER TABLE captune_sweeps DROP COLUMN worker")
