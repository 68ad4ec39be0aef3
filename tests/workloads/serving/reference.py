"""The three scheduler policies step by step, as plainly as they can be written; the compiled ones must equal them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workloads.serving.limits import SchedulerLimits
from workloads.serving.step_time import StepTime


@dataclass
class Request:
    arrival_ms: float
    input_tokens: int
    output_tokens: int
    prefilled: int = 0
    generated: int = 0
    scheduled_ms: float = np.nan
    first_ms: float = np.nan
    finish_ms: float = np.nan

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def decodes(self) -> bool:
        return self.prefilled == self.input_tokens


@dataclass
class Step:
    size: int
    family: str
    start_ms: float
    step_ms: float
    kv_tokens: int


@dataclass
class Reference:
    policy: str
    limits: SchedulerLimits
    time: StepTime
    requests: list[Request]
    now_ms: float = 0.0
    running: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rejected: int = 0

    def run(self) -> list[Step]:
        future = []
        for request in self.requests:
            too_large = self.limits.kv_tokens is not None and request.total > self.limits.kv_tokens
            unchunked = self.policy == "vllm" and self.limits.chunked_prefill_tokens is None
            if too_large or (unchunked and request.input_tokens > self.limits.token_budget):
                self.rejected += 1
            elif self.policy != "decode" or request.output_tokens > 1:
                future.append(request)
        while future or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now_ms = max(self.now_ms, future[0].arrival_ms)
            while future and future[0].arrival_ms <= self.now_ms:
                self.waiting.append(future.pop(0))
            {"decode": self.decode_step, "sglang": self.sglang_step, "vllm": self.vllm_step}[self.policy]()
            self.check_limits()
        return self.steps

    def check_limits(self) -> None:
        assert len(self.running) <= self.limits.max_running_requests
        assert self.limits.kv_tokens is None or sum(r.total for r in self.running) <= self.limits.kv_tokens

    def can_admit(self, request: Request) -> bool:
        held = sum(r.total for r in self.running)
        fits = self.limits.kv_tokens is None or held + request.total <= self.limits.kv_tokens
        return fits and len(self.running) < self.limits.max_running_requests

    def admit(self) -> Request:
        request = self.waiting.pop(0)
        request.scheduled_ms = self.now_ms
        self.running.append(request)
        return request

    def kv_of(self, rows: list[Request]) -> int:
        return sum(r.input_tokens + r.generated for r in rows)

    def rows_ms(self, rows: list[Request]) -> float:
        return self.time.attention_ms_per_token * self.kv_of(rows) + self.time.row_ms * len(rows)

    def prefill_ms(self, chunks: list[tuple[Request, int]], decode_rows: int = 0) -> float:
        tokens = decode_rows + sum(new for _, new in chunks)
        work = sum(new * request.prefilled for request, new in chunks)
        x, y = self.time.prefill_tokens, self.time.prefill_ms
        if tokens <= x[0]:
            plain = y[0]
        elif len(x) == 1:
            plain = tokens * y[0] / x[0]
        elif tokens > x[-1]:
            plain = y[-1] + max(0.0, (y[-1] - y[-2]) / (x[-1] - x[-2])) * (tokens - x[-1])
        else:
            plain = float(np.interp(tokens, x, y))
        return float(plain) + self.time.prefix_ms_per_token2 * work

    def finish_step(
        self, rows: list[Request], chunks: list[tuple[Request, int]], family: str, size: int, step_ms: float
    ) -> None:
        self.steps.append(Step(size, family, self.now_ms, step_ms, self.kv_of(rows)))
        self.now_ms += step_ms
        for request in rows:
            request.generated += 1
            if np.isnan(request.first_ms):
                request.first_ms = self.now_ms
        for request, new in chunks:
            request.prefilled += new
            if request.prefilled == request.input_tokens:
                request.generated = 1
                request.first_ms = self.now_ms
        for request in list(self.running):
            if request.generated == request.output_tokens:
                request.finish_ms = self.now_ms
                self.running.remove(request)

    def decode_step(self) -> None:
        while self.waiting and self.can_admit(self.waiting[0]):
            request = self.admit()
            request.prefilled, request.generated = request.input_tokens, 1
        rows = list(self.running)
        step_ms = self.time.decode_ms[len(rows)] + self.rows_ms(rows)
        self.finish_step(rows, [], "decode_full", len(rows), step_ms)

    def sglang_step(self) -> None:
        room = self.limits.token_budget
        chunk = self.limits.chunked_prefill_tokens
        if chunk is not None:
            room = min(room, chunk)
        chunks: list[tuple[Request, int]] = []
        for request in self.running:
            if not request.decodes:
                new = min(room, request.input_tokens - request.prefilled)
                chunks.append((request, new))
                room -= new
        cut = any(request.prefilled + new < request.input_tokens for request, new in chunks)
        while not cut and room > 0 and self.waiting and self.can_admit(self.waiting[0]):
            prompt = self.waiting[0].input_tokens
            if chunk is None:
                if prompt > room and chunks:
                    break
                new = prompt
            else:
                new = min(prompt, room)
            cut = new < prompt
            chunks.append((self.admit(), new))
            room -= new
        if chunks:
            size = sum(new for _, new in chunks)
            self.finish_step([], chunks, "prefill_breakable", size, self.prefill_ms(chunks))
        else:
            rows = list(self.running)
            step_ms = self.time.decode_ms[len(rows)] + self.rows_ms(rows)
            self.finish_step(rows, [], "decode_full", len(rows), step_ms)

    def vllm_step(self) -> None:
        rows = [request for request in self.running if request.decodes]
        room = self.limits.token_budget - len(rows)
        chunk = self.limits.chunked_prefill_tokens
        chunks: list[tuple[Request, int]] = []
        for request in self.running:
            if not request.decodes and room > 0:
                assert chunk is not None
                new = min(room, chunk, request.input_tokens - request.prefilled)
                chunks.append((request, new))
                room -= new
        while room > 0 and self.waiting and self.can_admit(self.waiting[0]):
            prompt = self.waiting[0].input_tokens
            if chunk is None:
                if prompt > room:
                    break
                new = prompt
            else:
                new = min(prompt, chunk, room)
            chunks.append((self.admit(), new))
            room -= new
        if chunks:
            size = len(rows) + sum(new for _, new in chunks)
            step_ms = self.prefill_ms(chunks, len(rows)) + self.rows_ms(rows)
            self.finish_step(rows, chunks, "decode_piecewise", size, step_ms)
        else:
            step_ms = self.time.decode_ms[len(rows)] + self.rows_ms(rows)
            self.finish_step(rows, [], "decode_full", len(rows), step_ms)
