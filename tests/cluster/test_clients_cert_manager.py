"""The real cert-manager makes the server's certificate, has the webhooks trust it, and renews it under load.

The release runs on the real node, so that it is the kubelet that hands the Secret to the server.
"""

from __future__ import annotations

import base64
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509

from charts.docker import targets
from tests.cluster.agents import GPU
from tests.cluster.allocator import marks
from tests.cluster.api import ApiError
from tests.cluster.cert_manager import CertManager, Issued
from tests.cluster.charted import Charted, import_image
from tests.cluster.hami import MARK
from tests.cluster.helm import ALLOCATOR, KOORDINATOR, Helm
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import container, pod
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

SERVER: Final = "one-allocator"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
BY_CERT_MANAGER: Final = {"source": "certManager", "names": ["127.0.0.1"]}


@pytest.fixture(scope="module")
def cert_manager(control_plane: ControlPlane) -> Iterator[CertManager]:
    with CertManager(control_plane) as found:
        yield found


class CertifiedRelease:
    """The chart with ``certificate.source: certManager``, on the real node."""

    def __init__(self, charted: Charted, cert_manager: CertManager) -> None:
        self.charted, self.plane, self.cert_manager = charted, charted.plane, cert_manager
        self.place = charted.namespace

    def change(self, verb: str, **values: Any) -> None:
        """``install`` or ``upgrade``."""
        mine = self.charted.allocator(vendors=["NVIDIA"], certificate=BY_CERT_MANAGER, **values)
        self.charted.helm.change(verb, "one", self.place, values=mine, chart=ALLOCATOR)

    def issued(self) -> Issued:
        return self.cert_manager.issued(self.place, SERVER)

    def trusted(self) -> set[bytes]:
        """The authorities that the API server trusts, by its webhooks."""
        return authorities(self.plane, "mutatingwebhookconfigurations", f"{self.place}.one-allocator")

    def served(self) -> x509.Certificate:
        """What a client meets that trusts the Secret's authority. Raises ``OSError`` where it does not verify."""
        authority = self.issued().authority.decode()
        context = ssl.create_default_context(cadata=authority)
        with (
            socket.create_connection(("127.0.0.1", self.charted.hook_port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")

    def marks(self) -> bool:
        """Whether the API server's call of the webhook works: a pod that asks for cards comes back marked."""
        return marks(self.plane, pod("probe", container(limits={GPU: 1})), MARK)

    def wait_marks(self) -> None:
        wait_until(self.marks, "the API server trusts the webhooks", 90, show=self.story)

    def story(self) -> str:
        return self.cert_manager.log() + self.charted.story()


def authorities(plane: ControlPlane, kind: str, name: str) -> set[bytes]:
    """The authorities in a webhook configuration."""
    hooks = plane.api.get(f"{ADMISSION}/{kind}/{name}")["webhooks"]
    return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in hooks}


@pytest.fixture(scope="module")
def release(
    cert_manager: CertManager,
    node: Node,
    kube_scheduler: Component,
    programs: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CertifiedRelease]:
    assert kube_scheduler.running
    import_image(node, tmp_path_factory.mktemp("image"), targets.ALLOCATOR)
    helm = Helm(programs["helm3"], tmp_path_factory.mktemp("helm"), node.plane.admin_kubeconfig)
    place = f"certified-{secrets.token_hex(3)}"
    node.plane.create_namespace(place)
    found = CertifiedRelease(Charted(node, helm, place, chart=ALLOCATOR), cert_manager)
    try:
        found.change("install")
        yield found
    finally:
        if found.charted.installed:
            found.charted.uninstall()
        node.plane.clear_namespace(place)
        node.plane.api.delete(f"/api/v1/namespaces/{place}")


@contextmanager
def asked_all_the_time(release: CertifiedRelease) -> Iterator[list[str]]:
    """Asks the API server for a pod again and again; when and why one came back without the webhook's mark."""
    failed: list[str] = []
    ended = threading.Event()
    asked = 0

    def ask() -> None:
        nonlocal asked
        while not ended.wait(0.1):
            asked += 1
            try:
                if not release.marks():
                    failed.append(f"{asked}: not marked")
            except ApiError as error:
                failed.append(f"{asked}: {error}")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield failed
    finally:
        ended.set()
        thread.join()
    assert asked > 5


def test_the_server_serves_what_is_issued_and_the_webhooks_trust_it(release: CertifiedRelease) -> None:
    issued = wait_until(release.issued, "the certificate is issued", 60, show=release.story)
    wait_until(lambda: release.trusted() == {issued.authority}, "the authority is injected", show=release.story)
    wait_until(lambda: release.served() == issued.x509, "the server serves it", 90, show=release.story)
    names = issued.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    host = f"{SERVER}.{release.place}.svc"
    assert names.get_values_for_type(x509.DNSName) == [host, f"{host}.cluster.local"]
    release.wait_marks()


def test_a_renewed_certificate_is_served_without_a_restart_and_no_pod_is_missed_meanwhile(
    release: CertifiedRelease,
) -> None:
    release.wait_marks()
    (before,) = release.charted.pods("allocator")
    with asked_all_the_time(release) as missed:
        renewed = release.cert_manager.renew(release.place, SERVER)
        wait_until(lambda: release.served() == renewed.x509, "it is served", 90, show=release.story)
        assert release.trusted() == {renewed.authority}
    assert not missed
    (after,) = release.charted.pods("allocator")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not any(each["restartCount"] for each in after["status"]["containerStatuses"])


def test_a_renewed_authority_is_trusted_beside_certificates_that_it_has_signed_before(
    release: CertifiedRelease,
) -> None:
    release.wait_marks()
    with asked_all_the_time(release) as missed:
        authority = release.cert_manager.renew(release.place, f"{SERVER}-authority")
        renewed = release.cert_manager.renew(release.place, SERVER)
        assert renewed.authority == authority.certificate
        wait_until(lambda: release.trusted() == {authority.certificate}, "it is trusted", show=release.story)
        wait_until(lambda: release.served() == renewed.x509, "it is served", 90, show=release.story)
    assert not missed


def test_an_upgrade_leaves_the_injected_authority(release: CertifiedRelease) -> None:
    release.wait_marks()
    before = release.trusted()
    release.change("upgrade", replicas=2)
    assert release.trusted() == before
    assert release.marks()


def test_both_configurations_of_the_koordinator_adapter_have_the_authority_injected(
    release: CertifiedRelease, cert_manager: CertManager, control_plane: ControlPlane, namespace: str
) -> None:
    values = {
        "global": {"imageRegistry": "registry.example"},
        "nodeSelector": {"test/nowhere": "true"},
        "certificate": BY_CERT_MANAGER,
    }
    helm = release.charted.helm
    helm.change("install", "two", namespace, values=values, chart=KOORDINATOR)
    try:
        name = "two-koordinator-adapter"
        issued = cert_manager.issued(namespace, name)
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            wait_until(
                lambda kind=kind: authorities(control_plane, kind, f"{namespace}.{name}") == {issued.authority},  # type: ignore[misc]
                f"the authority is in the {kind}",
                show=cert_manager.log,
            )
    finally:
        helm.run("uninstall", "two", "--namespace", namespace, "--no-hooks")
