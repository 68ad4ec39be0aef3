"""The probe for an engine and a way of reaching it."""

from __future__ import annotations

from services.capture.probes.base import Probe, Way
from services.capture.probes.offline import OfflineProbe
from services.capture.probes.sglang_server import SglangServer
from services.capture.probes.vllm_server import VllmServer
from workloads.errors import BadUsage

_PROBES: dict[tuple[str, Way], type[Probe]] = {
    ("vllm", "server"): VllmServer,
    ("vllm", "offline"): OfflineProbe,
    ("sglang", "server"): SglangServer,
    ("sglang", "offline"): OfflineProbe,
}


def choose_probe(engine: str, way: Way) -> Probe:
    """The probe.

    Raises:
        BadUsage: there is none for this engine.
    """
    if (engine, way) not in _PROBES:
        known = sorted(f"{name} as {kind}" for name, kind in _PROBES)
        raise BadUsage(f"no probe starts {engine} as {way}; there is {', '.join(known)}", field="--engine")
    return _PROBES[engine, way]()
