"""`captune doctor`: what this machine has, what is missing and how to get it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from rich.console import Console
from rich.text import Text

from db.store import Store
from services.cli.context import output
from services.cli.options import Json
from services.cli.output import table
from services.cli.stored import without_password
from services.settings import Settings
from workloads.errors import CaptuneError

_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt_llm", "lmdeploy": "lmdeploy"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `hint` says how to get what is missing."""

    what: str
    found: str | None
    hint: str | None = None


def doctor(as_json: Json = False) -> None:
    """GPU, driver, torch, Ray, database and engines of this machine."""
    findings = [check() for check in _CHECKS]
    document = {
        "python": platform.python_version(),
        "findings": [asdict(finding) for finding in findings],
        "missing": [finding.what for finding in findings if finding.found is None],
    }
    output(as_json).emit(document, lambda console: _draw(console, findings))


def _draw(console: Console, findings: list[Finding]) -> None:
    rows = [(f.what, f.found or Text("missing", style="yellow"), f.hint or "") for f in findings]
    console.print(table("", ("what", "found", "how to get it"), rows))


def _gpu() -> Finding:
    if find_spec("pynvml") is None:
        return Finding("GPU", None, "pip install 'captune[worker]' to look for one")
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Finding("GPU", None, f"no NVIDIA driver answers ({error}); shipped profiles work without a GPU")
    try:
        names = []
        for i in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(i)
            memory_gib = pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
            names.append(f"{pynvml.nvmlDeviceGetName(handle)} ({memory_gib:.0f} GiB)")
        driver = pynvml.nvmlSystemGetDriverVersion()
    finally:
        pynvml.nvmlShutdown()
    return Finding("GPU", f"{', '.join(names)}; driver {driver}")


def _package(what: str, package: str, extra: str) -> Callable[[], Finding]:
    def check() -> Finding:
        try:
            return Finding(what, version(package))
        except PackageNotFoundError:
            return Finding(what, None, f"pip install 'captune[{extra}]'")

    return check


def _cuda() -> Finding:
    if find_spec("torch") is None:
        return Finding("CUDA in torch", None, "pip install 'captune[worker]'")
    import torch

    if torch.cuda.is_available():
        return Finding("CUDA in torch", f"{torch.version.cuda}, {torch.cuda.device_count()} device(s)")
    return Finding("CUDA in torch", None, "measuring runs on the CPU and says so; recorded GPU profiles still apply")


def _conditional_nodes() -> Finding:
    """Whether torch captures `torch.cond` as a conditional node; a branch on data ends a capture where it does not."""
    if find_spec("torch") is None:
        return Finding("torch.cond in a graph", None, "pip install 'captune[worker]'")
    import torch

    graph = getattr(torch._C, "_CUDAGraph", None)
    if graph is not None and any("if_node" in name or "conditional" in name for name in dir(graph)):
        return Finding("torch.cond in a graph", "conditional nodes")
    return Finding(
        "torch.cond in a graph", None, f"torch {torch.__version__} captures no conditional nodes; use breakable"
    )


def _database() -> Finding:
    settings = Settings.from_environment()
    try:
        with Store(settings.database_url, settings.data_dir):
            return Finding("database", without_password(settings.database_url))
    except CaptuneError as error:
        return Finding("database", None, str(error))


def _engines() -> Finding:
    found = []
    for name, package in _ENGINES.items():
        try:
            found.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            continue
    hint = "none installed here; exports and lint need none"
    return Finding("serving engines", ", ".join(found) or None, None if found else hint)


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()} on {sys.platform}")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _gpu,
    _package("torch", "torch", "worker"),
    _cuda,
    _conditional_nodes,
    _package("Ray", "ray", "worker"),
    _package("flashinfer", "flashinfer-python", "gpu"),
    _package("API (fastapi)", "fastapi", "server"),
    _package("dashboard (streamlit)", "streamlit", "dashboard"),
    _database,
    _engines,
)
