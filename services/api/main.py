"""The API's process: `python -m services.api.main`."""

from __future__ import annotations

import logging

import uvicorn

from db.store import Store
from services.api.app import create_app
from services.logs import log_to_stderr
from services.settings import Settings

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


if __name__ == "__main__":
    log_to_stderr()
    run(Settings.from_environment())
