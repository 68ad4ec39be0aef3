"""A hand-written capture and replay of the decoder's forward, beside the worker's own step, in the same run."""

from __future__ import annotations

import gc
import statistics
from typing import Any

import torch

from services.capture.attention.choose import choose_attention
from services.capture.decode_step import DecodeStep
from services.capture.strategies.full import CudaGraphStrategy
from workloads.models.weights import build_decoder

SIZES = (1, 8, 64, 256)
CAPACITY, CONTEXT, ROUNDS = 1040, 1024, 30


def overhead(model: str) -> dict[str, Any]:
    """{size: own and hand-written step in ms (host work included), and their ratio}."""
    try:
        return _measured(model)
    finally:  # this process goes on, and what it keeps cached no later worker can use
        gc.collect()
        torch.cuda.empty_cache()


def _measured(model: str) -> dict[str, Any]:
    device = torch.device("cuda", torch.cuda.current_device())
    decoder = build_decoder(model, positions=2048, device=device, dtype=torch.bfloat16)
    backend = choose_attention(decoder.config, torch.bfloat16, device)
    step = DecodeStep(decoder, backend, rows=max(SIZES), capacity=CAPACITY, lm_head_in_graph=True)
    strategy = CudaGraphStrategy(step, warmup=2)
    found = {size: _one_size(step, strategy, size) for size in sorted(SIZES, reverse=True)}
    strategy.close()
    return {"attention": backend.name, "sizes": found}


@torch.inference_mode()
def _one_size(step: DecodeStep, strategy: CudaGraphStrategy, size: int) -> dict[str, float]:
    strategy.prepare(size)
    batch = step.batch(size, context_tokens=CONTEXT)
    decoder, attention, device = step.decoder, step.attention, step.decoder.device
    tokens = torch.zeros(size, dtype=torch.int64, device=device)
    positions = torch.zeros(size, dtype=torch.int64, device=device)
    lengths = torch.ones(size, dtype=torch.int32, device=device)
    logits = torch.zeros((size, decoder.config.vocab_size), dtype=decoder.dtype, device=device)
    inside = attention.arguments(size, lengths)

    def forward() -> None:
        decoder.logits(decoder(tokens, positions, attention.over(*inside)), out=logits)

    attention.plan(batch.positions.to(device), batch.lengths.to(device), batch.lengths)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward()

    def by_hand() -> None:
        tokens.copy_(batch.tokens, non_blocking=True)
        positions.copy_(batch.positions, non_blocking=True)
        lengths.copy_(batch.lengths, non_blocking=True)
        attention.plan(positions, lengths, batch.lengths)
        graph.replay()
        logits.argmax(dim=-1)

    def own() -> None:
        step.load(batch, size)
        strategy.run(size)
        step.finish(size)

    times: dict[str, list[float]] = {"own": [], "by_hand": []}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(ROUNDS):
        for name, run in (("own", own), ("by_hand", by_hand)):
            torch.cuda.synchronize()
            begin.record()
            run()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    own_ms, hand_ms = (statistics.median(times[name]) for name in ("own", "by_hand"))
    return {"own_ms": own_ms, "by_hand_ms": hand_ms, "ratio": own_ms / hand_ms}
