"""The KV cache that lists leave, over HTTP: by the engine's rule, with the profile's facts where none were given."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

H200 = {"profile": "h200-llama-3.1-8b", "lists": {"few": [1, 8, 64, 512], "many": list(range(1, 513))}}
PATH = "/api/v1/kv-cache"


def asked(api: TestClient, engine: str, **options: str) -> dict[str, Any]:
    answer = api.post(PATH, json={**H200, "engine": engine, "options": options})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert isinstance(document, dict)
    return document


def test_fewer_graphs_leave_more_where_the_rule_looks_at_their_number(api: TestClient) -> None:
    found = asked(api, "vllm@0.33.0", max_num_seqs="512")
    assert set(found["facts"]) == {"gpu_memory_gib", "weights_gib", "kv_bytes_per_token"}
    few, many = found["lists"]["few"], found["lists"]["many"]
    assert few["moves"] and few["tokens"] > many["tokens"] > 800_000


def test_the_length_of_a_decode_list_is_nothing_to_sglang(api: TestClient) -> None:
    lists = asked(api, "sglang@0.5.23")["lists"]
    assert lists["few"]["tokens"] == lists["many"]["tokens"] and "mem_fraction_static" in lists["few"]["knob"]


def test_facts_that_are_given_are_not_overruled_and_several_gpus_are_not_guessed_at(api: TestClient) -> None:
    own = asked(api, "vllm@0.33.0", weights_gib="30", gpu_memory_gib="80", kv_bytes_per_token="131072")
    assert own["facts"] == {} and own["lists"]["few"]["tokens"] < 400_000
    spread = asked(api, "vllm@0.33.0", tp_size="2")
    assert spread["facts"] == {} and spread["lists"]["few"]["tokens"] is None
    assert "weights_gib" in spread["lists"]["few"]["reason"]


def test_a_profile_without_the_memory_of_its_gpu_says_nothing_of_the_kv_cache(api: TestClient, profile_id: str) -> None:
    answer = api.post(PATH, json={"engine": "vllm@0.33.0", "profile": profile_id, "lists": {"few": [1, 8]}}).json()
    assert answer["facts"] == {} and answer["lists"]["few"]["tokens"] is None


def test_an_engine_without_a_rule_says_so(api: TestClient) -> None:
    few = asked(api, "lmdeploy@0.10")["lists"]["few"]
    assert few["tokens"] is None and "No rule of lmdeploy" in few["reason"]
    assert api.post(PATH, json={**H200, "engine": "nothing"}).status_code == 400
