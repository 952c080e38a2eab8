"""A cluster of Koordinator's, and commands on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hami_plugins.cli import main
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import KOORDINATOR, VOLCANO, ApiServer
from koordinator_adapter.commands import migrate
from tests.integration.koordinator_adapter.commands.cluster import put_all, state


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


Type = Callable[..., Said]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server that knows the kinds of Volcano and Koordinator."""
    with ApiServer(kinds=(*VOLCANO, *KOORDINATOR)) as running:
        yield running


@pytest.fixture
def type_in(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs ``hami-plugins koordinator`` with a kubeconfig of that server."""
    path = str(server.kubeconfig(tmp_path / "kubeconfig"))

    def typed(*words: Any) -> Said:
        code = main(["koordinator", *map(str, words), "--kubeconfig", path])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return typed


@pytest.fixture
def before(server: ApiServer) -> dict[str, Any]:
    put_all(server)
    return state(server)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


class StopError(BaseException):
    """The power is gone."""


class Interrupted:
    """A cluster that stops the process at one of its writes, before or after it has happened."""

    def __init__(self, cluster: KubeClient, at: int, *, late: bool) -> None:
        self._cluster, self._left, self._late = cluster, at, late

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        return self._writing(found) if name in {"create", "merge_patch", "delete", "replace"} else found

    def _writing(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._late:
                raise StopError
            answer = write(*args, **kwargs)
            if self._left == 0:
                raise StopError
            return answer

        return written


def interrupted(monkeypatch: pytest.MonkeyPatch, server: ApiServer, at: int, *, late: bool) -> None:
    real = connect_to(server.url)
    monkeypatch.setattr(migrate, "connect", lambda **_: Interrupted(real, at, late=late))


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, server: ApiServer, type_in: Type, journal: Path) -> Callable[..., None]:
    """Runs a command that is stopped at one of its writes, before or after it has happened."""

    def run(*words: str, at: int, late: bool) -> None:
        with monkeypatch.context() as patched:
            interrupted(patched, server, at, late=late)
            with pytest.raises(StopError):
                type_in("migrate", "-n", "ml", *words, "--journal", journal)

    return run
