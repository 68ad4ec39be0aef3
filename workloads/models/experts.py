"""A mixture of experts with static shapes: every token's choice is data, so the whole block can be captured.

Rows are sorted by expert and multiplied in groups whose ends are computed on the device; nothing depends on how many
rows an expert got, and the rows are summed in a fixed order, so that the result does not depend on the schedule.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.models.config import Experts


class ExpertBlock(nn.Module):
    """Router and experts of one layer.

    Attributes:
        router: [experts, hidden]; gate_up: [experts, 2 x inner, hidden]; down: [experts, hidden, inner].
    """

    def __init__(self, experts: Experts, hidden_size: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.experts = experts

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)

        self.router = weight(experts.count, hidden_size)
        self.gate_up = weight(experts.count, 2 * experts.inner_size, hidden_size)
        self.down = weight(experts.count, hidden_size, experts.inner_size)

    def forward(self, x: Tensor) -> Tensor:
        """x [T, hidden] -> [T, hidden]."""
        share, expert = choose(x, self.router, self.experts)
        order = torch.argsort(expert.flatten(), stable=True)
        number = torch.arange(self.experts.count, device=x.device)
        ends = (expert.flatten()[:, None] == number).sum(0).cumsum(0).to(torch.int32)
        sorted_rows = x[order // self.experts.chosen]
        gate, up = F.grouped_mm(sorted_rows, self.gate_up.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        made = F.grouped_mm(F.silu(gate) * up, self.down.transpose(-2, -1), offs=ends)
        by_token: Tensor = torch.empty_like(made).index_copy_(0, order, made).unflatten(0, expert.shape)
        return (by_token * share[..., None]).sum(dim=1)


def choose(x: Tensor, router: Tensor, experts: Experts) -> tuple[Tensor, Tensor]:
    """(share of every chosen expert, its number), [T, chosen] each. The softmax runs in float32 at least."""
    logits = F.linear(x, router)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    share, expert = F.softmax(logits, dim=-1, dtype=dtype).topk(experts.chosen, dim=-1)
    if experts.normalised:
        share = share / share.sum(dim=-1, keepdim=True)
    return share.to(x.dtype), expert
