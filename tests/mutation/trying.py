"""Runs tests against changed code, each change in a forked process.

The tests are collected once. Most changes are within a function: there the child exchanges the function's code object,
so that a change costs only the tests that reach its line. What is evaluated on import runs in a process of its own.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.importing import MUTATION
from tests.mutation.operators import Mutation, mutated
from tests.mutation.rooms import ROOT, Room

SECONDS: Final = 5
"""The processor time that a test may take besides twice what it takes without a change; a change that makes it take
longer has been noticed."""

PATIENCE: Final = 1200.0
"""How long they may take on the clock, for a change that makes them wait; a busy machine does not indicate a change."""

FLAGS: Final = ("-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "-x")

_KILLED: Final = 1


class Trial:
    """A pytest plugin that tries changes instead of running tests once.

    ``survivors`` and ``tried`` are there afterwards; ``broken`` are tests that fail without any change.
    """

    def __init__(self, room: Room, mutations: Sequence[Mutation], *, jobs: int) -> None:
        self._room = room
        self._mutations = mutations
        self._jobs = jobs
        self.survivors: list[tuple[Mutation, str]] = []
        self.tried = 0
        self.broken: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """See pytest."""
        items = {item.nodeid: item for item in session.items}
        reached, seconds, self.broken = _reached(list(items.values()), self._room)
        if self.broken:
            return True
        functions = _functions({str(path) for path in self._room.files()})
        if trouble := _trouble_unchanged(list(items.values()), functions, seconds):
            self.broken = [f"the same code, exchanged as a change would be: {trouble}"]
            return True
        pending = list(self._mutations)
        running: dict[int, tuple[Mutation, float, int]] = {}
        while pending or running:
            while pending and len(running) < self._jobs:
                mutation = pending.pop(0)
                tests = sorted(_tests_of(mutation, reached), key=lambda each: seconds[each])
                if mutation.function is not None and not tests:
                    self._note(mutation, "no test reaches it")
                    continue
                chosen = [items[each] for each in tests]
                running |= _forked(mutation, chosen, functions, self._room, seconds)
            self._reap(running)
        return True

    def _reap(self, running: dict[int, tuple[Mutation, float, int]]) -> None:
        if not running:
            return
        select.select([end for _, _, end in running.values()], [], [], 1.0)
        for pid, (mutation, begun, end) in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done and time.monotonic() - begun > PATIENCE:
                os.killpg(pid, signal.SIGKILL)
                done, status = os.waitpid(pid, 0)
            if done:
                os.close(end)
                del running[pid]
                self._note(mutation, "" if status else "its tests pass")

    def _note(self, mutation: Mutation, why: str) -> None:
        self.tried += 1
        if why:
            self.survivors.append((mutation, why))
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{self.tried}/{len(self._mutations)} tried, {len(self.survivors)} survive ")
            sys.stderr.flush()


def _tests_of(mutation: Mutation, reached: Mapping[tuple[str, int], set[str]]) -> set[str]:
    return reached.get((str(ROOT / mutation.path), mutation.line), set())


def _reached(
    items: Sequence[pytest.Item], room: Room
) -> tuple[dict[tuple[str, int], set[str]], dict[str, float], list[str]]:
    """Which tests reach which line, how long each takes, and those that fail; found out in a child.

    A process that has run the tests keeps caches that would hide changes.
    """
    path = ROOT / "build" / f"mutation-{os.getpid()}.coverage"
    path.parent.mkdir(exist_ok=True)
    times = path.with_suffix(".times")
    pid = os.fork()
    if not pid:
        _measured(items, room, path, times)
        os._exit(0)
    os.waitpid(pid, 0)
    seconds: dict[str, float] = {}
    broken: list[str] = []
    for line in times.read_text().splitlines():
        took, outcome, name = line.split(" ", 2)
        seconds[name] = float(took)
        if outcome == "failed":
            broken.append(name)
    data = coverage.CoverageData(str(path))
    data.read()
    reached: dict[tuple[str, int], set[str]] = {}
    for file in data.measured_files():
        for line_number, contexts in data.contexts_by_lineno(file).items():
            reached[file, line_number] = {each for each in contexts if each in seconds}
    path.unlink()
    times.unlink()
    return _whole_statements(reached, room), seconds, broken


def _whole_statements(reached: dict[tuple[str, int], set[str]], room: Room) -> dict[tuple[str, int], set[str]]:
    """The tracer does not count each line of an expression: such a line is reached by the tests of its function."""
    for path in map(str, room.files()):
        tree = ast.parse(Path(path).read_text())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            within = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
            every: set[str] = set().union(*(reached.get((path, each), set()) for each in within))
            for each in within:
                if not reached.get((path, each)):
                    reached[path, each] = every
    return reached


def _measured(items: Sequence[pytest.Item], room: Room, path: Path, times: Path) -> None:
    measuring = coverage.Coverage(data_file=str(path), include=[str(each) for each in room.files()], config_file=False)
    measuring.start()
    lines = []
    caches = _caches()
    for at, item in enumerate(items):
        for cache in caches:  # otherwise only the first of the tests that use a cached answer would reach its lines
            cache.cache_clear()
        measuring.switch_context(item.nodeid)
        begun = time.process_time()
        following = items[at + 1] if at + 1 < len(items) else None
        reports = runtestprotocol(item, log=False, nextitem=following)
        outcome = "failed" if any(each.failed for each in reports) else "passed"
        lines.append(f"{time.process_time() - begun:.4f} {outcome} {item.nodeid}")
    measuring.stop()
    measuring.save()
    times.write_text("\n".join(lines))


def _functions(paths: set[str]) -> dict[tuple[str, int, str], list[FunctionType]]:
    """The functions of these files by file, first line and qualified name."""
    found: dict[tuple[str, int, str], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in paths:
            code = each.__code__
            found.setdefault((code.co_filename, code.co_firstlineno, code.co_qualname), []).append(each)
    return found


def _forked(
    mutation: Mutation,
    tests: Sequence[pytest.Item],
    functions: Mapping[tuple[str, int, str], Iterable[FunctionType]],
    room: Room,
    seconds: Mapping[str, float],
) -> dict[int, tuple[Mutation, float, int]]:
    """Starts the tests against the change; the end of the pipe says when they are through."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        os.close(reading)
        _quiet()
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        code = _KILLED
        # Whatever a change does to the tests has been noticed.
        with contextlib.suppress(BaseException):
            code = _tried(mutation, tests, functions, room, seconds)
        os._exit(code)
    os.close(writing)
    return {pid: (mutation, time.monotonic(), reading)}


def _tried(
    mutation: Mutation,
    tests: Sequence[pytest.Item],
    functions: Mapping[tuple[str, int, str], Iterable[FunctionType]],
    room: Room,
    seconds: Mapping[str, float],
) -> int:
    path = str(ROOT / mutation.path)
    owners = functions.get((path, *mutation.function), []) if mutation.function is not None else []
    if not owners:
        _allow(sum(seconds.values()))
        return _anew(mutation, tests, room)
    module = compile(mutated(Path(path).read_text(), mutation), path, "exec")
    new = next(each for each in _codes(module) if (each.co_firstlineno, each.co_qualname) == mutation.function)
    for each in owners:
        if new.co_freevars != each.__code__.co_freevars:
            _allow(sum(seconds.values()))
            return _anew(mutation, tests, room)
        each.__code__ = new
    return _KILLED if _run(tests, seconds) else 0


def _run(tests: Sequence[pytest.Item], seconds: Mapping[str, float]) -> str:
    """The first test that fails, from empty caches; empty where all pass."""
    for cache in _caches():
        cache.cache_clear()
    for at, item in enumerate(tests):
        _allow(seconds[item.nodeid])
        following = tests[at + 1] if at + 1 < len(tests) else None
        for report in runtestprotocol(item, log=False, nextitem=following):
            if report.failed:
                return f"{report.nodeid} ({report.when}): {report.longreprtext}"
    return ""


def _allow(seconds: float) -> None:
    """Lets this process, and each that it starts, go on for ``SECONDS`` more than twice so long."""
    most = math.ceil(time.process_time() + SECONDS + 2 * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _caches() -> list[_lru_cache_wrapper[object]]:
    return [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]


def _trouble_unchanged(
    tests: Sequence[pytest.Item],
    functions: Mapping[tuple[str, int, str], Iterable[FunctionType]],
    seconds: Mapping[str, float],
) -> str:
    """The failures where every function has its own code, compiled anew: without this check, nothing could survive."""
    path = ROOT / "build" / f"mutation-{os.getpid()}.control"
    pid = os.fork()
    if not pid:
        try:
            _quiet()
            _exchange_all(functions)
            trouble = _run(tests, seconds)
        except BaseException:  # noqa: BLE001 - a fork must not run on in the code of its parent
            trouble = traceback.format_exc()
        # Not even a full disk may bring the child back into the parent's code.
        with contextlib.suppress(BaseException):
            path.write_text(trouble)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    trouble = path.read_text() if path.exists() else f"the process ended with status {status}"
    path.unlink(missing_ok=True)
    return trouble


def _exchange_all(functions: Mapping[tuple[str, int, str], Iterable[FunctionType]]) -> None:
    for path in {key[0] for key in functions}:
        for code in _codes(compile(Path(path).read_text(), path, "exec")):
            for each in functions.get((path, code.co_firstlineno, code.co_qualname), ()):
                each.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _anew(mutation: Mutation, tests: Sequence[pytest.Item], room: Room) -> int:
    """The tests in a process that imports the changed module."""
    chosen = sorted({item.nodeid.split("::")[0] for item in tests}) or list(room.tests)
    environment = {**os.environ, MUTATION: f"{mutation.path}\n{mutation.at}\n{mutation.variant}"}
    command = [sys.executable, "-m", "pytest", *FLAGS, "-p", "tests.mutation.importing", *chosen]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return _KILLED if done.returncode else 0


def _quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        with contextlib.suppress(OSError):
            os.dup2(nothing, each)
