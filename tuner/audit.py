"""What a capture list does today, read from an engine's own log or from recorded steps; no cost profile needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.dispatch import DispatchTable
from tuner.engines.base import Effective, Engine, Lists
from workloads.arrays import F64, I64, Bool
from workloads.errors import BadUsage
from workloads.traces.records import EngineObservation, StepTrace, Traffic

FEW_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class AuditWarning:
    """One thing that looks wrong, or that limits what the audit can say."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class FamilyAudit:
    """The steps of one graph family; shares are of its steps.

    Attributes:
        ceiling: largest captured size that its steps can use; 0 where there is none.
        above_ceiling: share of steps larger than that.
        padding_waste: padded slots / executed slots.
    """

    steps: float
    exact: float
    padded: float
    fallback: float
    ceiling: int
    above_ceiling: float
    padding_waste: float


@dataclass(frozen=True, slots=True)
class Audit:
    """What runs today and how steps meet it.

    The headline figures cover the families that the engine's first list feeds: vLLM's mixed and decode steps, SGLang's
    decode steps (its prefill lines are logged at another rate, so the two must not be added up). A source without
    such steps is judged as a whole. `families` has every family by itself.

    Attributes:
        present_lists: list name -> sizes, from the caller, else the log, else the engine's default (then a warning).
        present_options: engine options as the log shows them.
        step_share: `exact`, `padded`, `fallback`; they add up to 1.
        above_ceiling: share of steps larger than the largest captured size.
        never_used: captured sizes of the first list that no step was dispatched to.
        never_used_by_list: the same for every list whose steps the source holds.
        padding_waste: padded slots / executed slots, weighted by steps.
    """

    engine: str
    present_lists: Lists
    present_options: Mapping[str, str]
    step_share: Mapping[str, float]
    above_ceiling: float
    never_used: tuple[int, ...]
    never_used_by_list: Mapping[str, tuple[int, ...]]
    padding_waste: float
    families: Mapping[str, FamilyAudit]
    warnings: tuple[AuditWarning, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one family with their outcome; `bucket` is 0 for a fallback or where only the log knows it."""

    size: I64
    steps: F64
    bucket: I64
    fallback: Bool
    exact: Bool
    ceiling: int
    disagrees: Bool

    @property
    def above(self) -> Bool:
        above: Bool = self.size > self.ceiling
        return above


def engine_of(observation: EngineObservation | None) -> str | None:
    """`name@version` as the log names its engine, `name` without a version, or None."""
    if observation is None or observation.engine is None:
        return None
    return observation.engine if observation.version is None else f"{observation.engine}@{observation.version}"


def options_of(observation: EngineObservation | None, engine: Engine, raw: Mapping[str, str] | None = None) -> Any:
    """Options of the audited engine: what the log shows, overruled by `raw` (`--set` pairs).

    Raises:
        BadUsage: `raw` has an unknown key or a bad value.
    """
    given = raw or {}
    if observation is None:
        return engine.options(given)
    engine.options(given)  # refuses a bad pair with the name that the user wrote
    return engine.options({**engine.known_options(observation.options), **engine.known_options(given)})


def audit(
    traffic: Traffic, observation: EngineObservation | None, engine: Engine, options: Any, lists: Lists | None = None
) -> Audit:
    """How the steps of `traffic` meet the list that is captured today.

    Where the log itself says that a step ran without a graph, or in which bucket, its word counts; elsewhere the
    engine's dispatch rule does.

    Raises:
        BadUsage: a request trace (simulate it first), or given lists that the engine refuses.
    """
    if not isinstance(traffic, StepTrace):
        raise BadUsage("an audit needs steps; simulate the requests first")
    present, source = _present(observation, engine, options, lists)
    effective = _captured(engine, present, options, observed=source == "log")
    table = engine.dispatch(effective, options)
    rows = {name: _outcome(traffic, name, engine, options, table, effective) for name in traffic.histograms()}
    head = _headline(rows, engine)
    never = {
        name: _never_used(effective, rows, engine.list_families[name])
        for name in present
        if any(family in rows for family in engine.list_families[name])
    }
    total = _summary(head)
    warnings = [
        *_source_warnings(traffic, sum(len(part.size) for part in head), engine, present, source),
        *_step_warnings(head, total, mixed=any(_may_mix_prefill(traffic, name) for name in rows)),
        *_lint_warnings(engine, present, options, source),
    ]
    return Audit(
        engine=engine.spec,
        present_lists=present,
        present_options=dict(observation.options) if observation else {},
        step_share={"exact": total.exact, "padded": total.padded, "fallback": total.fallback},
        above_ceiling=total.above_ceiling,
        never_used=never.get(engine.list_names[0], ()),
        never_used_by_list=never,
        padding_waste=total.padding_waste,
        families={name: _summary([part]) for name, part in rows.items()},
        warnings=tuple(warnings),
    )


def _present(
    observation: EngineObservation | None, engine: Engine, options: Any, lists: Lists | None
) -> tuple[Lists, str]:
    if lists:
        return dict(lists), "given"
    seen = observation.lists if observation else {}
    known = {name: tuple(sizes) for name, sizes in seen.items() if name in engine.list_names}
    if known:
        return known, "log"
    return dict(engine.default_lists(options)), "default"


def _captured(engine: Engine, lists: Lists, options: Any, *, observed: bool) -> Effective:
    """The captured families. A list that a log shows was captured, whatever the options we know would make of it."""
    effective = engine.effective(lists, options)
    if not observed:
        if effective.refused is not None:
            raise BadUsage(f"{engine.spec} would not start with this list: {effective.refused}", field="sizes")
        return effective
    families = dict(effective.families)
    for name, sizes in lists.items():
        fed = [family for family in engine.list_families[name] if family in families] or [engine.list_families[name][0]]
        kept = {size for family in fed for size in families.get(family, ())}
        if not set(sizes) <= kept:
            families.update({family: tuple(sorted(set(sizes))) for family in fed})
    return Effective(families, effective.graphs, effective.changes)


def _outcome(
    trace: StepTrace, family: str, engine: Engine, options: Any, table: DispatchTable, effective: Effective
) -> _Rows:
    index = trace.families.index(family)
    rows = trace.family_index == index
    # Engines whose lists count tokens see q tokens of each request in a decode step.
    unit = engine.step_tokens_per_request(options) if trace.units[index] == "requests" else 1
    size = trace.size[rows] * unit
    predicted = table.dispatch(family, size).bucket
    said, flag = trace.padded_size[rows], trace.fallback[rows]
    bucket = np.where(said > 0, said, predicted)
    fallback = np.where(flag >= 0, flag == 1, bucket == 0)
    captured = _reachable(family, table)
    exact = ~fallback & ((bucket == size) | ((bucket == 0) & np.isin(size, captured)))
    log_hit = (flag == 0) & (predicted == 0)
    log_bucket = (said > 0) & (flag != 1) & (said != predicted)
    return _Rows(
        size=size,
        steps=trace.steps[rows].astype(np.float64),
        bucket=np.where(fallback, 0, bucket),
        fallback=fallback,
        exact=exact,
        ceiling=int(captured.max(initial=0)),
        disagrees=log_hit | log_bucket,
    )


def _reachable(family: str, table: DispatchTable) -> I64:
    """Every bucket that a step of this family may use."""
    rule = table.families.get(family)
    if rule is None:
        return np.empty(0, dtype=np.int64)
    second = table.families.get(rule.otherwise) if rule.otherwise else None
    return rule.buckets if second is None else np.union1d(rule.buckets, second.buckets)


def _headline(rows: Mapping[str, _Rows], engine: Engine) -> list[_Rows]:
    first = [rows[family] for family in engine.list_families[engine.list_names[0]] if family in rows]
    return first or list(rows.values())


def _summary(parts: list[_Rows]) -> FamilyAudit:
    steps = sum(float(part.steps.sum()) for part in parts)
    executed = sum(float(part.steps @ np.where(part.bucket > 0, part.bucket, part.size)) for part in parts)
    padding = sum(float(part.steps @ np.where(part.bucket > 0, part.bucket - part.size, 0)) for part in parts)
    exact = sum(float(part.steps[part.exact].sum()) for part in parts) / steps
    fallback = sum(float(part.steps[part.fallback].sum()) for part in parts) / steps
    return FamilyAudit(
        steps=steps,
        exact=exact,
        padded=max(0.0, 1.0 - exact - fallback),
        fallback=fallback,
        ceiling=max(part.ceiling for part in parts),
        above_ceiling=sum(float(part.steps[part.above].sum()) for part in parts) / steps,
        padding_waste=padding / executed,
    )


def _never_used(effective: Effective, rows: Mapping[str, _Rows], families: tuple[str, ...]) -> tuple[int, ...]:
    captured = {size for family in families for size in effective.families.get(family, ())}
    used: set[int] = set()
    for family in families:
        if family in rows:
            part = rows[family]
            used.update(np.where(part.exact, part.size, part.bucket).tolist())
    return tuple(sorted(captured - used))


def _source_warnings(trace: StepTrace, rows: int, engine: Engine, present: Lists, source: str) -> list[AuditWarning]:
    found: list[AuditWarning] = []
    if source == "default":
        sizes = present[engine.list_names[0]]
        extent = f"{len(sizes)} sizes up to {sizes[-1]}" if sizes else "no sizes"
        message = f"The source does not show the capture list; the default of {engine.spec} is assumed ({extent})."
        found.append(AuditWarning("ABSENT_LIST", message))
    if trace.origin == "sample":
        every = f", one step in {trace.sample_every_steps}" if trace.sample_every_steps else ""
        tail = "; too few to say anything about tails or unused sizes" if rows < FEW_SAMPLES else ""
        message = f"The source is a sample of {rows} rows{every}: shares are estimates{tail}."
        found.append(AuditWarning("SAMPLE_ONLY", message))
    return found


def _may_mix_prefill(trace: StepTrace, family: str) -> bool:
    """Whether a step of a decode family may hold a prefill chunk: its size then counts tokens (vLLM)."""
    return family.startswith("decode") and trace.units[trace.families.index(family)] == "tokens"


def _step_warnings(head: list[_Rows], total: FamilyAudit, *, mixed: bool) -> list[AuditWarning]:
    found: list[AuditWarning] = []
    if total.above_ceiling > 0:
        feedback = (
            "The log does not say which of them hold a prefill chunk: those are as large as the token budget makes "
            "them, whatever is captured. The others are decode batches without a graph, which are slow, and slow steps "
            "make bigger batches: a fix will shrink those, so their part of this histogram is not what the tuned "
            "engine will see."
            if mixed
            else "Steps without a graph are slow, and slow steps make bigger batches: a fix will shrink these sizes, "
            "so this histogram is not the one that the tuned engine will see."
        )
        share = f"{total.above_ceiling:.1%} of steps are larger than the largest captured size ({total.ceiling})."
        found.append(AuditWarning("EAGER_FEEDBACK", f"{share} {feedback}"))
    inside = sum(float(part.steps[part.fallback & ~part.above].sum()) for part in head) / total.steps
    if inside > 0:
        message = f"{inside:.1%} of steps ran without a graph although a captured size is large enough."
        found.append(AuditWarning("FALLBACK_BELOW_CEILING", message))
    disagree = sum(float(part.steps[part.disagrees].sum()) for part in head) / total.steps
    if disagree > 0:
        message = (
            f"For {disagree:.1%} of steps the log names another bucket than this list gives; the list or the options "
            "may not be those of the log."
        )
        found.append(AuditWarning("LOG_DISAGREES", message))
    return found


def _lint_warnings(engine: Engine, present: Lists, options: Any, source: str) -> list[AuditWarning]:
    asked: Lists = {} if source == "default" else present
    return [
        AuditWarning(problem.code, problem.message)
        for problem in engine.lint(asked, options)
        if problem.severity != "info"
    ]
