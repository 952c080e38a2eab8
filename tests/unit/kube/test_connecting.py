"""Messages of a command that finds no cluster, or another server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes.config import kube_config

from hami_plugins.errors import KubeError
from hami_plugins.kube.client import connect, connect_to

PAGE = b"<html>\n<head><title>404 Not Found</title></head>\n<body>\n<center>nginx</center>\n</body>\n</html>\n"


class WebPage(BaseHTTPRequestHandler):
    status = 404

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Says nothing."""


class WelcomePage(WebPage):
    status = 200


@pytest.fixture(params=[WebPage, WelcomePage])
def web_server(request: pytest.FixtureRequest) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_of_web_pages_is_asked_about_in_one_line(web_server: str) -> None:
    client = connect_to(web_server)
    with pytest.raises(KubeError) as error:
        client.get("/api/v1/nodes/n")
    client.close()
    message = str(error.value)
    assert message.endswith("is this a Kubernetes API server?")
    assert "<" not in message
    assert "\n" not in message


def test_without_a_kubeconfig_the_file_that_was_looked_for_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "config")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", missing)
    monkeypatch.setenv("KUBECONFIG", missing)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeError) as error:
        connect()
    assert str(error.value) == (
        f"no cluster: no kubeconfig (looked for {missing}). Give --kubeconfig FILE, or plan without a cluster: "
        "--snapshot FILE or --fleet NAME, where the command takes them"
    )


def test_a_kubeconfig_that_is_none_is_named_with_its_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "config"
    broken.write_text("a: [", encoding="utf-8")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(broken))
    monkeypatch.setenv("KUBECONFIG", str(broken))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeError, match="no cluster: kubeconfig cannot be used: while parsing"):
        connect()
