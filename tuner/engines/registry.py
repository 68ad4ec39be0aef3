"""Engines by `name@version`."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from tuner.engines.base import Engine
from tuner.engines.sglang.engine import Sglang
from tuner.engines.small.lightllm import Lightllm
from tuner.engines.small.lmdeploy import Lmdeploy
from tuner.engines.small.mini_sglang import MiniSglang
from tuner.engines.small.nano_vllm import NanoVllm
from tuner.engines.small.tgi import Tgi
from tuner.engines.small.vllm_ascend import VllmAscend
from tuner.engines.small.vllm_gaudi import VllmGaudi
from tuner.engines.tensorrt_llm.engine import TensorrtLlm
from tuner.engines.vllm.engine import Vllm
from workloads.errors import BadUsage

_KINDS = (Vllm, Sglang, TensorrtLlm, Lmdeploy, Tgi, VllmAscend, VllmGaudi, MiniSglang, NanoVllm, Lightllm)
_ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in _KINDS}
_ALIASES = {
    "trtllm": "tensorrt-llm",
    "tensorrt_llm": "tensorrt-llm",
    "trt-llm": "tensorrt-llm",
    "text-generation-inference": "tgi",
    "minisgl": "mini-sglang",
    "nanovllm": "nano-vllm",
    "ascend": "vllm-ascend",
    "gaudi": "vllm-gaudi",
}

ENGINE_NAMES: tuple[str, ...] = tuple(_ENGINES)


def engine(spec: str) -> Engine:
    """The engine behind `name@version`; without a version the latest known one.

    A version that is not known is answered with the nearest known rules, and the engine's `notes` say so.

    Raises:
        BadUsage: an unknown engine, or a version that is none.
    """
    name, at, text = spec.strip().partition("@")
    kind = _ENGINES[_canonical(name)]
    if not at:
        return kind(Version(kind.latest))
    try:
        version = Version(text.strip())
    except InvalidVersion:
        raise BadUsage(f"'{text}' is not a version, write e.g. {kind.name}@{kind.latest}", field="engine") from None
    return kind(version, version_notes(kind, version))


def latest(name: str) -> str:
    """The newest version whose rules are known.

    Raises:
        BadUsage: an unknown engine.
    """
    return _ENGINES[_canonical(name)].latest


def version_notes(kind: type[Engine], version: Version) -> tuple[str, ...]:
    """What is assumed when rules of another version answer for this one."""
    known = Version(kind.latest)
    if version == known or version.release[: len(known.release)] == known.release:
        return ()
    if version > known:
        return (f"{kind.name} {version} is not known here; answered with the rules of {known}",)
    oldest = Version(kind.oldest)
    if version < oldest:
        return (f"{kind.name} {version} is older than {oldest}, the oldest known here; answered with its rules",)
    return (f"{kind.name} {version}: option names and known differences of that version, otherwise rules of {known}",)


def _canonical(name: str) -> str:
    plain = name.strip().lower()
    plain = _ALIASES.get(plain, plain)
    if plain not in _ENGINES:
        raise BadUsage(f"'{name}' is not a known engine, choose one of {', '.join(ENGINE_NAMES)}", field="engine")
    return plain
