"""Background tasks of a process, from a start to a stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Runnable(ABC):
    """Begins with ``start`` and ends with ``stop``; in a ``with`` statement it runs as long as the statement does."""

    @abstractmethod
    def start(self) -> object:
        """Begins."""

    @abstractmethod
    def stop(self) -> object:
        """Ends."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
