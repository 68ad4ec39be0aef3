"""Uploads: what is understood is kept once, what is not is refused in one sentence and leaves nothing behind."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.stores import request_trace

AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def azure_csv(requests: int = 300) -> bytes:
    """A request trace as the Azure 2023 files have it."""
    trace = request_trace(requests)
    lines = [AZURE_HEADER]
    for arrival_s, prompt, output in zip(trace.arrival_s, trace.input_tokens, trace.output_tokens, strict=True):
        minutes, seconds = divmod(arrival_s, 60)
        lines.append(f"2023-11-16 18:{int(minutes):02d}:{seconds:010.7f},{prompt},{output}")
    return ("\n".join(lines) + "\n").encode()


def png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0\0\0")) + chunk(b"IEND", b"")


BAD_FILES = {
    "empty.csv": b"",
    "picture.png": png(),
    "no-output-column.csv": b"TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,5\n",
    "negative.csv": f"{AZURE_HEADER}\n2023-11-16 18:17:03.0,-5,3\n".encode(),
    "truncated.csv.gz": gzip.compress(azure_csv())[:-200],
    "one-line.csv": b"x" * 1_900_000,
    "pickle.bin": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "nul.csv": b"\x00" * 1000,
    "invalid-utf8.csv": b"size,count\n\xff\xfe,3\n",
    "huge-number.csv": b"size,count\n1" + b"0" * 5000 + b",3\n",
    "bomb.csv.gz": gzip.compress(b"0" * 200_000_000, 1),
}


def upload(api: TestClient, file: str, content: bytes, **form: str) -> Any:
    return api.post("/api/v1/traces", files={"file": (file, content)}, data=form)


def test_an_uploaded_trace_is_listed_and_described(api: TestClient) -> None:
    answer = upload(api, "conv.csv", azure_csv())
    assert answer.status_code == 201
    trace = answer.json()
    assert (trace["name"], trace["kind"], trace["rows_kept"]) == ("conv.csv", "requests", 300)
    assert trace["rows_read"] == trace["rows_kept"] + sum(trace["dropped"].values())
    assert api.get(f"/api/v1/traces/{trace['id']}").json() == trace
    assert [item["id"] for item in api.get("/api/v1/traces").json()["items"]] == [trace["id"]]


def test_the_same_file_twice_is_one_trace(api: TestClient) -> None:
    first = upload(api, "conv.csv", azure_csv()).json()
    again = upload(api, "copy.csv.gz", gzip.compress(azure_csv())).json()
    assert first["id"] == again["id"]
    assert len(api.get("/api/v1/traces").json()["items"]) == 1


def test_a_trace_can_be_named(api: TestClient) -> None:
    assert upload(api, "x.csv", azure_csv(21), name="Tuesday").json()["name"] == "Tuesday"


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_a_sentence_and_nothing_is_kept(api: TestClient, name: str, tmp_path: Path) -> None:
    answer = upload(api, name, BAD_FILES[name])
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["code"] == "bad_input"
    assert name in problem["detail"] and len(problem["detail"]) < 400 and "\n" not in problem["detail"]
    assert "captune-upload" not in problem["detail"]
    assert api.get("/api/v1/traces").json()["items"] == []
    assert not list((tmp_path / "data").rglob("*.parquet"))


def test_a_row_is_named_by_file_line_and_field(api: TestClient) -> None:
    content = f"{AZURE_HEADER}\n2023-11-16 18:17:03.0,5,3\n2023-11-16 18:17:04.0,-5,3\n".encode()
    problem = upload(api, "rows.csv", content).json()
    assert (problem["file"], problem["line"], problem["field"]) == ("rows.csv", 3, "ContextTokens")


def test_an_upload_above_the_limit_is_refused(api: TestClient) -> None:
    answer = upload(api, "large.csv", b"x" * (3 * 1024 * 1024))
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_an_upload_without_a_length_is_cut_off_at_the_limit(api: TestClient) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x.csv"\r\n\r\n'
    body = (part for part in [head, *[b"x" * 65536] * 60, b"\r\n--b--\r\n"])
    answer = api.post("/api/v1/traces", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 413


def test_a_form_without_a_file_is_refused(api: TestClient) -> None:
    answer = api.post("/api/v1/traces", data={"name": "x"})
    assert answer.status_code == 422
    assert answer.json()["field"] == "file"


def test_the_histogram_of_counts_is_the_file(api: TestClient) -> None:
    trace = upload(api, "counts.csv", b"size,count\n1,10\n2,20\n7,5\n").json()
    histogram = api.get(f"/api/v1/traces/{trace['id']}/histogram").json()
    assert histogram["families"]["decode_full"]["counts"] == {"1": 10.0, "2": 20.0, "7": 5.0}
    assert histogram["serving"] is None


def test_requests_are_simulated_with_a_profile(api: TestClient, profile_id: str) -> None:
    trace = upload(api, "conv.csv", azure_csv()).json()
    query = {"engine": "vllm@0.33.0", "policy": "decode", "profile": profile_id, "set": "max_num_seqs=128", "load": 2}
    histogram = api.get(f"/api/v1/traces/{trace['id']}/histogram", params=query).json()
    assert histogram["step_times_from"] == "bench"
    assert histogram["serving"]["completed"] == 300
    assert max(map(int, histogram["families"]["decode_full"]["counts"])) <= 128
    assert histogram["lists"]["capture"][-1] >= 128
    audit = api.get(f"/api/v1/traces/{trace['id']}/audit", params=query).json()
    assert sum(audit["step_share"].values()) == pytest.approx(1)
    assert audit["never_used"]
    assert any("profile 'bench'" in note for note in audit["notes"])


def test_an_audit_of_steps_needs_no_profile(api: TestClient) -> None:
    trace = upload(api, "counts.csv", b"size,count\n3,10\n600,10\n").json()
    audit = api.get(f"/api/v1/traces/{trace['id']}/audit", params={"engine": "vllm@0.33.0", "sizes": "1,3,8"}).json()
    assert audit["step_share"] == {"exact": 0.5, "padded": 0.0, "fallback": 0.5}
    assert audit["above_ceiling"] == 0.5
    assert audit["never_used"] == [1, 8]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"engine": "nothing@1"}, "engine"),
        ({"engine": "vllm@0.33.0", "set": "no_such_key=1"}, "no_such_key"),
        ({"engine": "vllm@0.33.0", "set": "no pair"}, "set"),
        ({"sizes": "1,x"}, "sizes"),
        ({"load": "0"}, "load"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_query_is_refused_by_name(api: TestClient, query: dict[str, str], field: str) -> None:
    trace = upload(api, "counts.csv", b"size,count\n3,10\n").json()
    answer = api.get(f"/api/v1/traces/{trace['id']}/histogram", params=query)
    assert answer.status_code in (400, 422)
    assert field in answer.json()["detail"]


def test_a_client_cannot_name_files_of_the_server(api: TestClient, tmp_path: Path) -> None:
    trace = upload(api, "conv.csv", azure_csv(30)).json()
    secret = tmp_path / "secret.json"
    secret.write_text('{"key": 1}')
    answer = api.get(f"/api/v1/traces/{trace['id']}/histogram", params={"profile": str(secret)})
    assert answer.status_code == 404


def test_a_deleted_trace_is_gone(api: TestClient) -> None:
    trace = upload(api, "conv.csv", azure_csv(20)).json()
    assert api.delete(f"/api/v1/traces/{trace['id']}").status_code == 204
    answer = api.get(f"/api/v1/traces/{trace['id']}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
