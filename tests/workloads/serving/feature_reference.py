"""The schedulers with preemption, prefix cache, speculation and attention ranks, one step and one token at a time.

Written from the rules in the docstrings of `workloads.serving.lockstep`, with lists, sets and sums over all requests in
place of counters and links; the compiled kernel must take the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workloads.serving.features import Features
from workloads.serving.limits import SchedulerLimits
from workloads.serving.lockstep.drafts import accepted_drafts
from workloads.serving.step_time import StepTime


@dataclass(eq=False)
class Request:
    identity: int
    arrival_ms: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    target: int = 0
    done: int = 0
    made: int = 0
    ever: int = 0
    draws: int = 0
    shared: int = 0
    chunk: int = 0
    scheduled_ms: float = np.nan
    first_ms: float = np.nan
    finish_ms: float = np.nan

    @property
    def decodes(self) -> bool:
        return self.chunk == 0 and self.done >= self.target


@dataclass
class Cache:
    """Readers of every cached block, and those that nobody reads from the oldest to the newest."""

    readers: dict[int, int] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)

    def read(self, block: int) -> None:
        if block in self.free:
            self.free.remove(block)
        self.readers[block] = self.readers.get(block, 0) + 1

    def leave(self, block: int) -> None:
        self.readers[block] -= 1
        if self.readers[block] == 0:
            self.free.append(block)

    def evict(self) -> None:
        del self.readers[self.free.pop(0)]


@dataclass
class Rank:
    running: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    retracted: list[Request] = field(default_factory=list)
    batch: list[Request] = field(default_factory=list)
    rows: list[Request] = field(default_factory=list)
    cache: Cache = field(default_factory=Cache)
    half_done: Request | None = None
    full: bool = False
    ratio: float = 0.0
    calm: int = 0
    preempted: bool = False
    prefix_work: int = 0

    @property
    def holders(self) -> list[Request]:
        return [*self.running, *([self.half_done] if self.half_done else []), *self.finishing]

    @property
    def finishing(self) -> list[Request]:
        return [r for r in self.batch if r not in self.running and r is not self.half_done]

    @property
    def live(self) -> int:
        return len(self.running) + len(self.waiting) + len(self.retracted) + (self.half_done is not None)


@dataclass
class Step:
    size: int
    family: int
    start_ms: float
    step_ms: float
    kv_tokens: int


@dataclass
class FeatureReference:
    policy: str
    limits: SchedulerLimits
    time: StepTime
    features: Features
    requests: Sequence[Request]
    block_tokens: int = 1
    now_ms: float = 0.0
    ranks: list[Rank] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    preemptions: int = 0
    recomputed: int = 0
    prefilled: int = 0
    hit_tokens: int = 0
    emitted: int = 0

    def __post_init__(self) -> None:
        speculation = self.features.speculation
        self.query = 1 if speculation is None else speculation.query_tokens
        self.look = self.query * (2 if speculation and self.policy != "vllm" else 1)
        self.capacity = self.limits.kv_tokens or 2**62
        self.rule = self.features.sglang_kv_rule
        self.least_ratio = self.rule.initial_ratio * self.rule.least_ratio_factor
        self.decay = (self.rule.initial_ratio - self.least_ratio) / self.rule.decay_steps
        self.chunk_limit = min(self.limits.chunked_prefill_tokens or self.limits.token_budget, self.limits.token_budget)
        self.chunked = self.limits.chunked_prefill_tokens is not None
        self.max_running = self.limits.max_running_requests
        if self.policy == "vllm":
            self.max_running = min(self.max_running, self.limits.token_budget // self.query)

    def run(self) -> list[Step]:
        self.ranks = [Rank() for _ in range(self.features.attention_ranks)]
        future = list(self.requests)
        for request in future:
            request.target = request.input_tokens
        dealt = 0
        while future or any(rank.live for rank in self.ranks):
            if not any(rank.live for rank in self.ranks):
                self.now_ms = max(self.now_ms, future[0].arrival_ms)
                for rank in self.ranks:
                    rank.ratio, rank.calm = self.rule.initial_ratio, 0
                dealt = self.deal(future, dealt)
            for rank in self.ranks:
                rank.batch, rank.rows, rank.preempted, rank.prefix_work = [], [], False, 0
                {"vllm": self.vllm, "sglang": self.sglang, "decode": self.decode}[self.policy](rank)
                self.check(rank)
            self.step()
            dealt = self.deal(future, dealt)
            for rank in self.ranks:
                self.end(rank)
        return self.steps

    def deal(self, future: list[Request], dealt: int) -> int:
        while future and future[0].arrival_ms <= self.now_ms:
            count = len(self.ranks)
            order = [self.ranks[(dealt + i) % count] for i in range(count)]
            rank = min(order, key=lambda r: r.live) if self.policy == "vllm" else order[0]
            rank.waiting.append(future.pop(0))
            dealt += 1
        return dealt

    def used(self, rank: Rank) -> int:
        private = sum(r.done - r.shared * self.block_tokens for r in rank.holders)
        return private + self.block_tokens * sum(n > 0 for n in rank.cache.readers.values())

    def check(self, rank: Rank) -> None:
        held = self.used(rank)
        if self.features.preempt:
            assert held + self.look * len(rank.rows) <= self.capacity
            assert held + self.block_tokens * len(rank.cache.free) <= self.capacity
        assert len(rank.running) <= self.max_running

    def make_room(self, rank: Rank, demand: int) -> None:
        while rank.cache.free and (self.used(rank) + demand + self.block_tokens * len(rank.cache.free) > self.capacity):
            rank.cache.evict()

    def lookup(self, rank: Rank, request: Request) -> tuple[int, int]:
        hits = []
        for block in request.blocks[: (request.target - 1) // self.block_tokens]:
            if block not in rank.cache.readers:
                break
            hits.append(block)
        return len(hits), sum(rank.cache.readers[block] == 0 for block in hits)

    def enter(self, rank: Rank, request: Request, hit: int) -> None:
        for block in request.blocks[:hit]:
            rank.cache.read(block)
        request.shared, request.done = hit, hit * self.block_tokens
        request.ever = max(request.ever, request.done)
        if np.isnan(request.scheduled_ms):
            request.scheduled_ms = self.now_ms
            self.hit_tokens += request.done

    def take_chunk(self, rank: Rank, request: Request, tokens: int) -> None:
        rank.prefix_work += tokens * request.done
        self.recomputed += len(set(range(request.done, request.done + tokens)) & set(range(request.ever)))
        self.prefilled += tokens
        request.done += tokens
        request.ever = max(request.ever, request.done)
        request.chunk = tokens
        rank.batch.append(request)

    def register(self, rank: Rank, request: Request) -> None:
        for block in request.blocks[request.shared : request.done // self.block_tokens]:
            rank.cache.read(block)
            request.shared += 1

    def release(self, rank: Rank, request: Request) -> None:
        for block in reversed(request.blocks[: request.shared]):
            rank.cache.leave(block)
        request.shared = request.done = 0

    def let_go(self, rank: Rank, request: Request) -> None:
        self.release(rank, request)
        request.target = request.input_tokens + request.made
        rank.preempted = True
        self.preemptions += 1

    # vLLM

    def vllm(self, rank: Rank) -> None:
        def preempt() -> Request:
            victim = rank.running.pop()
            self.let_go(rank, victim)
            rank.waiting.insert(0, victim)
            return victim

        def rows() -> int:
            return sum(r.decodes for r in rank.running)

        def chunks() -> int:
            return sum(r.chunk for r in rank.batch)

        while self.features.preempt and self.used(rank) + self.look * rows() > self.capacity:
            if rows() == 0:
                break
            preempt()
        for request in [r for r in rank.running if not r.decodes]:
            if request not in rank.running:
                continue
            room = self.limits.token_budget - rows() * self.query - chunks()
            tokens = min(request.target - request.done, self.chunk_limit, room)
            if tokens <= 0:
                break
            while self.features.preempt and self.used(rank) + self.look * rows() + tokens > self.capacity:
                if preempt() is request:
                    break
            if request not in rank.running:
                break
            self.take_chunk(rank, request, tokens)
            self.make_room(rank, self.look * rows())
            self.register(rank, request)
        rank.rows = [r for r in rank.running if r.decodes]
        look = self.look * len(rank.rows)
        self.make_room(rank, look)
        while not rank.preempted and rank.waiting:
            room = self.limits.token_budget - len(rank.rows) * self.query - chunks()
            request = rank.waiting[0]
            hit, unread = self.lookup(rank, request)
            left = request.target - hit * self.block_tokens
            if self.features.preempt:
                fits = self.used(rank) + look + left + unread * self.block_tokens <= self.capacity
            else:
                fits = self.reserved(rank) + request.input_tokens + request.output_tokens <= self.capacity
            if room <= 0 or not fits or len(rank.running) == self.max_running or (not self.chunked and left > room):
                break
            rank.waiting.pop(0)
            rank.running.append(request)
            self.enter(rank, request, hit)
            self.take_chunk(rank, request, min(left, self.chunk_limit, room) if self.chunked else left)
            self.make_room(rank, look)
            self.register(rank, request)

    def reserved(self, rank: Rank) -> int:
        return sum(r.input_tokens + r.output_tokens for r in rank.holders)

    # SGLang

    def sglang(self, rank: Rank) -> None:
        self.prefill(rank)
        if rank.batch:
            self.make_room(rank, 0)
            return
        self.retract(rank, rank.waiting)
        rank.rows = list(rank.running)
        self.make_room(rank, self.look * len(rank.rows))

    def prefill(self, rank: Rank) -> None:
        if rank.half_done is None and (rank.full or not rank.waiting):
            return
        ratio = rank.ratio if rank.calm == 0 else max(rank.ratio - rank.calm * self.decay, self.least_ratio)
        clip = self.rule.clip_tokens
        expected = sum(min(r.output_tokens - r.made, clip) for r in rank.running) * ratio
        free = self.capacity - self.used(rank)
        room = self.chunk_limit
        if rank.half_done is not None:
            rank.full = False
            request = rank.half_done
            tokens = min(room, request.target - request.done)
            self.take_chunk(rank, request, tokens)
            room -= tokens
            free -= tokens + 1
            if request.done == request.target:
                rank.half_done = None
                free -= min(request.output_tokens, clip)
        while rank.waiting and rank.half_done is None and room > 0:
            request = rank.waiting[0]
            hit, unread = self.lookup(rank, request)
            left = request.target - hit * self.block_tokens
            locked = unread * self.block_tokens
            if self.features.preempt:
                want = left + min(request.output_tokens - request.made, clip) + 1
                fits = want < free - locked - expected
            else:
                fits = self.reserved(rank) + request.input_tokens + request.output_tokens <= self.capacity
            if not fits or len(rank.running) + len(rank.batch) >= self.max_running:
                rank.full = bool(rank.running or rank.batch)
                break
            if left > room and not self.chunked and rank.batch:
                break
            rank.waiting.pop(0)
            self.enter(rank, request, hit)
            tokens = min(left, room) if self.chunked else left
            if tokens < left:
                rank.half_done = request
            self.take_chunk(rank, request, tokens)
            room -= tokens
            free -= locked + tokens + 1
            if tokens == left:
                free -= min(request.output_tokens, clip)
            if self.features.preempt and free - expected <= 0:
                rank.full = True
                break

    def retract(self, rank: Rank, queue: list[Request]) -> None:
        def overflows() -> bool:
            return self.features.preempt and self.used(rank) + self.look * len(rank.running) > self.capacity

        if not rank.running or not overflows():
            return
        rank.running.sort(key=lambda r: (r.made, -r.input_tokens), reverse=True)
        first = True
        while len(rank.running) > 1 and (first or overflows()):
            first = False
            request = rank.running.pop()
            self.let_go(rank, request)
            self.make_room(rank, self.rule.retract_steps * len(rank.running))
            queue.append(request)
        rank.full = False
        made = sum(r.made for r in rank.running) + self.rule.retract_steps * len(rank.running)
        rank.ratio = min(1.0, made / (sum(r.output_tokens for r in rank.running) + 1))
        rank.calm = 0

    # decode node

    def decode(self, rank: Rank) -> None:
        def fits(request: Request) -> bool:
            if len(rank.running) >= self.max_running:
                return False
            if not self.features.preempt:
                return self.reserved(rank) + request.input_tokens + request.output_tokens <= self.capacity
            tokens = request.input_tokens + max(request.made, 1) - 1
            return (
                self.used(rank) + tokens + self.rule.reserved_decode_tokens * (len(rank.running) + 1) <= self.capacity
            )

        def enter(request: Request) -> None:
            request.made = max(request.made, 1)
            request.done = request.target = request.input_tokens + request.made - 1
            if np.isnan(request.scheduled_ms):
                request.scheduled_ms = self.now_ms
            rank.running.append(request)

        while rank.retracted and fits(rank.retracted[0]):
            enter(rank.retracted.pop(0))
        while not rank.retracted and rank.waiting and fits(rank.waiting[0]):
            enter(rank.waiting.pop(0))
        self.retract(rank, rank.retracted)
        rank.rows = list(rank.running)

    # steps

    def step(self) -> None:
        kv = max(sum(r.done + 1 for r in rank.rows) for rank in self.ranks)
        rows = max(len(rank.rows) for rank in self.ranks)
        rows_ms = self.time.attention_ms_per_token * kv + self.time.row_ms * rows
        tokens = [len(k.rows) * self.query + sum(r.chunk for r in k.batch) for k in self.ranks]
        assert max(tokens) > 0
        if any(rank.batch for rank in self.ranks):
            work = max(rank.prefix_work for rank in self.ranks)
            step_ms = self.curve_ms(max(tokens)) + self.time.prefix_ms_per_token2 * work + rows_ms
            self.steps.append(Step(max(tokens), 1, self.now_ms, step_ms, kv))
        else:
            step_ms = float(self.time.decode_ms[rows]) + rows_ms
            size = rows * self.query if self.policy == "vllm" else rows
            self.steps.append(Step(size, 0, self.now_ms, step_ms, kv))
        self.now_ms += step_ms

    def curve_ms(self, tokens: int) -> float:
        x, y = self.time.prefill_tokens, self.time.prefill_ms
        if tokens <= x[0]:
            return float(y[0])
        if len(x) == 1:
            return float(tokens * y[0] / x[0])
        if tokens > x[-1]:
            return float(y[-1] + max(0.0, (y[-1] - y[-2]) / (x[-1] - x[-2])) * (tokens - x[-1]))
        return float(np.interp(tokens, x, y))

    def end(self, rank: Rank) -> None:
        rows = list(rank.rows)
        for request in list(rank.running):
            if request in rank.batch:
                self.end_chunk(rank, request)
            elif request in rows:
                tokens = min(1 + self.drawn(request), request.output_tokens - request.made)
                request.done += tokens
                self.make(rank, request, tokens)
        if rows and not rank.preempted:
            rank.calm += 1
        if self.policy == "sglang":
            batch, rank.batch = rank.batch, []
            for request in batch:
                if request not in rank.running and request is not rank.half_done:
                    rank.running.append(request)
            for request in batch:
                self.register(rank, request)
                self.end_chunk(rank, request)

    def drawn(self, request: Request) -> int:
        speculation = self.features.speculation
        if speculation is None:
            return 0
        request.draws += 1
        accept = np.cumprod(np.full(speculation.draft_tokens, speculation.acceptance))
        return accepted_drafts(accept, speculation.seed, request.identity, request.draws)

    def end_chunk(self, rank: Rank, request: Request) -> None:
        request.chunk = 0
        if request.done == request.target:
            self.make(rank, request, 1)

    def make(self, rank: Rank, request: Request, tokens: int) -> None:
        request.made += tokens
        self.emitted += tokens
        if np.isnan(request.first_ms):
            request.first_ms = self.now_ms
        if request.made == request.output_tokens:
            request.finish_ms = self.now_ms
            self.release(rank, request)
            rank.running.remove(request)
            rank.full = False
