"""Traces: upload, list, look at, delete."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, File, Form, Query, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from db.store import Store
from services.api.context import Context, InContext, InOwner, InStore, PageQuery
from services.api.keys import IdempotencyKey, key_of, mark
from services.api.uploads import check_form, file_name, mapping_of, propose_for, read_upload
from services.api.workload import WorkloadQuery, choose_engine, given_lists, observe_query
from services.contract.audit import AuditModel
from services.contract.histogram import HistogramModel
from services.contract.mapping import MappingModel, MappingRequest
from services.contract.trace import Tag, TraceChange, TraceModel, TracesModel, summary_of
from services.views import trace_view
from tuner.audit import audit, engine_of, options_of
from tuner.engines.options import split_pairs
from tuner.engines.registry import engine as find_engine
from workloads.traces.records import StepTrace, Traffic

router = APIRouter(prefix="/traces", tags=["traces"])

InWorkload = Annotated[WorkloadQuery, Query()]


@router.post("", status_code=201)
async def upload(
    context: InContext,
    owner: InOwner,
    request: Request,
    response: Response,
    file: Annotated[UploadFile, File(description="A request trace, an engine log or a size,count histogram")],
    name: Annotated[str | None, Form(max_length=300)] = None,
    mapping: Annotated[str | None, Form(max_length=10_000, description="A MappingRequest as JSON text")] = None,
    key: IdempotencyKey = None,
) -> TraceModel:
    """Store a recorded file. Only its normalised columns are kept; the same columns twice are the same trace.

    A table whose columns or time unit are not known is refused with a question: `POST /traces/mapping` proposes the
    answer, and `mapping` gives it.
    """
    await check_form(request, ("file", "name", "mapping"))
    given = file_name(file.filename)
    shown, reading = name or given, mapping_of(mapping)
    trace = await to_thread.run_sync(_store_upload, context, file, shown, reading, limiter=context.reads)
    asked = key_of(key, owner, "trace", {"id": trace.id})
    if asked is not None and trace.id is not None:
        mark(response, await to_thread.run_sync(context.store.idempotency.remember, asked, trace.id))
    return trace


def _store_upload(context: Context, file: UploadFile, name: str, reading: MappingRequest) -> TraceModel:
    read = read_upload(context.settings, file, name, reading)
    return trace_view(context.store.traces.add(read, name), summary_of(read))


@router.post("/mapping")
async def propose_mapping(
    context: InContext,
    request: Request,
    file: Annotated[UploadFile, File(description="A request file; nothing of it is kept")],
) -> MappingModel:
    """What the columns of a file likely mean, and what is left open."""
    await check_form(request, ("file",))
    return await to_thread.run_sync(propose_for, context.settings, file, limiter=context.reads)


class TracesQuery(PageQuery):
    """A page, of the traces with one tag where `tag` names it."""

    tag: Tag | None = None


@router.get("")
def list_traces(store: InStore, query: Annotated[TracesQuery, Query()]) -> TracesModel:
    """Stored traces, newest first."""
    found = store.traces.page(query.limit, query.after, tag=query.tag)
    return TracesModel(items=tuple(trace_view(trace) for trace in found.items), next_after=found.next_after)


@router.get("/{trace_id}")
def show(store: InStore, trace_id: str) -> TraceModel:
    """One trace with its summary."""
    return trace_view(store.traces.get(trace_id), summary_of(store.traces.load(trace_id)))


@router.patch("/{trace_id}")
def change(store: InStore, trace_id: str, wanted: TraceChange) -> TraceModel:
    """Give a trace another name or other tags; its content, and so its id, stays."""
    return trace_view(store.traces.change(trace_id, name=wanted.name, tags=wanted.tags))


@router.delete("/{trace_id}", status_code=204)
def delete(store: InStore, trace_id: str) -> None:
    """Forget a trace that no queued or running sweep needs."""
    store.traces.delete(trace_id)


@router.get("/{trace_id}/histogram")
def histogram(store: InStore, trace_id: str, query: InWorkload) -> HistogramModel:
    """Steps per size; a request trace is simulated with the step times of a profile."""
    read = store.traces.load(trace_id)
    choice = choose_engine(query.engine, query.set) if query.engine else None
    lists = given_lists(query.sizes, choice)
    observed, timed_by = observe_query(store, read, query, choice, lists)
    if lists is None and choice is not None:
        lists = choice.engine.default_lists(choice.options)
    return HistogramModel.of(
        store.traces.get(trace_id).name,
        observed.histograms,
        observed.report,
        step_times_from=timed_by,
        lists=lists,
        notes=(*read.notes, *observed.notes),
    )


@router.get("/{trace_id}/audit")
def audit_trace(store: InStore, trace_id: str, query: InWorkload) -> AuditModel:
    """How steps meet the list that runs today: the one in the log, else `sizes`, else the engine's default."""
    read = store.traces.load(trace_id)
    notes = list(read.notes)
    seen = engine_of(read.observation)
    chosen = find_engine(query.engine or seen or "vllm")
    if query.engine is None and seen is None:
        notes.append(f"the source does not name its engine: judged by the rules of {chosen.spec}")
    options = options_of(read.observation, chosen, split_pairs(query.set, field="set"))
    steps, timed_by = _steps(store, trace_id, query, chosen.spec)
    if timed_by is not None:
        notes.append(f"requests were simulated with the step times of profile '{timed_by}'")
    lists = given_lists(query.sizes, choose_engine(chosen.spec, query.set)) if query.sizes else None
    return AuditModel.from_domain(audit(steps, read.observation, chosen, options, lists), notes=tuple(notes))


def _steps(store: Store, trace_id: str, query: WorkloadQuery, spec: str) -> tuple[Traffic, str | None]:
    read = store.traces.load(trace_id)
    if isinstance(read.traffic, StepTrace):
        return read.traffic, None
    choice = choose_engine(spec, query.set)
    observed, timed_by = observe_query(store, read, query, choice, given_lists(query.sizes, choice))
    return observed.steps, timed_by
