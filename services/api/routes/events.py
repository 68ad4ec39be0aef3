"""A sweep's progress as server-sent events, beside polling with `after=`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from pydantic import Field
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.responses import StreamingResponse

from db.records import ENDED
from db.store import Store
from services.api.context import InContext
from services.contract.plain import Request
from services.contract.sweep import SweepModel
from services.views import sweep_view, trial_view
from workloads.errors import NotFound, Unavailable

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

POLL_S = 0.5
SILENCE_S = 15.0
"""A comment is sent after so much silence, so that proxies keep the connection."""
MOST_STREAMS = 200


class EventsQuery(Request):
    """Trials with a number above `after`; the header Last-Event-ID, which browsers send by themselves, goes before."""

    after: Annotated[int, Field(ge=-1, le=2**31 - 1)] = -1


@router.get(
    "/{sweep_id}/events",
    response_class=StreamingResponse,
    responses={200: {"description": "The stream", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    context: InContext,
    sweep_id: str,
    query: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """`trial` for every recorded trial (its number is the event's id), `sweep` for every change, `end` at the end."""
    await to_thread.run_sync(context.store.sweeps.get, sweep_id, "tune")
    if context.streams >= MOST_STREAMS:
        raise Unavailable("too many event streams are open; poll the trials with after= instead")
    known = (last_event_id or "").isascii() and (last_event_id or "").isdigit()
    after = int(last_event_id or 0) if known else query.after

    async def counted() -> AsyncIterator[str]:
        context.streams += 1
        try:
            async for event in _events(context.store, sweep_id, after):
                yield event
        finally:
            context.streams -= 1

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(counted(), media_type="text/event-stream", headers=headers)


async def _events(store: Store, sweep_id: str, after: int) -> AsyncIterator[str]:
    shown: SweepModel | None = None
    spoke_at_s = time.monotonic()
    while True:
        try:
            sweep, texts, after = await to_thread.run_sync(_look, store, sweep_id, after)
        except (OperationalError, InterfaceError):
            yield ": the database does not answer now\n\n"
            await asyncio.sleep(2 * POLL_S)
            continue
        except NotFound:
            yield _event("end", '{"state": "deleted"}')
            return
        if sweep != shown:
            shown = sweep
            texts.append(_event("sweep", sweep.model_dump_json()))
        for text in texts:
            yield text
        if sweep.state in ENDED:
            yield _event("end", f'{{"state": "{sweep.state}"}}')
            return
        if texts:
            spoke_at_s = time.monotonic()
        elif time.monotonic() - spoke_at_s > SILENCE_S:
            spoke_at_s = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)


def _look(store: Store, sweep_id: str, after: int) -> tuple[SweepModel, list[str], int]:
    stored = store.sweeps.get(sweep_id)  # before its trials: what ended has no trials to come
    results = store.recommendations.ids_of([sweep_id])
    texts = []
    while trials := store.sweeps.trials(sweep_id, after):
        after = trials[-1].number
        texts += [_event("trial", trial_view(trial).model_dump_json(), trial.number) for trial in trials]
    return sweep_view(stored, results.get(sweep_id)), texts, after


def _event(kind: str, data: str, number: int | None = None) -> str:
    identity = "" if number is None else f"id: {number}\n"
    return f"{identity}event: {kind}\ndata: {data}\n\n"
