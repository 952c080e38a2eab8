"""How far a long read has come, on a terminal's stderr."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status


class Counting:
    """A status line with the number of objects per kind."""

    def __init__(self) -> None:
        self._status = Status("asking the API server", console=Console(stderr=True))
        self._counts: dict[str, int] = {}

    def __call__(self, kind: str, count: int) -> None:
        """So many more of a kind."""
        self._counts[kind] = self._counts.get(kind, 0) + count
        self._status.update(", ".join(f"{number:,} {name}s" for name, number in self._counts.items()))

    def __enter__(self) -> Counting:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._status.stop()
