"""docker-compose.yml, the Dockerfile and the monitoring files say what they must.

`compose-spec.json` is the Compose specification's own JSON Schema (Apache-2.0, from github.com/compose-spec, 2021).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from services.settings import Settings


@pytest.fixture(scope="module")
def root() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((root / "docker-compose.yml").read_text())
    return document


def test_the_compose_file_fits_the_schema(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    known = {key: value for key, value in compose.items() if key != "name"}  # a later addition to the specification
    jsonschema.Draft7Validator(schema).validate(known)
    wrong = {**known, "services": {**compose["services"], "api": {"imagee": "x"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(wrong)


def test_every_service_is_pinned_hardened_and_watched(compose: dict[str, Any]) -> None:
    wanted = {"postgres", "migrate", "api", "runner", "ray-head", "ray-worker", "dashboard", "prometheus", "grafana"}
    assert set(compose["services"]) == wanted
    for name, service in compose["services"].items():
        assert re.search(r":v?\d+\.\d+", service["image"]), name
        assert service["user"] not in ("root", "0"), name
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped"), name
        assert "healthcheck" in service or name == "migrate", name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_no_secret_stands_in_the_file(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN$|_URL$", key) and "AUTH_MODE" not in key:
                assert "${" in str(value) or str(value).startswith("http://api:"), (name, key)


def test_every_captune_variable_is_a_setting(compose: dict[str, Any]) -> None:
    known = {"CAPTUNE_" + name.upper() for name in Settings.__dataclass_fields__}
    known |= {"CAPTUNE_API_URL", "CAPTUNE_ALIVE_FILE", "CAPTUNE_GPU_TYPE"}
    for service in compose["services"].values():
        assert {key for key in service.get("environment", {}) if key.startswith("CAPTUNE_")} <= known


def test_images_run_as_somebody_and_from_a_pinned_base(root: Path) -> None:
    text = (root / "Dockerfile").read_text()
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-slim", text, flags=re.MULTILINE)
    for stage in re.split(r"^FROM base AS ", text, flags=re.MULTILINE)[1:]:
        assert "USER captune" in stage and "HEALTHCHECK" in stage


def test_the_grafana_dashboard_asks_for_metrics_that_the_api_has(root: Path) -> None:
    source = (root / "services" / "api" / "routes" / "health.py").read_text()
    board = json.loads((root / "deploy" / "monitoring" / "grafana" / "captune.json").read_text())
    names = {name for panel in board["panels"] for name in re.findall(r"captune_\w+", panel["targets"][0]["expr"])}
    assert len(names) >= 5
    assert all(f"# TYPE {name} " in source for name in names)
    scrape = yaml.safe_load((root / "deploy" / "monitoring" / "prometheus.yml").read_text())
    assert scrape["scrape_configs"][0]["static_configs"][0]["targets"] == ["api:8321"]
