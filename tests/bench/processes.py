"""Processes of their own: started from a module, asked over pipes line by line, and looked at through ``/proc``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).parent.parent.parent
_END_SECONDS = 120.0


class Load(NamedTuple):
    """What a process takes: resident memory, CPU time since its start, threads."""

    resident_mib: float
    cpu_seconds: float
    threads: int


def load(pid: int) -> Load:
    """The load of a process as the kernel counts it."""
    # The text before the closing parenthesis is the program's name, which may have spaces.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(words[11]) + int(words[12])
    pages = int(words[21])
    return Load(
        resident_mib=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        threads=int(words[17]),
    )


class Worker:
    """A process that runs ``serve`` in a module of the benchmarks. It ends at the end of the block."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()

    @property
    def load(self) -> Load:
        """What the process takes now."""
        return load(self._process.pid)

    def ask(self, what: str, **more: Any) -> Any:
        """Send one question and wait for its answer."""
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("a process without pipes")
        self._process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(f"the process has ended without an answer to {what}")
        return json.loads(line)


def serve(answers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer questions from standard input until it ends."""
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answers[question.pop("what")](**question)), flush=True)
