"""What a page hears when the API refuses, is gone, slow or of another version: one sentence each."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from dashboard.client import ApiProblem, Client

Answer = Callable[[httpx.Request], httpx.Response]


def client(answer: Answer) -> Client:
    return Client("http://api.test", httpx.MockTransport(answer))


def sentence(answer: Answer) -> str:
    with pytest.raises(ApiProblem) as caught:
        client(answer).trace("abc")
    return str(caught.value)


def test_a_refusal_is_told_in_the_words_of_the_api() -> None:
    problem = {"title": "bad input", "status": 422, "detail": "trace.csv:7: input_tokens: must be at least 1"}
    problem |= {"code": "bad_input", "file": "trace.csv", "line": 7, "field": "input_tokens"}

    def refuse(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(422, json=problem, headers={"content-type": "application/problem+json"})

    with pytest.raises(ApiProblem) as caught:
        client(refuse).trace("abc")
    assert str(caught.value) == "trace.csv:7: input_tokens: must be at least 1"
    assert caught.value.problem is not None and caught.value.problem.line == 7


def test_an_api_that_is_down_tells_how_to_start_it() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    assert sentence(refuse) == "The API at http://api.test does not answer; start it with `captune serve`."


def test_an_api_that_is_slow_is_not_called_dead() -> None:
    def wait(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow", request=request)

    assert "took too long" in sentence(wait)


def test_a_proxy_page_instead_of_a_problem_is_no_traceback() -> None:
    assert "status 502" in sentence(lambda _: httpx.Response(502, text="<html>bad gateway</html>"))


def test_an_answer_of_another_version_says_so() -> None:
    assert "version" in sentence(lambda _: httpx.Response(200, json={"unexpected": True}))


def test_empty_values_are_not_sent() -> None:
    seen: list[str] = []

    def record(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.query.decode())
        return httpx.Response(200, json={"source": "abc", "families": {}})

    client(record).histogram("abc", {"engine": "vllm@0.33.0", "set": ["a=1", "b=2"], "policy": None, "profile": ""})
    assert seen == ["engine=vllm%400.33.0&set=a%3D1&set=b%3D2"]
