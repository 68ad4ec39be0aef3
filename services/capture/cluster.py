"""Reach Ray: the cluster that RAY_ADDRESS names, or a local one that ends with the job.

Local Ray listens on every interface, so it always runs with token authentication and a random token. Ray reads the
mode when it is imported; hence nothing here imports Ray before the environment is set.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workloads.errors import MissingExtra, Unavailable

ROOT = Path(__file__).resolve().parents[2]

LEFT_OUT = ("**/__pycache__/", "/api/", "/cli/", "/contract/", "/record/", "/sweeps/", "/samples/")
"""What of our packages no worker imports (patterns as in .gitignore, from each package's folder)."""


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """The `ray` module, connected. A connection that was there before stays afterwards.

    Raises:
        Unavailable: the cluster cannot be reached, or Ray was imported too early to be made safe.
        MissingExtra: Ray is not installed.
    """
    remote = bool(os.environ.get("RAY_ADDRESS"))
    if not remote:
        _secure_environment()
    try:
        import ray
    except ImportError:
        raise MissingExtra.of("worker", "measuring in fresh processes") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        with tempfile.TemporaryDirectory(prefix="captune-job-") as empty:
            options = _remote_options(empty) if remote else _local_options()
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (RuntimeError, ConnectionError, ValueError) as error:
        ray.shutdown()  # a refused connection leaves half of one behind
        raise Unavailable(_reason(str(error)), field="RAY_ADDRESS" if remote else None) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _reason(message: str) -> str:
    """One sentence out of what Ray says on several lines."""
    found = re.search(
        r"Version mismatch.*?Ray: (\S+)\s+Python: (\S+).*?Ray: (\S+)\s+Python: (\S+)", message, flags=re.DOTALL
    )
    if found is None:
        return f"Ray cannot be reached: {' '.join(message.split())}"
    ray, python, our_ray, our_python = found.groups()
    return (
        f"the cluster runs Ray {ray} on Python {python}, and this process Ray {our_ray} on Python {our_python}; "
        "install the same releases"
    )


def _remote_options(empty: str) -> dict[str, Any]:
    """Our code goes with the job: nodes need torch, numpy and pydantic, and no copy of this repository.

    Without a working folder of the job Ray would put this process's own folder first on the path of every worker, and
    a node that has something there (an image of another release, say) would run that: hence an empty one.
    """
    packages = [str(ROOT / name) for name in ("workloads", "tuner", "services")]
    environment = {"working_dir": empty, "py_modules": packages, "excludes": list(LEFT_OUT)}
    return {"address": os.environ["RAY_ADDRESS"], "runtime_env": environment}


def _local_options() -> dict[str, Any]:
    """A cluster of our own, not one that somebody else started on this machine and whose token we lack.

    Ray counts GPUs through NVML, which some containers lack though CUDA works there: count device nodes then.
    """
    gpus = len([node for node in Path("/dev").glob("nvidia*") if node.name.removeprefix("nvidia").isdigit()])
    counted = {} if not gpus or "CUDA_VISIBLE_DEVICES" in os.environ else {"num_gpus": gpus}
    return {"address": "local", "include_dashboard": False, **counted}


def _secure_environment() -> None:
    """Token authentication, fast notice of dead nodes, and our modules importable in the workers."""
    if "ray" in sys.modules and os.environ.get("RAY_AUTH_MODE") != "token":
        raise Unavailable("Ray was imported before its authentication was set; set RAY_AUTH_MODE=token at the start")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, paths)])
