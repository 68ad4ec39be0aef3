"""The API as typed calls. Every failure becomes `ApiProblem`, whose text is one sentence for a person."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from services.contract.audit import AuditModel
from services.contract.coverage import CoverageModel, FrontModel, ScoreRequest, SolveRequest
from services.contract.engine import EnginesModel
from services.contract.error import ErrorModel
from services.contract.export import ExportModel
from services.contract.histogram import HistogramModel
from services.contract.kv import KvModel, KvRequest
from services.contract.lint import LintModel
from services.contract.load import LoadCurvesModel, LoadRequest
from services.contract.mapping import MappingModel, MappingRequest
from services.contract.measurement import MeasurementCreate, MeasurementModel, MeasurementsModel
from services.contract.model import ModelsModel
from services.contract.profile import ProfileModel, ProfilesModel
from services.contract.recommendation import RecommendationModel
from services.contract.schedule import CronTimesModel, ScheduleCreate, ScheduleModel, SchedulesModel
from services.contract.shape import ShapeModel
from services.contract.sweep import SweepCreate, SweepModel, SweepsModel
from services.contract.trace import TraceChange, TraceModel, TracesModel
from services.contract.trial import ImportanceModel, TrialsModel
from services.contract.worker import WorkersModel

DEFAULT_URL = "http://127.0.0.1:8321"
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# An upload is parsed before it is answered; the API's own limit is two minutes.
_UPLOAD_TIMEOUT_S = 180.0

M = TypeVar("M", bound=BaseModel)


class Content(Protocol):
    """What is sent of a file: a part at a time, from its beginning."""

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


class ApiProblem(Exception):
    """The API refused, or did not answer.

    Attributes:
        problem: what the API said, None where it said nothing that we understand.
    """

    def __init__(self, sentence: str, problem: ErrorModel | None = None) -> None:
        super().__init__(sentence)
        self.problem = problem


class Client:
    """One connection pool to one API; safe to share between page runs."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None, token: str = "") -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", timeout=_TIMEOUT, transport=transport, headers=headers)

    @classmethod
    def from_environment(cls) -> Self:
        """The API at CAPTUNE_API_URL, with the token CAPTUNE_API_TOKEN where one is set."""
        return cls(os.environ.get("CAPTUNE_API_URL") or DEFAULT_URL, token=os.environ.get("CAPTUNE_API_TOKEN") or "")

    def close(self) -> None:
        self._http.close()

    def upload_trace(self, name: str, content: Content, mapping: MappingRequest | None = None) -> TraceModel:
        """Store a trace, read as `mapping` says; a file that is not understood is refused whole."""
        content.seek(0)
        fields = {"mapping": mapping.model_dump_json(exclude_none=True)} if mapping is not None else {}
        files = {"file": (name, content)}
        return _parsed(self._send("POST", "/traces", files=files, data=fields, timeout=_UPLOAD_TIMEOUT_S), TraceModel)

    def propose_mapping(self, name: str, content: Content) -> MappingModel:
        """What the columns of a file likely mean; nothing of it is kept."""
        content.seek(0)
        answer = self._send("POST", "/traces/mapping", files={"file": (name, content)}, timeout=_UPLOAD_TIMEOUT_S)
        return _parsed(answer, MappingModel)

    def traces(self, after: str | None = None, limit: int = 100, tag: str | None = None) -> TracesModel:
        return self._get("/traces", TracesModel, {"after": after, "limit": limit, "tag": tag})

    def trace(self, trace_id: str) -> TraceModel:
        return self._get(f"/traces/{trace_id}", TraceModel)

    def delete_trace(self, trace_id: str) -> None:
        self._send("DELETE", f"/traces/{trace_id}")

    def change_trace(self, trace_id: str, change: TraceChange) -> TraceModel:
        body = change.model_dump(mode="json", exclude_none=True)
        return _parsed(self._send("PATCH", f"/traces/{trace_id}", json=body), TraceModel)

    def shape(self, trace_id: str, query: Mapping[str, Any]) -> ShapeModel:
        return self._get(f"/traces/{trace_id}/shape", ShapeModel, query)

    def score(self, request: ScoreRequest) -> CoverageModel:
        return _parsed(self._send("POST", "/score", json=request.model_dump(mode="json")), CoverageModel)

    def solve(self, request: SolveRequest) -> FrontModel:
        return _parsed(self._send("POST", "/solve", json=request.model_dump(mode="json")), FrontModel)

    def load_curves(self, request: LoadRequest) -> LoadCurvesModel:
        return _parsed(self._send("POST", "/load-curves", json=request.model_dump(mode="json")), LoadCurvesModel)

    def kv_cache(self, request: KvRequest) -> KvModel:
        return _parsed(self._send("POST", "/kv-cache", json=request.model_dump(mode="json")), KvModel)

    def histogram(self, trace_id: str, query: Mapping[str, Any]) -> HistogramModel:
        return self._get(f"/traces/{trace_id}/histogram", HistogramModel, query)

    def audit(self, trace_id: str, query: Mapping[str, Any]) -> AuditModel:
        return self._get(f"/traces/{trace_id}/audit", AuditModel, query)

    def profiles(self) -> ProfilesModel:
        return self._get("/profiles", ProfilesModel)

    def profile(self, ref: str) -> ProfileModel:
        return self._get(f"/profiles/{ref}", ProfileModel)

    def engines(self) -> EnginesModel:
        return self._get("/engines", EnginesModel)

    def start_sweep(self, sweep: SweepCreate) -> SweepModel:
        return _parsed(self._send("POST", "/sweeps", json=sweep.model_dump(mode="json")), SweepModel)

    def sweeps(
        self, after: str | None = None, limit: int = 50, *, trace_id: str | None = None, state: str | None = None
    ) -> SweepsModel:
        query = {"after": after, "limit": limit, "trace_id": trace_id, "state": state}
        return self._get("/sweeps", SweepsModel, query)

    def sweep(self, sweep_id: str) -> SweepModel:
        return self._get(f"/sweeps/{sweep_id}", SweepModel)

    def trials(self, sweep_id: str, after: int = -1, limit: int = 500) -> TrialsModel:
        return self._get(f"/sweeps/{sweep_id}/trials", TrialsModel, {"after": after, "limit": limit})

    def importance(self, sweep_id: str) -> ImportanceModel:
        return self._get(f"/sweeps/{sweep_id}/importance", ImportanceModel)

    def resume_sweep(self, sweep_id: str) -> SweepModel:
        return _parsed(self._send("POST", f"/sweeps/{sweep_id}/resume"), SweepModel)

    def workers(self) -> WorkersModel:
        return self._get("/workers", WorkersModel)

    def schedules(self) -> SchedulesModel:
        return self._get("/schedules", SchedulesModel, {"limit": 100})

    def start_schedule(self, schedule: ScheduleCreate) -> ScheduleModel:
        return _parsed(self._send("POST", "/schedules", json=schedule.model_dump(mode="json")), ScheduleModel)

    def delete_schedule(self, schedule_id: str) -> None:
        self._send("DELETE", f"/schedules/{schedule_id}")

    def cron_times(self, cron: str) -> CronTimesModel:
        return self._get("/cron-times", CronTimesModel, {"cron": cron})

    def models(self) -> ModelsModel:
        return self._get("/models", ModelsModel)

    def measure_profile(self, asked: MeasurementCreate) -> MeasurementModel:
        return _parsed(self._send("POST", "/profiles/measure", json=asked.model_dump(mode="json")), MeasurementModel)

    def measurements(self, limit: int = 20) -> MeasurementsModel:
        return self._get("/measurements", MeasurementsModel, {"limit": limit})

    def cancel_measurement(self, measurement_id: str) -> MeasurementModel:
        return _parsed(self._send("POST", f"/measurements/{measurement_id}/cancel"), MeasurementModel)

    def cancel_sweep(self, sweep_id: str) -> SweepModel:
        return _parsed(self._send("POST", f"/sweeps/{sweep_id}/cancel"), SweepModel)

    def recommendation(self, recommendation_id: str) -> RecommendationModel:
        return self._get(f"/recommendations/{recommendation_id}", RecommendationModel)

    def report(self, recommendation_id: str, form: str) -> bytes:
        """The report of a result, `html` or `markdown`."""
        return self._send("GET", f"/recommendations/{recommendation_id}/report", params={"format": form}).content

    def export(self, recommendation_id: str, engine: str, options: Mapping[str, str] | None = None) -> ExportModel:
        query = {"engine": engine, "set": [f"{key}={value}" for key, value in (options or {}).items()] or None}
        return self._get(f"/recommendations/{recommendation_id}/export", ExportModel, query)

    def export_lists(
        self, engine: str, lists: Mapping[str, tuple[int, ...]], options: Mapping[str, str], running: str | None = None
    ) -> ExportModel:
        """`running` is what runs today, as a command line or configuration; the answer has the difference to it."""
        body = {"engine": engine, "lists": _plain(lists), "options": dict(options), "running": running}
        return _parsed(self._send("POST", "/export", json=body), ExportModel)

    def lint(self, engine: str, lists: Mapping[str, tuple[int, ...]] | None, options: Mapping[str, str]) -> LintModel:
        """What an engine makes of `lists`; None asks for its default."""
        body: dict[str, Any] = {"engine": engine, "options": dict(options)}
        body |= {"default": True} if lists is None else {"lists": _plain(lists)}
        return _parsed(self._send("POST", "/lint", json=body), LintModel)

    def _get(self, path: str, model: type[M], query: Mapping[str, Any] | None = None) -> M:
        given = {key: value for key, value in (query or {}).items() if value is not None and value != ""}
        return _parsed(self._send("GET", path, params=given), model)

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise ApiProblem(f"The API at {self.url} took too long to answer; try again.") from None
        except httpx.HTTPError:
            raise ApiProblem(f"The API at {self.url} does not answer; start it with `captune serve`.") from None
        if answer.is_error:
            raise _problem_of(answer)
        return answer


def _plain(lists: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: list(sizes) for name, sizes in lists.items()}


def _problem_of(answer: httpx.Response) -> ApiProblem:
    try:
        problem = ErrorModel.model_validate_json(answer.content)
    except ValidationError:
        return ApiProblem(f"The API answered with status {answer.status_code} and no reason.")
    detail = problem.detail.strip()
    if problem.file is None and problem.field is None:  # a name keeps its spelling
        detail = detail[:1].upper() + detail[1:]
    return ApiProblem(detail, problem)


def _parsed(answer: httpx.Response, model: type[M]) -> M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError:
        raise ApiProblem(
            f"The API's answer to {answer.request.url.path} is not of this dashboard's version; update both together."
        ) from None
