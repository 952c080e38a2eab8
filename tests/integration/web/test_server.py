"""The HTTP edge over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.errors import ConfigError
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web import server as server_module
from hami_plugins.web.connections import Listener, OpenConnections, listening
from hami_plugins.web.probes import probe_routes
from hami_plugins.web.server import WebServer, _Server
from hami_plugins.web.tls import Tls
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE


def read(url: str, **options: Any) -> tuple[int, str]:
    with urllib3.PoolManager(**options) as pool:
        answer = pool.request("GET", url, retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()


def an_app() -> Starlette:
    return Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])


def test_a_server_answers_from_its_start_to_its_stop() -> None:
    server = WebServer(an_app())
    port = server.start()
    assert f"web-{port}" in {thread.name for thread in threading.enumerate()}
    assert read(f"http://127.0.0.1:{port}/") == (200, "here")
    server.stop()
    server.stop()
    assert not server.serves
    assert f"web-{port}" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(urllib3.exceptions.HTTPError):
        read(f"http://127.0.0.1:{port}/")


def test_a_server_listens_on_loopback_unless_it_is_told_otherwise() -> None:
    with WebServer(an_app()) as server:
        assert server.address[0] == "127.0.0.1"


def switches(thread: threading.Thread) -> int:
    """How often the thread went to sleep so far."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("voluntary_ctxt_switches")))


def test_an_idle_server_sleeps_until_a_request_comes() -> None:
    with WebServer(an_app()) as server:
        port = server.address[1]
        read(f"http://127.0.0.1:{port}/")
        thread = next(thread for thread in threading.enumerate() if thread.name == f"web-{port}")
        time.sleep(0.2)
        before = switches(thread)
        time.sleep(1.0)
        assert switches(thread) - before <= 2


def test_an_answer_carries_the_date_of_its_own_second() -> None:
    with WebServer(an_app()) as server, urllib3.PoolManager() as pool:
        before = int(time.time())
        first = parsedate_to_datetime(pool.request("GET", f"http://127.0.0.1:{server.address[1]}/").headers["date"])
        time.sleep(1.1)
        second = parsedate_to_datetime(pool.request("GET", f"http://127.0.0.1:{server.address[1]}/").headers["date"])
    assert before <= first.timestamp() < second.timestamp() <= time.time()


def test_a_server_that_is_told_to_end_before_it_began_ends() -> None:
    server = _Server(uvicorn.Config(an_app(), log_config=None, lifespan="off"))
    server.end()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # In a thread of its own, as always: there may be a loop in this one.
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        serving.start()
        serving.join(PATIENCE)
    assert server.started
    assert not serving.is_alive()


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} cannot be served: Address already in use"):
            WebServer(an_app(), port=port).start()


def test_a_request_that_runs_is_answered_before_the_server_stops() -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> PlainTextResponse:
        arrived.set()
        go_on.wait(PATIENCE)
        return PlainTextResponse("late")

    server = WebServer(Starlette(routes=[Route("/", slow)]))
    port = server.start()
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: answers.append(read(f"http://127.0.0.1:{port}/")))
    asking.start()
    assert arrived.wait(PATIENCE)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    go_on.set()
    stopping.join()
    asking.join()
    assert answers == [(200, "late")]


def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    tls = a_certificate(tmp_path)
    with WebServer(an_app(), tls=tls) as server:
        answer = read(f"https://localhost:{server.address[1]}/", ca_certs=str(tls.certificate))
    assert answer == (200, "here")


def test_a_certificate_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    tls = Tls(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    with pytest.raises(ConfigError, match=r"TLS with .*tls\.crt and .*tls\.key"):
        WebServer(an_app(), tls=tls).start()


def _broken() -> str:
    raise OSError("no such file")


def test_probes_say_what_is_wrong_and_metrics_are_exposed() -> None:
    metrics = Metrics("tests")
    metrics.counter("things_total", "Things").inc(3)
    wrong = ["pods are not listed yet"]
    routes = probe_routes(
        alive={}, ready={"pods": lambda: wrong[0], "kubelet": lambda: "", "disk": _broken}, metrics=metrics
    )
    with WebServer(Starlette(routes=routes)) as server:
        url = f"http://127.0.0.1:{server.address[1]}"
        assert read(f"{url}/healthz") == (200, "ok\n")
        status, text = read(f"{url}/readyz")
        assert (status, text.splitlines()) == (
            503,
            [
                "pods: pods are not listed yet",
                "kubelet: ok",
                "disk: the check itself failed: OSError('no such file')",
            ],
        )
        assert "tests_things_total 3.0" in read(f"{url}/metrics")[1]


def test_readiness_follows_its_checks() -> None:
    wrong = ["not registered"]
    routes = probe_routes(alive={}, ready={"kubelet": lambda: wrong[0]}, metrics=Metrics("tests"))
    with WebServer(Starlette(routes=routes)) as server:
        url = f"http://127.0.0.1:{server.address[1]}/readyz"
        assert read(url)[0] == 503
        wrong[0] = ""
        assert read(url) == (200, "kubelet: ok\n")


def test_small_answers_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Listener] = []

    def recorded(host: str, port: int, connections: OpenConnections) -> Listener:
        made.append(listening(host, port, connections))
        return made[-1]

    monkeypatch.setattr(server_module, "listening", recorded)
    with WebServer(Starlette()):
        assert made[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
