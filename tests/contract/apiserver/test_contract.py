"""Every case against the embedded server, and against a real one that the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from hami_plugins.sandbox.apiserver import ApiServer
from tests.contract.apiserver import CASES, EMBEDDED, Api, Case, cases_of
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


def test_a_sentence_is_about_the_releases_between_its_bounds() -> None:
    def releases(**bounds: str) -> list[str]:
        return [each for each in ("1.34", "1.35", "1.36", "1.100") if Case("x", lambda api: None, **bounds).of(each)]

    assert releases() == ["1.34", "1.35", "1.36", "1.100"]
    assert releases(since="1.35") == ["1.35", "1.36", "1.100"]
    assert releases(before="1.36") == ["1.34", "1.35"]
    assert releases(since="1.35", before="1.36") == ["1.35"]


def test_every_sentence_that_ends_is_followed_by_another() -> None:
    assert {each.before for each in CASES if each.before} == {each.since for each in CASES if each.since}


@pytest.mark.parametrize("case", cases_of(EMBEDDED), ids=str)
def test_the_api_server_keeps_what_kubernetes_promises(case: Case, connect: Callable[[], Api]) -> None:
    with connect() as api:
        case.check(api)
