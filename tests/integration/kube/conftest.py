"""Servers and clients for the tests of this folder; whatever a test starts is gone after it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hami_plugins.kube.client import KubeClient, connect_to
from tests.integration.kube.scripted import Script, ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    with contextlib.ExitStack() as servers:
        yield lambda script: servers.enter_context(ScriptedServer(script))


@pytest.fixture
def client_of() -> Iterator[Callable[[ScriptedServer], KubeClient]]:
    with contextlib.ExitStack() as clients:

        def make(server: ScriptedServer) -> KubeClient:
            client = replace(connect_to(server.url, component="test"), deadline=20.0)
            clients.callback(client.close)
            return client

        yield make


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No thread outlives a test."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []
