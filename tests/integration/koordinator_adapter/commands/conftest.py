"""A cluster of Koordinator's, and commands on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hami_plugins.cli import main
from hami_plugins.emulator.apiserver import KOORDINATOR, VOLCANO, ApiServer


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
