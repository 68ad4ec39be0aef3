"""Recorders: turn a stretch of eager code into something that runs again on the same memory.

On CUDA a stretch is a CUDA graph; on a CPU it is the list of ATen operators that ran, run again one by one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

Replay = Callable[[], None]


class Recorder(ABC):
    """Records stretches one after the other; what one leaves in a tensor the next one finds there."""

    instantiate_s: float = 0.0  # spent so far on making recorded stretches launchable

    @abstractmethod
    def begin(self) -> None:
        """What runs from now on is recorded."""

    @abstractmethod
    def end(self) -> Replay:
        """Stop recording; gives the way to run the stretch again."""

    @abstractmethod
    def now(self, tensor: Tensor) -> Tensor:
        """A recorded tensor as the last replay left it."""

    @abstractmethod
    def abandon(self) -> None:
        """Stop after an error; the device is usable again afterwards. Safe when nothing is being recorded."""


class GraphRecorder(Recorder):
    """CUDA graphs in one pool. Must be used on a side stream."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def end(self) -> Replay:
        assert self._graph is not None
        graph, self._graph = self._graph, None
        graph.capture_end()
        recorded_s = time.perf_counter()
        graph.instantiate()
        self.instantiate_s += time.perf_counter() - recorded_s
        self.graphs.append(graph)
        return graph.replay

    def now(self, tensor: Tensor) -> Tensor:
        return tensor

    def abandon(self) -> None:
        graph, self._graph = self._graph, None
        if graph is None:
            return
        try:
            graph.capture_end()
        except RuntimeError:  # the capture was invalidated; ending it is what brings the stream back
            torch.cuda.synchronize()


class OperatorRecorder(Recorder):
    """Operators as they were dispatched; tensors that a stretch made are looked up by what replaced them."""

    def __init__(self) -> None:
        self._mode: _Recording | None = None
        self._open = ExitStack()
        self._replaced: dict[int, Tensor] = {}
        self._kept: list[Any] = []  # ids stay unique as long as their tensors live

    def begin(self) -> None:
        self._mode = self._open.enter_context(_Recording())

    def end(self) -> Replay:
        assert self._mode is not None
        mode, self._mode = self._mode, None
        self._open.close()
        self._kept.append(mode.calls)

        def replay() -> None:
            for function, args, kwargs, result in mode.calls:
                again = function(*tree_map(self.now, args), **tree_map(self.now, kwargs))
                for old, new in zip(tree_flatten(result)[0], tree_flatten(again)[0], strict=True):
                    if isinstance(old, Tensor):
                        self._replaced[id(old)] = new

        return replay

    def now(self, tensor: Any) -> Any:
        return self._replaced.get(id(tensor), tensor)

    def abandon(self) -> None:
        self._mode = None
        self._open.close()


class _Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result
