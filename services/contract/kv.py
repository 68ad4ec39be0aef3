"""The KV cache under capture lists, by an engine's own rule."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field

from services.contract.coverage import MOST_SIZES, OptionText
from services.contract.lint import Size
from services.contract.load import Label
from services.contract.plain import Answer, Request
from tuner.engines.kv import KvTokens


class KvRequest(Request):
    """`lists` are decode lists by any label of yours; graph memory is the profile's."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "engine": "vllm@0.33.0",
                    "profile": "h200-llama-3.1-8b",
                    "options": {"max_num_seqs": "512"},
                    "lists": {"mine": [1, 8, 64, 512]},
                }
            ]
        }
    )

    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
    profile: Annotated[str, Field(min_length=1, max_length=300, examples=["h200-llama-3.1-8b"])]
    options: Annotated[dict[str, OptionText], Field(max_length=100)] = Field(default_factory=dict)
    lists: Annotated[
        dict[Label, Annotated[list[Size], Field(min_length=1, max_length=MOST_SIZES)]],
        Field(min_length=1, max_length=40),
    ]


class KvTokensModel(Answer):
    """See `tuner.engines.kv.KvTokens`."""

    tokens: int | None
    moves: bool
    reason: str
    knob: str

    @classmethod
    def from_domain(cls, kv: KvTokens) -> Self:
        return cls(tokens=kv.tokens, moves=kv.moves, reason=kv.reason, knob=kv.knob)


class KvModel(Answer):
    """By label. `facts` are options that were not given and were taken from the profile."""

    lists: dict[str, KvTokensModel]
    facts: dict[str, str]
