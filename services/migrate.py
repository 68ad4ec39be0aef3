"""Brings the database to the newest schema and ends: `python -m services.migrate`, before services start."""

from __future__ import annotations

import logging
import sys
import time

from db.store import Store
from services.logs import log_to_stderr
from services.settings import Settings
from workloads.errors import CaptuneError, Unavailable

PATIENCE_S = 60.0
POLL_S = 2.0

log = logging.getLogger("captune.migrate")


def migrate(settings: Settings, patience_s: float = PATIENCE_S) -> None:
    """Open the store once; a database that does not answer yet gets some time.

    Raises:
        Unavailable: it still does not answer.
        Conflict: a newer Captune made its schema.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            Store(settings.database_url, settings.data_dir).close()
            return
        except Unavailable as error:
            if time.monotonic() > deadline_s:
                raise
            log.info("%s; trying again", error)
            time.sleep(POLL_S)


def main() -> int:
    log_to_stderr()
    try:
        migrate(Settings.from_environment())
    except CaptuneError as error:
        log.error("%s", error)
        return error.exit_code
    log.info("the schema is current")
    return 0


if __name__ == "__main__":
    sys.exit(main())
