"""ModelsModel: the model shapes that can be measured by name."""

from __future__ import annotations

from typing import Self

from services.contract.plain import Answer
from workloads.models.config import ModelConfig, builtin_names, load_config


class ModelSummary(Answer):
    """A built-in shape; `name` is what a measurement and a sweep's `model` take. `experts` is null for a dense one."""

    name: str
    parameters: int
    layers: int
    experts: int | None

    @classmethod
    def from_domain(cls, config: ModelConfig) -> Self:
        experts = None if config.experts is None else config.experts.count
        return cls(name=config.name, parameters=config.parameters, layers=config.layers, experts=experts)


class ModelsModel(Answer):
    """All of them, by name."""

    items: tuple[ModelSummary, ...]

    @classmethod
    def builtin(cls) -> Self:
        return cls(items=tuple(ModelSummary.from_domain(load_config(name)) for name in builtin_names()))
