"""How far a long read, or other long work, has come, on a terminal's stderr."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
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


class Advancing:
    """A bar of work whose amount is known from the start; it is gone when the work is done.

    Prints nothing unless stderr is a terminal.
    """

    def __init__(self, words: str, total: int) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(words, total=total)
        self._total, self._done, self._shown = total, 0, 0

    def expect(self, amount: int) -> None:
        """So much more is to be done."""
        self._total += amount
        self._bar.update(self._task, total=self._total)

    def __call__(self, amount: int) -> None:
        """So much more of it is done. The bar is moved 200 times at most: moving it takes longer than most parts."""
        self._done += amount
        if self._done - self._shown >= self._total // 200:
            self._bar.update(self._task, completed=self._done)
            self._shown = self._done

    def __enter__(self) -> Advancing:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
