"""DraftHead: one decoder layer that guesses a target's next tokens from its hidden states, as EAGLE does.

It takes the embedding of the last token and the hidden state that led to it, and shares embedding, rotary table and
output head with its target. Its layer is dense whatever the target's are.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.models.attention import Attention
from workloads.models.config import ModelConfig
from workloads.models.decoder import DecoderLayer


class DraftHead(nn.Module):
    """Weights of the draft: fuse [hidden, 2 x hidden], one `DecoderLayer`, and the norm before the output head.

    Attributes:
        config: the target's shape with one dense layer: what an attention backend needs to know.
    """

    def __init__(self, target: ModelConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = replace(target, name=f"{target.name}-draft", layers=1, experts=None)
        hidden = self.config.hidden_size
        self.fuse = nn.Parameter(torch.empty((hidden, 2 * hidden), device=device, dtype=dtype), requires_grad=False)
        self.layer = DecoderLayer(self.config, 0, device, dtype)
        self.final_norm = nn.Parameter(torch.empty(hidden, device=device, dtype=dtype), requires_grad=False)

    @property
    def device(self) -> torch.device:
        return self.fuse.device

    def forward(self, x: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor, attention: Attention) -> Tensor:
        """Embedded tokens and hidden states [T, hidden], cos and sin [T, 1, D] -> next hidden states [T, hidden]."""
        fused = F.linear(torch.cat((x, hidden), dim=-1), self.fuse)
        made: Tensor = self.layer(fused, cos, sin, attention)
        return F.rms_norm(made, (made.shape[-1],), self.final_norm, self.config.rms_norm_eps)
