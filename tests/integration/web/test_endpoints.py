"""The servers of one replica: their log, and their order of start and stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.errors import ConfigError
from hami_plugins.kube.port import KubeApi
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.endpoints import Endpoints
from hami_plugins.web.server import WebServer
from hami_plugins.web.settings import ServedSettings
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE

NO_API = cast("KubeApi", object())
"""Only certificates of its own need one."""


def made(folder: Path, **changes: Any) -> Endpoints:
    told = {
        "webhooks": {"host": "127.0.0.1", "port": 0, "configuration": "c"},
        "certificate": {"directory": str(folder), "secret": "s"},
        "service": {"name": "n", "namespace": "default"},
        "lease": {"name": "n"},
        "listen": {"host": "127.0.0.1", "port": 0},
        "shutdownDelay": 0,
    }
    settings = ServedSettings.model_validate(told | changes)
    routes = [Route("/", lambda _request: PlainTextResponse("here"))]
    return Endpoints(settings, NO_API, plain=routes, webhooks=routes, ready={"own": lambda: ""}, metrics=Metrics("t"))


@contextmanager
def started(folder: Path) -> Iterator[Endpoints]:
    a_certificate(folder)
    endpoints = made(folder)
    endpoints.start()
    try:
        yield endpoints
    finally:
        endpoints.stop()
        endpoints.stop()


def read(endpoints: Endpoints, path: str) -> tuple[int, str]:
    with urllib3.PoolManager() as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{endpoints.address[1]}{path}", retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()


def test_webhooks_are_served_over_tls_and_all_else_plainly(tmp_path: Path) -> None:
    with started(tmp_path) as endpoints:
        assert read(endpoints, "/") == (200, "here")
        assert endpoints.webhook_address is not None
        with urllib3.PoolManager(ca_certs=str(tmp_path / "tls.crt")) as pool:
            url = f"https://localhost:{endpoints.webhook_address[1]}/"
            assert pool.request("GET", url, retries=False, timeout=PATIENCE).data == b"here"


def test_who_leaves_is_ready_no_more_and_still_answers(tmp_path: Path) -> None:
    with started(tmp_path) as endpoints:
        assert read(endpoints, "/readyz") == (200, "stopping: ok\nown: ok\ncertificate: ok\n")
        endpoints.leave()
        assert endpoints.trouble == "the process ends"
        assert read(endpoints, "/readyz")[0] == 503
        assert read(endpoints, "/")[0] == 200


def test_a_process_whose_webhooks_have_ended_is_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path) as endpoints:
        assert read(endpoints, "/healthz") == (200, "server: ok\n")
        monkeypatch.setattr(WebServer, "serves", property(lambda _server: False))
        assert read(endpoints, "/healthz") == (503, "server: the server of the webhooks has ended\n")


def test_without_a_certificate_webhooks_are_not_served_and_probes_say_so(tmp_path: Path) -> None:
    endpoints = made(tmp_path)
    try:
        with pytest.raises(ConfigError, match=r"tls\.crt is not there; .*bootstrap: true"):
            endpoints.start()
        assert endpoints.webhook_address is None
        assert endpoints.trouble == "the webhooks are not served yet"
    finally:
        endpoints.stop()
