"""A client without an identity neither fills the memory of a process nor keeps it from answering."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.integration.attacks import sending
from tests.integration.attacks.sending import MIB, Port
from tests.integration.attacks.victims import KINDS, Victim, victim
from tests.waiting import PATIENCE, wait_for

SERVERS = ("allocator", "koordinator")
PORTS = [*((kind, False) for kind in KINDS), *((kind, True) for kind in SERVERS)]
"""Each port of each process, and whether TLS is spoken there."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def process(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One process of each kind, which has to outlive everything that is done to it."""
    with victim(kind, tmp_path_factory.mktemp(kind)) as made:
        yield made


@pytest.fixture
def grown(process: Victim) -> Iterator[list[int]]:
    """How many bytes a process may take more than before; afterwards it still answers everything that it should."""
    before = process.memory()
    process.forget_peak()
    most: list[int] = []
    yield most
    assert process.serves()
    assert process.peak() - before < most[0]


def port_of(process: Victim, secure: object) -> Port:
    return Port(process.webhooks, tls=True) if secure else Port(process.port)


each_port = pytest.mark.parametrize(("kind", "secure"), PORTS, indirect=["kind"], scope="module")


@each_port
def test_requests_whose_answers_are_never_read_are_not_kept(secure: object, process: Victim, grown: list[int]) -> None:
    port = port_of(process, secure)
    grown.append(64 * MIB)
    with ThreadPoolExecutor(4) as four:
        taken = list(four.map(lambda _turn: sending.pipelined(port), range(8)))
        assert process.serves()
    assert max(taken) < 8 * MIB


def test_all_threads_share_one_heap(process: Victim) -> None:
    """What a burst leaves in a heap of a thread would stay."""
    assert process.serves()
    assert process.heaps() == 0


@each_port
def test_thousands_of_connections_are_not_kept(secure: object, process: Victim, grown: list[int]) -> None:
    port = port_of(process, secure)
    grown.append(320 * MIB)
    with ExitStack() as open_until_the_end:
        sending.idle(port, 1_500, open_until_the_end)
        assert process.serves()
        sending.answered_early(port, 600, open_until_the_end)
        assert process.serves()
        assert process.descriptors() < 1_000
    wait_for(lambda: process.descriptors() < 100, "they are closed")


@pytest.mark.parametrize("kind", ["allocator"], indirect=True, scope="module")
@pytest.mark.parametrize("unit", [b'{"Name":"a"},', b"{},", b"[[[[]]]],"])
def test_a_large_body_that_is_no_call_is_refused(unit: bytes, process: Victim, grown: list[int]) -> None:
    grown.append(160 * MIB)
    paths = [b"/extender/prioritize", b"/extender/predicate", b"/extender/onSessionOpen"]
    paths += [b"/scheduler/filter", b"/scheduler/prioritize"]
    with ThreadPoolExecutor(len(paths)) as all_together:
        bodies = [all_together.submit(sending.posted, Port(process.port), path, unit) for path in paths]
        assert process.serves()
        answers = [body.result()[:12] for body in bodies]
    assert set(answers) <= {b"HTTP/1.1 413", b"HTTP/1.1 503", b"HTTP/1.1 200", b""}


@pytest.mark.parametrize("kind", ["allocator"], indirect=True, scope="module")
@pytest.mark.parametrize("path", [b"/scheduler/filter", b"/extender/prioritize"])
def test_many_bodies_just_below_the_limit_are_read_one_after_the_other(
    path: bytes, process: Victim, grown: list[int]
) -> None:
    grown.append(200 * MIB)
    with ThreadPoolExecutor(16) as sixteen:
        bodies = [
            sixteen.submit(sending.posted, Port(process.port), path, b'"node-of-a-cluster-00000",', 1_500_000)
            for _ in range(32)
        ]
        assert process.serves()
        answers = [body.result()[:12] for body in bodies]
    assert b"HTTP/1.1 200" in answers


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=abc", "text/plain; version=x", ";;,"])
def test_metrics_are_answered_whatever_form_is_asked_for(accept: str, process: Victim) -> None:
    url = f"http://127.0.0.1:{process.port}/metrics"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=PATIENCE) as answer:
        assert b"process_open_fds" in answer.read()
