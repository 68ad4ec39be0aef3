"""EngineModel: an engine that Captune knows, at the newest version whose rules it knows."""

from __future__ import annotations

from typing import Self

from services.contract.plain import Answer
from tuner.engines.base import Engine


class EngineModel(Answer):
    """`spec` is what `--engine` takes; `list_names[0]` is the list that decode steps use."""

    spec: str
    name: str
    version: str
    list_names: tuple[str, ...]
    decode_family: str
    policy: str

    @classmethod
    def from_domain(cls, engine: Engine) -> Self:
        return cls(
            spec=engine.spec,
            name=engine.name,
            version=str(engine.version),
            list_names=engine.list_names,
            decode_family=engine.decode_family,
            policy=engine.policy,
        )


class EnginesModel(Answer):
    """All of them."""

    items: tuple[EngineModel, ...]
