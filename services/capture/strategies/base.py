"""How a size is run: one interface for every strategy.

A strategy makes sizes runnable (`prepare`), runs them on the program's static buffers (`run`), and lets go of
everything it holds (`close`). It never touches inputs or outputs: the owner of the program loads and reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from services.capture.readings import Preparation
from workloads.models.attention import Attention

Tensors = tuple[Tensor, ...]
Around = Callable[[Attention], Attention]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a program between two cuts: takes the tensors that the part before gave, gives those for the next.

    Attributes:
        eager: not to be captured.
    """

    run: Callable[..., Tensors]
    eager: bool


class Program(Protocol):
    """A computation on static buffers."""

    def arguments(self, size: int) -> tuple[Tensor, ...]:
        """Every tensor that changes between runs; the same addresses at every call."""
        ...

    def compute(self, *arguments: Tensor, around: Around | None = None) -> None:
        """Run the forward at the size of these arguments; results are left in them.

        Args:
            around: wraps the attention that the forward calls.
        """
        ...

    def plain(self, *arguments: Tensor, around: Around | None = None) -> None:
        """`compute` without inference mode, which compilers do not take."""
        ...

    def pieces(self, *arguments: Tensor) -> list[Piece]:
        """The same forward, cut before and after every attention call."""
        ...


class Strategy(ABC):
    """One way to run a program. Not thread-safe; sizes are prepared largest first."""

    name: ClassVar[str]

    def __init__(self, program: Program) -> None:
        self.program = program

    @abstractmethod
    def prepare(self, size: int) -> Preparation:
        """Make a size runnable; afterwards the device is idle and one run has happened.

        Raises:
            RuntimeError: as torch raises it (out of memory, refused capture); other sizes stay runnable.
        """

    @abstractmethod
    def run(self, size: int) -> None:
        """Run a prepared size on what the static buffers hold now.

        Raises:
            KeyError: the size was not prepared.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what was prepared; `run` is an error afterwards. Safe to call twice."""
