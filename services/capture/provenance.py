"""Where a measurement comes from: device, model and software as plain values."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from services.capture.device_log import DeviceLog
from workloads.models.config import weights_folder
from workloads.models.decoder import Decoder


def device_facts(device: torch.device, log: DeviceLog) -> Mapping[str, Any]:
    """Name and size of the device; a CPU is called `cpu` and never anything else."""
    if device.type != "cuda":
        return {"name": "cpu", "kind": "cpu", "processor": _processor(), "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "kind": "cuda",
        "memory_mib": properties.total_memory // 2**20,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "driver": log.driver(),
        "processor": _processor(),  # what surrounds a replay, and all of an eager step, goes at its pace
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def model_facts(model: str, decoder: Decoder) -> Mapping[str, Any]:
    """The shape that was run and whether its weights were real."""
    config = decoder.config
    return {
        "name": config.name,
        "architecture": config.architecture,
        "dtype": str(decoder.dtype).removeprefix("torch."),
        "parameters": config.parameters,
        "layers": config.layers,
        "hidden_size": config.hidden_size,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "vocab_size": config.vocab_size,
        "kv_bytes_per_token": config.kv_values_per_token * decoder.dtype.itemsize,
        "weights": "random" if weights_folder(model) is None else "loaded",
    }


def software_facts(device: torch.device, log: DeviceLog, attention: str) -> Mapping[str, Any]:
    """Versions of everything between the model and the silicon."""
    cuda = device.type == "cuda"
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda if cuda else None,
        "driver": log.driver(),
        "python": platform.python_version(),
        "engine": None,
        "attention": attention,
    }
