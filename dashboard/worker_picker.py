"""On which device a measurement may run."""

from __future__ import annotations

import re
from dataclasses import dataclass

import streamlit as st

from dashboard import names, text
from dashboard.state import api, choose, chosen, pick, real
from services.contract.worker_wish import WorkerWish

_DEVICES = {"auto": "A GPU, where there is one", "cuda": "A GPU and nothing else", "cpu": "The CPU"}
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """`problem` says what cannot be asked for; it has been said at the field."""

    wish: WorkerWish
    problem: str | None = None


def pick_worker() -> WorkerChoice:
    """Device, and of a GPU its type and least memory."""
    device = pick(st.container(), "Measured on", list(_DEVICES), "device", show=_DEVICES.__getitem__)
    _say_known(device)
    if device == "cpu":
        return WorkerChoice(WorkerWish(device="cpu"))
    with st.expander("Only some GPUs", expanded=bool(chosen("gpu") or chosen("gpu_gib"))):
        left, right = st.columns(2)
        typed = left.text_input(
            "GPU type", chosen("gpu") or "", key="gpu", placeholder="any", help="As Ray calls it, such as H200 or A100."
        ).strip()
        choose("gpu", typed)
        memory_gib = real(right, "Least memory, GiB", "gpu_gib", 1.0, 100_000.0, None, placeholder="any")
    if typed and not _TYPE.fullmatch(typed):
        problem = f"'{typed}' is no GPU type; one is a single word such as H200."
        st.error(problem, icon=":material/error:")
        return WorkerChoice(WorkerWish(), problem)
    return WorkerChoice(WorkerWish.model_validate({"device": device, "gpu": typed or None, "memory_gib": memory_gib}))


def worker_words(wish: WorkerWish) -> str:
    """`a GPU of type H200 with at least 100 GiB`"""
    if wish.device == "cpu":
        return "the CPU"
    of_type = f" of type {wish.gpu}" if wish.gpu else ""
    memory = f" with at least {text.digits(wish.memory_gib)}{text.NBSP}GiB" if wish.memory_gib else ""
    other = " where there is one" if wish.device == "auto" and not (of_type or memory) else ""
    return f"a GPU{of_type}{memory}{other}"


def _say_known(device: str) -> None:
    seen = _devices()
    known = f"Seen so far: {text.joined(seen)}." if seen else "No worker has been seen yet; a measurement starts one."
    only_cpu = device == "cpu" or (bool(seen) and all(name == "CPU" for name in seen))
    st.caption(known + (" Figures of a CPU say nothing binding about a GPU." if only_cpu else ""))


def _devices() -> list[str]:
    """Names of the devices that could measure, each once."""
    usable = [names.device_name(worker.device) for worker in api().workers().items if worker.state != "refused"]
    return list(dict.fromkeys(usable))
