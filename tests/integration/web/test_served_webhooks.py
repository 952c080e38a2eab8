"""All of the edge together: webhooks of ours, over our own certificate, called by the API server that trusts it."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.observe.metrics import Metrics
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.web.admission import AdmissionMetrics, Handler, admission_route
from hami_plugins.web.bootstrap import CertificateKeeper, SecretName, WebhookConfiguration, establish
from hami_plugins.web.documents import DocumentMetrics
from hami_plugins.web.server import WebServer
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied
from tests.waiting import wait_for

OURS = WebhookConfiguration("mutating", "allocator")
SECRET = SecretName("kube-system", "allocator-tls")


class Clock:
    """Runs ahead as tests say."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock() -> Clock:
    """The API server's clock."""
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[ApiServer]:
    with ApiServer(clock=clock) as running:
        yield running


@pytest.fixture
def api(server: ApiServer) -> Iterator[KubeClient]:
    client = connect_to(server.url, component="test").within(20)
    yield client
    client.close()


@contextlib.contextmanager
def serving(server: ApiServer, api: KubeClient, folder: Path, handler: Handler, **more: Any) -> Iterator[WebServer]:
    """A webhook on bindings, in force and trusted."""
    metrics = Metrics("tests")
    route = admission_route("/bind", handler, name="bind", metrics=AdmissionMetrics(metrics, DocumentMetrics(metrics)))
    keeper = CertificateKeeper(api, SECRET, names=["127.0.0.1"], folder=folder, every=0.05, **more)
    server.put(configuration("https://127.0.0.1:1/bind"))
    files = keeper.start()
    establish(api, SECRET, ["127.0.0.1"], [OURS], **more)
    try:
        with WebServer(Starlette(routes=[route]), tls=files, look_every=0.02) as web:
            trusted = server.get("mutatingwebhookconfigurations", "allocator")["webhooks"][0]["clientConfig"][
                "caBundle"
            ]
            server.put(configuration(f"https://127.0.0.1:{web.address[1]}/bind", trusted))
            yield web
    finally:
        keeper.stop()


def configuration(url: str, bundle: str = "") -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    webhook = {
        "name": "bind.allocator.example",
        "clientConfig": {"url": url} | ({"caBundle": bundle} if bundle else {}),
        "rules": [rule],
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "allocator"},
        "webhooks": [webhook],
    }


def a_pod(server: ApiServer, name: str) -> None:
    server.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
    )


def bind(api: KubeClient, name: str) -> None:
    body = {
        "metadata": {"name": name, "annotations": {"allocation": "stale"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    api.create(paths.pod_binding("default", name), body)


def allocate(request: AdmissionRequest) -> Answer:
    assert request.object is not None
    return Allowed([{"op": "add", "path": "/metadata/annotations/allocation", "value": f"card of {request.name}"}])


def test_an_allocation_reaches_the_pod(server: ApiServer, api: KubeClient, tmp_path: Path) -> None:
    with serving(server, api, tmp_path, allocate):
        a_pod(server, "p")
        bind(api, "p")
        pod = server.get("pods", "p")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("n1", {"allocation": "card of p"})


def test_a_refusal_reaches_whoever_binds(server: ApiServer, api: KubeClient, tmp_path: Path) -> None:
    with serving(server, api, tmp_path, lambda request: Denied("no card left")):
        a_pod(server, "p")
        with pytest.raises(KubeError, match="denied the request: no card left"):
            bind(api, "p")
    assert "nodeName" not in server.get("pods", "p")["spec"]


def test_a_handler_that_breaks_is_seen_by_whoever_binds(server: ApiServer, api: KubeClient, tmp_path: Path) -> None:
    def broken(_: AdmissionRequest) -> Answer:
        raise ZeroDivisionError

    with serving(server, api, tmp_path, broken):
        a_pod(server, "p")
        with pytest.raises(KubeError, match=r"an error on the server \(\"internal error in bind; the log"):
            bind(api, "p")


def test_a_certificate_that_nobody_trusts_is_named(server: ApiServer, api: KubeClient, tmp_path: Path) -> None:
    with serving(server, api, tmp_path, allocate) as web:
        url = f"https://127.0.0.1:{web.address[1]}/bind"
        for bundle, told in (
            ("", "certificate signed by unknown authority"),
            (base64.b64encode(b"no certificate").decode(), "failed calling webhook"),
        ):
            server.put({**configuration(url, bundle), "metadata": {"name": "others"}})
            a_pod(server, f"p{len(bundle)}")
            with pytest.raises(KubeError, match=told):
                bind(api, f"p{len(bundle)}")


def test_a_service_is_not_known_here(server: ApiServer, api: KubeClient) -> None:
    wanted = configuration("")
    service = {"name": "allocator", "namespace": "kube-system", "path": "/bind"}
    wanted["webhooks"][0]["clientConfig"] = {"service": service}
    server.put(wanted)
    a_pod(server, "p")
    with pytest.raises(
        KubeError, match=r'https://allocator\.kube-system\.svc:443/bind\?timeout=5s": service "allocator" not found'
    ):
        bind(api, "p")


def test_every_binding_is_allocated_while_certificates_change(
    server: ApiServer, api: KubeClient, tmp_path: Path, clock: Clock
) -> None:
    with serving(server, api, tmp_path, allocate, now=clock):
        over = threading.Event()
        errors: list[Exception] = []
        bound: list[str] = []

        def binding(who: int) -> None:
            while not over.is_set():
                name = f"p{who}-{len(bound)}-{len(errors)}"
                try:
                    a_pod(server, name)
                    bind(api, name)
                    bound.append(name)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is one too many
                    errors.append(error)

        binders = [threading.Thread(target=binding, args=(who,)) for who in range(2)]
        for binder in binders:
            binder.start()
        for _ in range(3):
            before = (tmp_path / "tls.pem").read_bytes()
            clock.ahead += timedelta(days=61)
            wait_for(lambda before=before: (tmp_path / "tls.pem").read_bytes() != before)  # type: ignore[misc]
            already = len(bound)
            wait_for(lambda already=already: len(bound) > already + 10 or errors)  # type: ignore[misc]
        over.set()
        for binder in binders:
            binder.join()
    assert errors == []
    allocated = {server.get("pods", name)["metadata"]["annotations"]["allocation"] for name in bound}
    assert allocated == {f"card of {name}" for name in bound}
