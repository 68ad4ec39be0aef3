"""Settings of every Captune process, read once from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import platformdirs

from workloads.errors import BadUsage

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things live and what is allowed.

    Attributes:
        database_url: SQLAlchemy URL; SQLite and PostgreSQL are supported.
        data_dir: traces are kept below it as Parquet columns.
        max_upload_bytes: a longer upload is refused.
        parse_timeout_s, parse_memory_mib: limits of the child process that reads an upload.
        lease_s: a runner that is silent for so long loses its sweep to another one.
        sweep_processes: sweeps that one runner works on at the same time.
        max_queued_per_user, max_running_per_user: jobs of one token's name; who uses no token has no limit.
        rate_limit_per_s: requests of one client, with bursts of four times as many.
        keep_days: ended jobs (not their recommendations) and audit lines go after so many days.
        api_token: one token of scope write that is accepted beside those in the database; for a dashboard that is
            started together with the API.
    """

    database_url: str
    data_dir: Path
    api_host: str = "127.0.0.1"
    api_port: int = 8321
    dashboard_port: int = 8501
    max_upload_bytes: int = 200 * MIB
    parse_timeout_s: float = 120.0
    parse_memory_mib: int = 4096
    lease_s: float = 30.0
    sweep_processes: int = 1
    max_queued_per_user: int = 1000
    max_running_per_user: int = 4
    rate_limit_per_s: float = 200.0
    keep_days: float = 36_500.0
    api_token: str = field(default="", repr=False)

    @property
    def needs_tokens(self) -> bool:
        """Whether the API listens where others can reach it."""
        if self.api_host == "localhost":
            return False
        try:
            return not ip_address(self.api_host).is_loopback
        except ValueError:  # a host name: it may be reached from anywhere
            return True

    @property
    def api_url(self) -> str:
        return f"http://{self.api_host}:{self.api_port}"

    def environment(self) -> dict[str, str]:
        """The variables that give a child process these settings."""
        return {_PREFIX + item.name.upper(): str(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read `CAPTUNE_<NAME>` for every attribute; absent ones take their defaults.

        Raises:
            BadUsage: a number is not a positive number; names the variable.
        """
        env = os.environ if environment is None else environment
        data_dir = Path(env.get("CAPTUNE_DATA_DIR") or platformdirs.user_data_dir("captune")).expanduser().absolute()
        database_url = env.get("CAPTUNE_DATABASE_URL") or f"sqlite:///{data_dir / 'captune.db'}"
        given: dict[str, Any] = {}
        for item in fields(cls):
            text = env.get(_PREFIX + item.name.upper())
            if text and item.default is not MISSING:
                given[item.name] = _parsed(text, type(item.default), _PREFIX + item.name.upper())
        return cls(database_url, data_dir, **given)


_PREFIX = "CAPTUNE_"


def _parsed(text: str, kind: type, variable: str) -> str | int | float:
    if kind is str:
        return text
    try:
        value = int(text) if kind is int else float(text)
    except ValueError:
        raise BadUsage(f"must be a number, not '{text}'", field=variable) from None
    if not 0 < value < float("inf"):
        raise BadUsage(f"must be above 0, not {text}", field=variable)
    return value
