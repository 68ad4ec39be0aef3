"""`captune token`, `backup`, `restore` and `prune` as an administrator types them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune


def test_a_token_is_shown_once_listed_and_revoked(captune: Captune) -> None:
    made = captune("token", "create", "--scope", "write", "--name", "ci", "--expires", "12h", "--json").document
    assert made["token"].startswith("captune_") and (made["scope"], made["state"]) == ("write", "valid")
    listed = captune("token", "list", "--json")
    assert made["token"] not in listed.stdout
    assert [(t["id"], t["name"], t["state"]) for t in listed.document["tokens"]] == [(made["id"], "ci", "valid")]
    assert captune("token", "revoke", made["id"], "--json").document["state"] == "revoked"
    missing = captune("token", "revoke", "nothing")
    assert (missing.code, "no token 'nothing'" in missing.reason) == (2, True)


@pytest.mark.parametrize("expires", ["soon", "0d", "5", "-1d"])
def test_a_wrong_expiry_is_bad_usage(captune: Captune, expires: str) -> None:
    ran = captune("token", "create", "--scope", "read", f"--expires={expires}")
    assert (ran.code, "--expires" in ran.reason) == (2, True)


def test_a_database_moves_by_backup_and_restore(
    captune: Captune, write: Callable[[str, str | bytes], Path], data_dir: Path, tmp_path: Path
) -> None:
    trace = captune("trace", "import", write("h.csv", "size,count\n1,10\n"), "--json").document
    file = tmp_path / "b.zip"
    assert captune("backup", file, "--json").document["traces"] == 1
    assert captune("restore", file).code == 1  # not empty
    data_dir.rename(tmp_path / "old")
    assert captune("restore", file, "--json").document["rows"]["traces"] == 1
    assert captune("histogram", trace["id"], "--json").code == 0
    assert captune("prune", "--days", "30", "--json").document["removed"]["sweeps"] == 0
    assert captune("prune", "--days", "0").code == 2
