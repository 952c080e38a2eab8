"""Every case against the embedded server, and against a real one that the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from hami_plugins.sandbox.apiserver import ApiServer
from tests.contract.apiserver import CASES, Api, Case
from tests.contract.apiserver.__main__ import REAL, real_api

SERVERS = ["embedded", *(["real"] if os.environ.get(REAL) else [])]


@pytest.fixture(scope="session")
def embedded() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture(params=SERVERS)
def connect(request: pytest.FixtureRequest) -> Callable[[], Api]:
    if request.param == "real":
        return lambda: real_api(os.environ[REAL])
    server: ApiServer = request.getfixturevalue("embedded")
    return lambda: Api(server.url)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_api_server_keeps_what_kubernetes_promises(case: Case, connect: Callable[[], Api]) -> None:
    with connect() as api:
        case.check(api)
