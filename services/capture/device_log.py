"""Clocks, power and throttling while measuring, as NVML reports them."""

from __future__ import annotations

from typing import Any

import torch

from services.capture.readings import DeviceSample, Phase

# Bits of nvmlClocksEventReasons; idle and application-clock bits are no throttling.
_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


class DeviceLog:
    """Samples of one device; silent where there is no NVIDIA GPU or no NVML."""

    def __init__(self, device: torch.device) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self.samples: list[DeviceSample] = []
        if device.type != "cuda":
            return
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
            self._nvml = pynvml
        except pynvml.NVMLError:  # inside some containers NVML is absent though CUDA works
            self._nvml = None

    def driver(self) -> str | None:
        """Version of the driver, None where unknown."""
        if self._nvml is None:
            return None
        version = self._nvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)

    def sample(self, at: Phase, ended: Phase | None) -> None:
        """Read the counters where one phase goes over into another."""
        nvml, handle = self._nvml, self._handle
        if nvml is None:
            return
        try:
            reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
            self.samples.append(
                DeviceSample(
                    at=at,
                    ended=ended,
                    sm_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
                    memory_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
                    power_w=nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                    temperature_c=int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
                    throttle_reasons=tuple(name for bit, name in _REASONS.items() if reasons & bit),
                )
            )
        except nvml.NVMLError:  # a counter that this card or container does not offer
            return

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None
