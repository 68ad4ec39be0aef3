"""Every operation of the OpenAPI document against schemathesis, with all checks, alone and in sequence.

`FUZZ_EXAMPLES` sets how many cases an operation gets: three in `make test`; many, and every boundary value that
schemathesis derives from the schemas, in `make test-fuzz`. Excluded by name:

- `positive_data_acceptance`: a schema cannot say which engines, options, cursors and files exist; what it calls valid
  may rightly be answered by 400 or 422.
- the event stream, which does not end while its sweep runs; `test_completeness.py` tests it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from db.records import NewSweep
from db.store import Store
from services.api.app import create_app
from services.contract.sweep import SweepCreate
from services.settings import Settings
from tests.stores import cost_profile, read_result

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
EXCLUDED = [positive_data_acceptance]
TOKEN = "known-to-the-test"
quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

# schemathesis closes neither its event loop nor its streams in every case.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(3000),
]


def _open() -> tuple[Settings, Store]:
    """A store with something of everything; schemathesis wants the document when tests are collected."""
    folder = Path(tempfile.mkdtemp(prefix="captune-fuzz-"))
    options = Settings(f"sqlite:///{folder / 'captune.db'}", folder)
    options = replace(options, rate_limit_per_s=1e6, parse_timeout_s=20.0, max_queued_per_user=10**6)
    store = Store(options.database_url, folder)
    trace = store.traces.add(read_result(40), "day.csv")
    store.profiles.add(cost_profile(largest=16))
    store.sweeps.create(NewSweep(trace.id, "vllm@0.33.0", "bench", serving={"policy": "decode"}))

    def leave() -> None:
        store.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(leave)
    return options, store


OPTIONS, STORE = _open()
OPEN_API = create_app(OPTIONS, STORE)
GUARDED_API = create_app(replace(OPTIONS, api_host="0.0.0.0", api_token=TOKEN), STORE)
LONG = EXAMPLES > 3
CONFIG = schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": LONG}}})
open_schema = schemathesis.openapi.from_asgi("/openapi.json", OPEN_API, config=CONFIG).exclude(path_regex="/events$")
guarded_schema = schemathesis.openapi.from_asgi("/openapi.json", GUARDED_API, config=CONFIG).exclude(
    path_regex="/events$"
)


@open_schema.parametrize()
@quick
def test_every_operation_keeps_what_the_document_says(case: schemathesis.Case) -> None:
    case.call_and_validate(excluded_checks=EXCLUDED)


@guarded_schema.parametrize()
@settings(quick, max_examples=max(1, EXAMPLES // 2))
def test_every_operation_keeps_it_behind_a_token_too(case: schemathesis.Case) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=EXCLUDED)


def test_sequences_of_operations_keep_it() -> None:
    class Sequences(open_schema.as_state_machine()):  # type: ignore[misc]
        def validate_response(self, response: Any, case: Any, additional_checks: Any = (), **more: Any) -> None:
            case.validate_response(response, additional_checks=additional_checks, excluded_checks=EXCLUDED, **more)

    Sequences.run(settings=settings(quick, stateful_step_count=8))


def test_the_document_has_an_example_for_every_create() -> None:
    with TestClient(OPEN_API) as client:
        document = client.get("/openapi.json").json()
        schemas = document["components"]["schemas"]
        for path, item in document["paths"].items():
            body = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
            if body is None or "201" not in item["post"]["responses"]:
                continue
            name = body["schema"].get("$ref", "").rpartition("/")[2]
            examples = body.get("examples") or schemas.get(name, {}).get("examples")
            assert examples or path.endswith("/clone"), path


def test_no_hostile_name_or_number_is_a_server_error() -> None:
    hostile = ["%00", "..%2F..%2Fetc%2Fpasswd", "%ED%A0%80", "%F0%9F%92%A5", "'%20OR%201=1", "a" * 5000, "%0A", "-1"]
    with TestClient(OPEN_API) as client:
        for text in hostile:
            for kind in ("traces", "sweeps", "profiles", "recommendations", "schedules", "measurements"):
                answer = client.get(f"/api/v1/{kind}/{text}")
                assert 400 <= answer.status_code < 500, (kind, text, answer.status_code)
        for body in ('{"trace_id": "\\ud800"}', "[" * 5000, '{"seed": 1' + "0" * 5000 + "}", "nan", '{"a": 1e999}'):
            answer = client.post("/api/v1/sweeps", content=body, headers={"Content-Type": "application/json"})
            assert 400 <= answer.status_code < 500, (body[:40], answer.status_code)


def test_the_kept_example_of_a_sweep_is_one() -> None:
    example: Any = SweepCreate.model_config["json_schema_extra"]
    assert SweepCreate.model_validate(example["examples"][0]).trials == 24
