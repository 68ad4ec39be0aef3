"""The API's process: `python -m services.api.main`."""

from __future__ import annotations

import logging
import sys

import uvicorn

from db.store import Store
from services import telemetry
from services.api.app import create_app
from services.logs import log_to_stderr
from services.settings import Settings
from workloads.errors import CaptuneError

STREAM_GRACE_S = 3
"""Event streams have no end of their own: a stopping API cuts them after this; clients come back where they were."""

log = logging.getLogger("captune.api")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    with Store(settings.database_url, settings.data_dir) as store:
        app = create_app(settings, store)
        if settings.needs_tokens:
            log.info("listening on %s: every request needs a token (captune token create)", settings.api_host)
        uvicorn.run(
            app,
            host=settings.api_host,
            port=settings.api_port,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=STREAM_GRACE_S,
        )


def main() -> int:
    log_to_stderr()
    try:
        telemetry.start("api")
        run(Settings.from_environment())
    except CaptuneError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
