"""Settings and the catalogue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from db.store import Store
from services.catalog import find_profile, find_traffic, shipped_profiles
from services.settings import Settings
from tests.stores import cost_profile, read_result
from tuner.profile_file import dump_profile
from workloads.errors import BadInput, BadUsage, NotFound


def test_settings_come_from_the_environment_and_go_to_children_unchanged(tmp_path: Path) -> None:
    settings = Settings.from_environment({"CAPTUNE_DATA_DIR": str(tmp_path), "CAPTUNE_API_PORT": "9000"})
    assert settings.database_url == f"sqlite:///{tmp_path / 'captune.db'}"
    assert (settings.api_url, settings.dashboard_port) == ("http://127.0.0.1:9000", 8501)
    assert Settings.from_environment(settings.environment()) == settings


@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5"])
def test_a_wrong_number_names_its_variable(text: str) -> None:
    with pytest.raises(BadUsage, match="CAPTUNE_API_PORT"):
        Settings.from_environment({"CAPTUNE_API_PORT": text})


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Store(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path) as opened:
        yield opened


def refuse() -> Store:
    raise AssertionError("the database was opened")


def test_a_file_is_read_without_opening_the_database(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("size,count\n1,10\n4,2\n")
    read, name = find_traffic(str(file), refuse)
    assert (read.kind, name) == ("histogram", "counts.csv")
    profile = tmp_path / "p.json"
    profile.write_text(dump_profile(cost_profile()))
    assert find_profile(str(profile), refuse).name == "bench"


def test_stored_things_are_found_by_id_and_name(store: Store) -> None:
    trace = store.traces.add(read_result(), "day.csv")
    read, name = find_traffic(trace.id, store)
    assert (read.traffic.digest(), name) == (read_result().traffic.digest(), "day.csv")
    stored = store.profiles.add(cost_profile())
    assert find_profile("bench", store).name == find_profile(stored.id, store).name == "bench"


def test_what_is_nowhere_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither a file nor the id of a stored trace"):
        find_traffic("nothing", store)
    with pytest.raises(BadInput, match="no such file"):
        find_traffic(str(tmp_path / "nothing.csv"))
    with pytest.raises(NotFound, match="no profile 'nothing'"):
        find_profile("nothing", store)
    with pytest.raises(NotFound):
        find_profile(str(tmp_path / "secret.json"), store, files=False)


def test_every_shipped_profile_is_found_by_its_name() -> None:
    for profile in shipped_profiles():
        assert find_profile(profile.name) is profile


def test_catalog_and_contract_import_nothing_of_the_extras() -> None:
    blocked = ["torch", "ray", "streamlit", "fastapi", "plotly", "httpx", "psycopg", "uvicorn"]
    modules = "catalog settings views exporting contract.recommendation contract.sweep contract.audit contract.figures"
    code = "import sys\n"
    code += "".join(f"sys.modules[{name!r}] = None\n" for name in blocked)
    code += "".join(f"import services.{name}\n" for name in modules.split())
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])
