"""The API's process: `python -m services.api.main`."""

from __future__ import annotations

import uvicorn

from db.store import Store
from services.api.app import create_app
from services.logs import log_to_stderr
from services.settings import Settings


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    with Store(settings.database_url, settings.data_dir) as store:
        app = create_app(settings, store)
        uvicorn.run(app, host=settings.api_host, port=settings.api_port, access_log=False, log_level="warning")


if __name__ == "__main__":
    log_to_stderr()
    run(Settings.from_environment())
