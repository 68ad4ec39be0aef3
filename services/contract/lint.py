"""Lint: what an engine would really capture when asked for some lists, and what is wrong with asking."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from services.contract.plain import Answer, Request, plain, shown
from tuner.engines.base import Engine, Lists, Problem, SizeChange

Size = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class ProblemModel(Answer):
    """One finding; `fix` is a ready value where there is one."""

    code: str
    message: str
    severity: Literal["error", "warning", "info"]
    fix: Any = None

    @classmethod
    def from_domain(cls, problem: Problem) -> Self:
        return cls.model_validate(plain(problem))


class SizeChangeModel(Answer):
    """One size that is not captured as asked."""

    list: str
    requested: int | None
    effective: int | None
    reason: str

    @classmethod
    def from_domain(cls, change: SizeChange) -> Self:
        return cls(list=change.list_name, requested=change.requested, effective=change.effective, reason=change.reason)


class LintRequest(Request):
    """Either `lists` by the engine's own names, or `default: true`."""

    model_config = shown(
        {"engine": "vllm@0.33.0", "lists": {"capture": [1, 2, 4, 8]}}, {"engine": "sglang", "default": True}
    )

    engine: Annotated[str, Field(min_length=1, max_length=60, examples=["vllm@0.33.0"])]
    lists: dict[str, Annotated[list[Size], Field(max_length=10_000)]] | None = None
    default: bool = False
    options: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.default == bool(self.lists):
            raise ValueError("give either `lists` or `default: true`")
        return self


class LintModel(Answer):
    """The keys of `captune lint`."""

    engine: str
    requested: dict[str, tuple[int, ...]]
    effective: dict[str, tuple[int, ...]]
    graphs: int
    changes: tuple[SizeChangeModel, ...]
    refused: str | None
    problems: tuple[ProblemModel, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine, lists: Lists, options: Any) -> Self:
        """Ask `engine`; `options` come from `engine.options`."""
        effective = engine.effective(lists, options)
        return cls(
            engine=engine.spec,
            requested={name: tuple(sizes) for name, sizes in lists.items()},
            effective={name: tuple(sizes) for name, sizes in effective.families.items()},
            graphs=effective.graphs,
            changes=tuple(SizeChangeModel.from_domain(change) for change in effective.changes),
            refused=effective.refused,
            problems=tuple(ProblemModel.from_domain(problem) for problem in engine.lint(lists, options)),
            notes=engine.notes,
        )
