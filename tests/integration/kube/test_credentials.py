"""Who asks: tokens that rotate on disk, plugins that hand out short-lived ones."""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as official
from kubernetes.config.incluster_config import InClusterConfigLoader

from hami_plugins.errors import UnreachableError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.transport import Transport
from tests.integration.kube.scripted import Asked, Line

NODE = paths.node("n1")


def accepting(asked: Asked, line: Line) -> None:
    line.answer(200, {})


def tokens(server: Any) -> list[str | None]:
    return [asked.headers.get("authorization") for asked in server.asked]


class Pod:
    """What a pod finds on its disk, and a client that uses it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.token = folder / "token"
        self.token.write_text("first")
        (folder / "ca.crt").write_text("a certificate")
        self._loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
            token_filename=str(self.token),
            cert_filename=str(folder / "ca.crt"),
            environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
        )
        settings = official.Configuration()
        self._loader.load_and_set(settings)  # type: ignore[no-untyped-call]
        settings.host = url
        self.client = KubeClient(Transport(settings), attempts=1)

    def a_minute_passes(self) -> None:
        self._loader.token_expires_at = datetime.now() - timedelta(seconds=1)  # noqa: DTZ005 - as the loader does


def test_a_service_account_token_that_rotated_is_used(serve: Any, tmp_path: Path) -> None:
    server = serve(accepting)
    pod = Pod(tmp_path, server.url)
    pod.client.get(NODE)
    pod.token.write_text("second")
    pod.client.get(NODE)
    pod.a_minute_passes()
    pod.client.get(NODE)
    pod.client.close()
    assert tokens(server) == ["bearer first", "bearer first", "bearer second"]


def test_a_token_that_cannot_be_read_is_an_error_that_may_pass(serve: Any, tmp_path: Path) -> None:
    server = serve(accepting)
    pod = Pod(tmp_path, server.url)
    pod.token.write_text("")
    pod.a_minute_passes()
    with pytest.raises(UnreachableError, match=r"credentials for .* cannot be renewed: Token file exists but empty"):
        pod.client.get(NODE)
    pod.token.write_text("third")
    pod.client.get(NODE)
    pod.client.close()
    assert tokens(server) == ["bearer third"]


PLUGIN = """
import json, sys, time
runs = open(sys.argv[1], "a+")
runs.write("x")
runs.seek(0)
number = len(runs.read())
runs.close()
expires = "2000-01-01T00:00:00Z" if number == 1 else "2999-01-01T00:00:00Z"
status = {"token": f"token-{number}", "expirationTimestamp": expires}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


def test_a_plugin_is_asked_again_when_its_token_expires_and_only_once(serve: Any, tmp_path: Path) -> None:
    server = serve(accepting)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "runs")],
        "interactiveMode": "Never",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    client = connect(kubeconfig=str(tmp_path / "config"))
    threads = [threading.Thread(target=client.get, args=(NODE,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert tokens(server) == ["Bearer token-2"] * 8
    assert (tmp_path / "runs").read_text() == "xx"


def test_no_request_looks_for_a_proxy_in_the_environment_again(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(accepting)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "mine"}}],
            }
        )
    )
    client = connect(kubeconfig=str(kubeconfig))
    looked: list[str] = []

    def look() -> dict[str, str]:
        looked.append("again")
        return {}

    monkeypatch.setattr("kubernetes.client.configuration.getproxies", look)
    client.get(NODE)
    client.close()
    assert (tokens(server), looked) == (["Bearer mine"], [])
