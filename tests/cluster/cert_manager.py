"""The real cert-manager: the controller that issues certificates, and the one that has webhooks trust them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from cryptography import x509

from tests.cluster import definitions
from tests.cluster.api import Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.peers import CERT_MANAGER
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until


class CertManager:
    """Not started yet; its definitions are there. It may do everything. Its webhook, which only checks, is left out."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        definitions.install(plane, definitions.published(CERT_MANAGER.place() / "data"))
        account = str(plane.kubeconfig("cert-manager", plane.account("cert-manager", EVERYTHING)))
        port = free_port()
        arguments = [
            str(plane.programs["cert-manager-controller"]),
            f"--kubeconfig={account}",
            "--leader-elect=false",
            f"--metrics-listen-address=127.0.0.1:{port}",
        ]
        ready = f"http://127.0.0.1:{port}/metrics"
        self.controller = Component(plane.machine, "cert-manager", arguments, ready=lambda: healthy(ready))
        injects = [str(plane.programs["cert-manager-cainjector"]), "--leader-elect=false"]
        self.cainjector = Component(
            plane.machine,
            "cainjector",
            injects,
            ready=lambda: "Starting workers" in self.cainjector.log(),
            environment={"KUBECONFIG": account},
        )

    def __enter__(self) -> CertManager:
        for each in (self.controller, self.cainjector):
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.controller, self.cainjector):
            if each.running:
                each.stop()

    def log(self) -> str:
        """What both printed last."""
        return self.controller.log()[-3000:] + self.cainjector.log()[-3000:]

    def issued(self, namespace: str, name: str) -> Issued:
        """What a Certificate's Secret holds, once it is Ready."""
        path = f"{certificates(namespace)}/{name}"

        def ready() -> Issued:
            found = self.plane.api.get(path)
            assert condition(found, "Ready") == "True"
            assert condition(found, "Issuing") != "True"
            secret = self.plane.api.get(f"/api/v1/namespaces/{namespace}/secrets/{found['spec']['secretName']}")
            return Issued(secret)

        return wait_until(ready, f"{name} is issued", 60, show=self.log)

    def renew(self, namespace: str, name: str) -> Issued:
        """Has one issued anew, as ``cmctl renew`` does; what is issued."""
        before = self.issued(namespace, name)
        path = f"{certificates(namespace)}/{name}"
        wanted = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        others = [each for each in self.plane.api.get(path)["status"]["conditions"] if each["type"] != "Issuing"]
        self.plane.api.merge_patch(f"{path}/status", {"status": {"conditions": [*others, wanted]}})

        def renewed() -> Issued:
            found = self.issued(namespace, name)
            assert found.certificate != before.certificate
            return found

        return wait_until(renewed, f"{name} is renewed", 60, show=self.log)


class Issued:
    """The certificate of a Secret, and the authority that a client has to trust; PEM."""

    def __init__(self, secret: Object) -> None:
        data: dict[str, str] = secret["data"]
        self.certificate, self.authority = (base64.b64decode(data[key]) for key in ("tls.crt", "ca.crt"))

    @property
    def x509(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate)


def certificates(namespace: str) -> str:
    """The collection of a namespace's Certificates."""
    return f"/apis/cert-manager.io/v1/namespaces/{namespace}/certificates"


def condition(found: Object, kind: str) -> str:
    """``True``, ``False``, or nothing, where it is not told."""
    listed: list[dict[str, Any]] = found.get("status", {}).get("conditions") or []
    return next((each["status"] for each in listed if each["type"] == kind), "")
