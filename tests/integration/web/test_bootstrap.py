"""Replicas that share one certificate by a Secret, and the webhook configurations that trust it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3
from cryptography import x509
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.apiserver import ApiServer, Fault, Refuse
from hami_plugins.web.bootstrap import (
    CertificateKeeper,
    SecretName,
    WebhookConfiguration,
    establish,
    put_trust,
    shared_material,
)
from hami_plugins.web.certificates import Lifetimes, Material
from hami_plugins.web.server import WebServer
from hami_plugins.wire.fields import Json
from tests.waiting import PATIENCE, wait_for

SECRET = SecretName("kube-system", "allocator-tls")
NAMES = ("localhost", "127.0.0.1")
OURS = WebhookConfiguration("mutating", "allocator")
DAY = timedelta(days=1)


class Clock:
    """A clock that is right until a test sets it ``ahead``."""

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
    client = connect_to(server.url, component="test").within(5)
    yield client
    client.close()


def configuration(*bundles: str, kind: str = "Mutating", name: str = "allocator") -> dict[str, Any]:
    webhooks = [
        {
            "name": f"w{at}.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/x"} | ({"caBundle": bundle} if bundle else {}),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        }
        for at, bundle in enumerate(bundles)
    ]
    api_version = "admissionregistration.k8s.io/v1"
    return {
        "apiVersion": api_version,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def bundles(server: ApiServer, resource: str = "mutatingwebhookconfigurations") -> list[bytes]:
    found = server.get(resource, "allocator")["webhooks"]
    return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in found]


def held(server: ApiServer) -> Material:
    return Material.of_secret(server.get("secrets", SECRET.name, SECRET.namespace)["data"])


def writes(server: ApiServer) -> int:
    return server.requests.writes()


def test_the_first_replica_makes_the_secret_and_the_next_ones_read_it(server: ApiServer, api: KubeClient) -> None:
    made = shared_material(api, SECRET, NAMES)
    assert held(server) == made
    assert server.get("secrets", SECRET.name, SECRET.namespace)["type"] == "kubernetes.io/tls"
    before = writes(server)
    assert shared_material(api, SECRET, NAMES) == made
    assert writes(server) == before


def test_replicas_that_start_together_agree(server: ApiServer, api: KubeClient) -> None:
    together = threading.Barrier(6)

    def start(_: int) -> Material:
        together.wait()
        return shared_material(api, SECRET, NAMES)

    with ThreadPoolExecutor(6) as replicas:
        found = list(replicas.map(start, range(6)))
    assert set(found) == {held(server)}


def test_replicas_that_renew_together_agree(server: ApiServer, api: KubeClient, clock: Clock) -> None:
    first = shared_material(api, SECRET, NAMES, now=clock)
    clock.ahead += 61 * DAY
    with ThreadPoolExecutor(6) as replicas:
        found = list(replicas.map(lambda _: shared_material(api, SECRET, NAMES, now=clock), range(6)))
    assert set(found) == {held(server)}
    assert (held(server).trusted, held(server).chain == first.chain) == (first.trusted, False)


@pytest.mark.parametrize("data", [None, {"tls.crt": "", "tls.key": ""}])
def test_a_secret_that_was_made_empty_is_filled(
    server: ApiServer, api: KubeClient, data: dict[str, str] | None
) -> None:
    metadata = {"namespace": SECRET.namespace, "name": SECRET.name, "labels": {"chart": "x"}}
    server.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **({"data": data} if data else {})})
    with capture_logs() as logs:
        made = shared_material(api, SECRET, NAMES)
    assert held(server) == made
    assert server.get("secrets", SECRET.name, SECRET.namespace)["metadata"]["labels"] == {"chart": "x"}
    assert logs == []


def test_a_secret_of_something_else_is_overwritten_and_logged(server: ApiServer, api: KubeClient) -> None:
    metadata = {"namespace": SECRET.namespace, "name": SECRET.name}
    server.put(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"tls.crt": "AAAA", "mine": "AA=="}}
    )
    with capture_logs() as logs:
        made = shared_material(api, SECRET, NAMES)
    assert held(server) == made
    assert server.get("secrets", SECRET.name, SECRET.namespace)["data"]["mine"] == "AA=="
    assert [line["event"] for line in logs] == ["secret_not_usable"]


def test_an_immutable_secret_is_an_error_that_says_so(server: ApiServer, api: KubeClient) -> None:
    metadata = {"namespace": SECRET.namespace, "name": SECRET.name}
    server.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True})
    with pytest.raises(ConfigError, match="kube-system/allocator-tls is immutable"):
        shared_material(api, SECRET, NAMES)


def test_a_secret_that_changes_all_the_time_is_given_up(server: ApiServer, api: KubeClient) -> None:
    shared_material(api, SECRET, NAMES)
    server.faults.add(Fault(action=Refuse(409), verb="patch", resource="secrets", times=None))
    with pytest.raises(KubeError, match="find its other writer"):
        shared_material(api, SECRET, ("other",))


def test_configurations_trust_the_authorities_and_are_written_once(server: ApiServer, api: KubeClient) -> None:
    server.put(configuration("", base64.b64encode(b"old").decode()))
    server.put(configuration("", kind="Validating"))
    server.put(configuration("", name="foreign"))
    assert put_trust(api, OURS, b"ca")
    assert put_trust(api, WebhookConfiguration("validating", "allocator"), b"ca")
    assert bundles(server) == [b"ca", b"ca"]
    assert bundles(server, "validatingwebhookconfigurations") == [b"ca"]
    before = writes(server)
    assert not put_trust(api, OURS, b"ca")
    assert writes(server) == before
    assert "caBundle" not in server.get("mutatingwebhookconfigurations", "foreign")["webhooks"][0]["clientConfig"]


def test_a_configuration_that_changes_meanwhile_keeps_the_change(server: ApiServer, api: KubeClient) -> None:
    server.put(configuration(""))
    number = server.faults.add(
        Fault(
            action=Refuse(409), verb="patch", resource=OURS.kind + "webhookconfigurations.admissionregistration.k8s.io"
        )
    )
    assert put_trust(api, OURS, b"ca")
    assert server.faults.struck(number) == 1
    assert bundles(server) == [b"ca"]


def test_a_keeper_serves_what_the_cluster_trusts_through_a_change_of_authority(
    server: ApiServer, api: KubeClient, tmp_path: Path, clock: Clock
) -> None:
    lifetimes = Lifetimes(authority=300 * DAY, server=90 * DAY)
    server.put(configuration(""))
    keeper = CertificateKeeper(api, SECRET, names=NAMES, folder=tmp_path, lifetimes=lifetimes, every=0.02, now=clock)
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])

    def establish_now() -> tuple[WebhookConfiguration, ...]:
        return establish(api, SECRET, NAMES, [OURS], lifetimes=lifetimes, now=clock)

    files = keeper.start()
    try:
        with WebServer(app, tls=files, look_every=0.02) as web:

            def asked_with_the_bundle() -> int:
                trusted = tmp_path / "bundle"
                trusted.write_bytes(bundles(server)[0])
                with urllib3.PoolManager(ca_certs=str(trusted)) as pool:
                    return pool.request("GET", f"https://localhost:{web.address[1]}/", retries=False).status

            assert keeper.check() == ""
            assert establish_now() == (OURS,)
            assert asked_with_the_bundle() == 200
            assert establish_now() == ()
            first = held(server)
            clock.ahead += 201 * DAY
            assert establish_now() == (OURS,)
            assert len(x509.load_pem_x509_certificates(bundles(server)[0])) == 2
            clock.ahead += 1 * DAY
            wait_for(lambda: files.certificate.read_bytes().endswith(held(server).chain) and held(server) != first)
            assert bundles(server)[0] == held(server).trusted
    finally:
        keeper.stop()
        keeper.stop()


AHEAD = pytest.mark.parametrize("days", [100, 3 * 365])


@AHEAD
def test_a_replica_whose_clock_is_wrong_changes_nothing(server: ApiServer, api: KubeClient, days: int) -> None:
    wrong = Clock()
    server.put(configuration(""))
    for wrong.ahead in (days * DAY, -days * DAY):
        establish(api, SECRET, NAMES, [OURS])
        first, before = held(server), writes(server)
        assert shared_material(api, SECRET, NAMES, now=wrong) == first
        assert establish(api, SECRET, NAMES, [OURS], now=wrong) == ()
        assert writes(server) == before


@AHEAD
def test_a_replica_whose_clock_is_wrong_makes_a_certificate_that_is_valid(api: KubeClient, days: int) -> None:
    wrong = Clock()
    wrong.ahead = days * DAY
    made = shared_material(api, SECRET, NAMES, now=wrong)
    for each in (made.chain, made.trusted):
        certificate = x509.load_pem_x509_certificate(each)
        assert certificate.not_valid_before_utc < datetime.now(UTC) < certificate.not_valid_after_utc


@AHEAD
def test_after_a_wrong_clock_of_the_api_server_a_valid_certificate_is_served_without_a_restart(
    server: ApiServer, api: KubeClient, clock: Clock, tmp_path: Path, days: int
) -> None:
    server.put(configuration(""))
    keeper = CertificateKeeper(api, SECRET, names=NAMES, folder=tmp_path, every=0.02)
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])
    bundle = tmp_path / "bundle"

    def answers(web: WebServer) -> bool:
        """Whether a client whose clock is right, and that trusts the first bundle, takes the certificate."""
        with urllib3.PoolManager(ca_certs=str(bundle)) as pool:
            try:
                return pool.request("GET", f"https://localhost:{web.address[1]}/", retries=False).status == 200
            except urllib3.exceptions.SSLError:
                return False

    with capture_logs() as logs:
        files = keeper.start()
        try:
            with WebServer(app, tls=files, look_every=0.02) as web:
                establish(api, SECRET, NAMES, [OURS])
                bundle.write_bytes(bundles(server)[0])
                assert answers(web)
                clock.ahead = days * DAY
                establish(api, SECRET, NAMES, [OURS])
                wait_for(lambda: not answers(web))
                clock.ahead = timedelta()
                wait_for(lambda: answers(web))
                establish(api, SECRET, NAMES, [OURS])
                assert bundle.read_bytes() in bundles(server)[0]
        finally:
            keeper.stop()
    assert [line["event"] for line in logs].count("clocks_differ") == 1


def test_a_server_writes_its_secret_and_no_configuration(server: ApiServer, api: KubeClient, tmp_path: Path) -> None:
    server.put(configuration(""))
    keeper = CertificateKeeper(api, SECRET, names=NAMES, folder=tmp_path, every=0.02)
    keeper.start()
    keeper.stop()
    assert bundles(server) == [b""]
    assert not [asked for asked in server.requests.counts() if "webhookconfigurations" in asked.resource]


def test_a_new_authority_is_trusted_before_the_secret_has_it(server: ApiServer, api: KubeClient, clock: Clock) -> None:
    """Servers sign with what the Secret has, so a write that fails in between harms nothing."""
    server.put(configuration(""))
    establish(api, SECRET, NAMES, [OURS], now=clock)
    first = held(server)
    clock.ahead += 3000 * DAY
    server.faults.add(Fault(action=Refuse(500), verb="patch", resource="secrets", times=None))
    with pytest.raises(KubeError):
        establish(api, SECRET, NAMES, [OURS], now=clock)
    assert held(server) == first
    assert len(x509.load_pem_x509_certificates(bundles(server)[0])) == 2
    assert first.trusted in bundles(server)[0]


def test_what_is_trusted_is_what_the_secret_has_where_servers_write_at_the_same_time(
    server: ApiServer, api: KubeClient
) -> None:
    server.put(configuration(""))
    server.put({"apiVersion": "v1", "kind": "Secret", "metadata": SECRET._asdict()})
    with ThreadPoolExecutor(4) as together:
        made = [together.submit(shared_material, api, SECRET, NAMES) for _ in range(3)]
        done = together.submit(establish, api, SECRET, NAMES, [OURS])
        for each in made:
            each.result()
        done.result()
    assert bundles(server) == [held(server).trusted]


def test_a_configuration_that_is_not_there_is_named(api: KubeClient) -> None:
    with pytest.raises(KubeError, match="allocator"):
        establish(api, SECRET, NAMES, [OURS])


def test_a_keeper_without_an_api_server_does_not_start(tmp_path: Path, server: ApiServer, api: KubeClient) -> None:
    server.pause()
    keeper = CertificateKeeper(api.within(0.2), SECRET, names=NAMES, folder=tmp_path)
    with pytest.raises(KubeError):
        keeper.start()
    keeper.stop()


class Slow:
    """An API server that answers no more once it is ``slow``, until it is ``let``."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self.slow = self.answered = False
        self.asked, self.let = threading.Event(), threading.Event()

    def get(self, path: str) -> Json:
        if self.slow:
            self.asked.set()
            self.let.wait(PATIENCE)
            self.answered = True
        return self._api.get(path)

    def server_time(self) -> datetime | None:
        return self._api.server_time()

    def create(self, path: str, body: Json) -> Json:
        return self._api.create(path, body)


def test_a_keeper_ends_although_the_api_server_does_not_answer(api: KubeClient, tmp_path: Path) -> None:
    slow = Slow(api)
    keeper = CertificateKeeper(cast("KubeApi", slow), SECRET, names=NAMES, folder=tmp_path, every=0.02)
    keeper.start()
    try:
        slow.slow = True
        assert slow.asked.wait(PATIENCE)
        keeper.stop(timeout=0.02)
        assert not slow.answered
    finally:
        slow.let.set()
        keeper.stop()


def test_a_keeper_outlives_an_api_server_that_is_away(
    server: ApiServer, api: KubeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_plugins.web.bootstrap._RETRY_SECONDS", 0.02)
    keeper = CertificateKeeper(api.within(0.2), SECRET, names=NAMES, folder=tmp_path, every=0.02)
    keeper.start()
    try:
        server.pause()
        wait_for(lambda: keeper.check() != "")
        server.resume()
        wait_for(lambda: keeper.check() == "")
    finally:
        keeper.stop()
