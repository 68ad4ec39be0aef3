"""What a draft draws: the tree of tokens, against every continuation there is."""

from __future__ import annotations

import pytest
import torch

from services.capture.strategies.eager import EagerStrategy
from tests.services.capture.programs import draft_step
from workloads.models.reference import reference_draft


def test_a_level_holds_the_likeliest_of_all_continuations() -> None:
    step = draft_step(topk=2, num_steps=2)
    eager = EagerStrategy(step)
    eager.prepare(1)
    batch = step.batch_of(torch.tensor([6]), seed=5)
    step.load(batch, 1)
    eager.run(1)
    tokens, parents, shares = (part[0, 0].tolist() for part in step.tree(1))

    def products(token: int, branch: int) -> list[float]:
        """Of two tokens in a row behind one branch."""
        drafted = reference_draft(
            step.decoder,
            step.head,
            candidates=batch.tokens,
            shares=batch.shares,
            hidden=batch.hidden,
            positions=batch.positions,
            tokens=torch.tensor([[[token, token + 1]]]),
            parents=torch.tensor([[[branch, branch]]]),
            past=lambda layer: step.cache.of_rows(layer, 2),
            dtype=torch.float64,
        )
        values: list[float] = drafted[0, 0].tolist()
        return values

    every = {}
    for branch in range(2):
        for token in range(0, step.decoder.config.vocab_size, 2):
            every |= {(token + i, branch): value for i, value in enumerate(products(token, branch))}
    best = sorted(every, key=lambda at: -every[at])[:2]
    assert list(zip(tokens, parents, strict=True)) == best
    assert shares == pytest.approx([every[at] for at in best], rel=1e-5)


def test_a_branch_sees_one_token_more_at_every_level() -> None:
    """The first level of a long draft is that of a short one; later levels depend on what earlier ones wrote."""
    trees = []
    for num_steps in (2, 4):
        step = draft_step(rows=2, num_steps=num_steps)
        untouched = step.cache.of_rows(0, 2 * step.shape.topk)[0].clone()
        step.load(step.batch_of(torch.tensor([3, 7]), seed=1), 2)
        step.compute(*step.arguments(2))
        trees.append(step.tree(2))
        written, _ = step.cache.of_rows(0, 2 * step.shape.topk)
        changed = (written != untouched).flatten(2).any(-1)
        for row, length in enumerate([3] * step.shape.topk + [7] * step.shape.topk):
            assert changed[row].nonzero().flatten().tolist() == list(range(length - 1, length - 1 + num_steps - 1))
    for short, long in zip(*trees, strict=True):
        assert torch.equal(short[0], long[0])
