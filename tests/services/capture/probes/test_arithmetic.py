"""What needs no engine: the order of starts, the price of rows and tokens, failures by their words, what is served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.capture.probes.base import ProbeRequest, RequestTiming
from services.capture.probes.failures import EngineFailed, failure_in
from services.capture.probes.order import StartDone, left_to_do, turns
from services.capture.probes.serving import schedule, summarise
from services.capture.probes.step_terms import StepTerms, TermPoint, fit_terms
from workloads.errors import BadInput, MeasurementFailed
from workloads.traces.records import RequestTrace


def test_lists_take_turns_and_a_run_goes_on_where_it_stood() -> None:
    wanted = {"default": 3, "tuned": 3, "powers": 1}
    assert turns(wanted) == ("default", "tuned", "powers", "tuned", "default", "default", "tuned")
    done = [StartDone(name, "measured") for name in ("default", "tuned", "powers")] + [StartDone("tuned", "failed")]
    assert left_to_do(wanted, done) == ("tuned", "default", "default", "tuned")
    more = [StartDone(name, "measured") for name in ("default", "default", "tuned", "tuned")]
    assert left_to_do(wanted, [*done, *more]) == ()


def test_a_list_that_never_starts_is_given_up() -> None:
    wanted, failed = {"default": 2, "tuned": 2}, [StartDone("tuned", "failed")] * 2
    assert left_to_do(wanted, failed) == ("default", "default")
    assert left_to_do(wanted, [StartDone("tuned", "measured"), *failed]) == ("default", "default")  # it broke since
    assert len(left_to_do(wanted, [replace(start, ours=False) for start in failed])) == 4  # mended since, perhaps
    assert left_to_do(wanted, [StartDone("tuned", "refused", ours=False)]) == ("default", "default")


def test_prices_of_rows_and_tokens_come_back_from_steps_made_of_them() -> None:
    points = [
        TermPoint(bucket, rows, context, g + 40e-6 * rows * context + 0.002 * rows)
        for bucket, g in ((16, 5.0), (64, 6.0), (256, 9.0))
        for rows in (bucket, bucket // 2 + 1)
        for context in (500, 1000, 2000)
    ]
    terms = fit_terms(points)
    assert terms.attention_ms_per_mtoken == pytest.approx(40.0) and terms.row_ms == pytest.approx(0.002)
    assert terms.bucket_ms == pytest.approx({16: 5.0, 64: 6.0, 256: 9.0})
    assert terms.worst_residual_share < 1e-9


def test_a_jump_of_rows_within_one_bucket_is_no_price_per_row_and_no_cost_of_buckets() -> None:
    jump_ms = {2: 0.0, 16: 0.1, 17: 0.6, 32: 0.3, 64: 0.62}
    points = [
        TermPoint(64, rows, context, 5.0 + 30e-6 * rows * context + ms)
        for rows, ms in jump_ms.items()
        for context in (500, 1000, 2000)
    ]
    terms = fit_terms([*points, TermPoint(1, 1, 1000, 4.83)])
    assert terms.attention_ms_per_mtoken == pytest.approx(30.0, rel=1e-3)
    assert terms.row_ms == pytest.approx(0.01, rel=1e-2)  # from the fewest rows to the most
    found = [terms.extra_ms(rows, 0) - terms.extra_ms(2, 0) for rows in jump_ms]
    assert found == pytest.approx(list(jump_ms.values()), abs=2e-3)
    assert terms.extra_ms(128, 0) - terms.extra_ms(64, 0) == pytest.approx(0.64, rel=0.01)  # by the slope
    assert terms.worst_residual_share < 1e-3


def test_rows_that_cost_less_than_fewer_of_them_leave_the_rest_to_the_bucket() -> None:
    falling = [TermPoint(8, rows, context, 9 - rows / 10) for rows in (2, 5, 8) for context in (1, 2, 3)]
    terms = fit_terms(falling)
    assert min(terms.extra_ms(rows, 1) for rows in range(1, 9)) >= 0
    assert terms.bucket_ms[8] + terms.extra_ms(5, 1) == pytest.approx(8.5, rel=1e-3)


def test_prices_are_never_negative_and_need_contexts_and_fills() -> None:
    falling = [TermPoint(8, rows, context, 9 - rows / 10) for rows in (5, 8) for context in (1, 2, 3)]
    assert fit_terms(falling).row_ms == 0
    with pytest.raises(MeasurementFailed, match="three contexts and two fills"):
        fit_terms([TermPoint(8, 8, context, 5.0) for context in (1, 2, 3)])


def test_prices_larger_than_a_whole_step_are_limited_and_say_so() -> None:
    terms = StepTerms(100.0, 0.1, {}, 0.0, 0.0)
    assert terms.within({10: 4.0}, 1000) is terms
    limited = terms.within({10: 1.6, 20: 4.0}, 1000)
    assert limited.limited and limited.extra_ms(10, 1000) == pytest.approx(0.9 * 1.6)


@pytest.mark.parametrize(
    ("log", "kind", "sentence"),
    [
        ("vllm serve: error: argument --port: invalid", "refused", "argument --port: invalid"),
        ("INFO 11-30 [x.py:1] ModuleNotFoundError: No module named 'vllm._C'\nend", "died", "exit code -9"),
        ("python: Error while finding module (ModuleNotFoundError: No module named 'vllm')", "not_installed", "No mod"),
        ("api_server.py: error: unrecognized arguments: --no-such", "refused", "unrecognized arguments: --no-such"),
        ("Capturing batches (bs=8)\ntorch.OutOfMemoryError: CUDA out of memory.", "out_of_memory_in_capture", "CUDA"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "out_of_memory", "CUDA out of memory."),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "no_kv_memory", "Not"),
        ("(pid=1) RuntimeError: CUDA error: an illegal memory access", "died", "CUDA error: an illegal memory access"),
        ("WARNING 11-30 [base.py:249] ValueError: Tokenizer not available\nKilled", "died", "exit code -9; its last"),
        ("loading\nKilled", "died", "exit code -9; its last line: Killed"),
    ],
)
def test_the_reason_is_in_the_engines_words(log: str, kind: str, sentence: str) -> None:
    failure = failure_in(log, -9)
    assert failure.kind == kind and failure.sentence.startswith(sentence)


def test_requests_are_scaled_cut_and_summed_up() -> None:
    trace = RequestTrace(np.array([0.0, 4.0, 30.0]), np.array([10, 5000, 10]), np.array([10, 10, 10]))
    sent = schedule(trace, load=2.0, within_s=3.0, longest_tokens=4096)
    assert [(r.at_s, r.prompt_tokens, r.output_tokens) for r in sent.requests] == [(0.0, 10, 10), (2.0, 4095, 1)]
    assert sent.clipped == 1
    with pytest.raises(BadInput, match="fewer than two requests"):
        schedule(trace, load=1.0, within_s=3.0, longest_tokens=4096)
    requests = [ProbeRequest(0.0, prompt, 11, 1) for prompt in (10, 600, 600)]
    timings = [
        RequestTiming(0.0, 0.1, 1.1, 11),
        RequestTiming(1.0, 1.3, 2.3, 6),
        RequestTiming(1.0, 1.0, 1.0, 0, "503"),
    ]
    served = summarise(requests, timings, 512)
    assert (served.uncaptured_requests, served.uncaptured_ttft_ms) == (1, None), "one prompt is no mean"
    long = summarise(requests[1:2] * 12, timings[:1] * 6 + timings[1:2] * 6, 512)
    assert long.uncaptured_requests == 12 and long.uncaptured_ttft_ms == pytest.approx(200)
    assert (served.requests, served.failed, served.first_error) == (3, 1, "503")
    assert served.ttft_mean_ms == pytest.approx(200) and served.tpot_mean_ms == pytest.approx(150)
    with pytest.raises(EngineFailed, match="no request was answered: 503"):
        summarise(requests[:1], timings[2:], 512)
    assert served.throughput_tokens_per_s == pytest.approx(17 / 2.3)
