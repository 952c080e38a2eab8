"""A webhook that holds Bindings between the answer of the allocator and the write of the API server."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.cluster.api import ApiError, Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PROBE: Final = "probe"
SECONDS: Final = 10
"""The API server waits no longer."""


class Holding:
    """While in force no pod of the namespace is bound before ``let_go``. ``came`` is set when the first Binding waits.

    Validating webhooks are asked after all mutating ones.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.came = threading.Event()
        self._in_force = threading.Event()
        self._let_go = threading.Event()
        self._plane = plane
        self._namespace = namespace
        self._name = f"holding-{secrets.token_hex(3)}"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plane.pki.server_certificate, plane.pki.server_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name=self._name, daemon=True)

    def let_go(self) -> None:
        """Bindings that wait go on, and later ones pass."""
        self._let_go.set()

    def __enter__(self) -> Holding:
        self._thread.start()
        self._plane.apply(HOOKS, self._configuration())
        wait_until(self._is_asked, "the API server asks about Bindings")
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._plane.api.delete(f"{HOOKS}/{self._name}")
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _is_asked(self) -> bool:
        """Binds a pod that there is not, without doing it: webhooks hear of it before anybody looks for the pod."""
        target = {"kind": "Node", "name": PROBE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": PROBE}, "target": target}
        try:
            path = f"{pods(self._namespace)}/{PROBE}/binding"
            self._plane.api.request("POST", path, body, query={"dryRun": "All"})
        except ApiError as error:
            if error.status != 404:
                raise
        return self._in_force.is_set()

    def _configuration(self) -> Object:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}
        hook = {
            "name": "holding.test.hami-plugins.io",
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_port}/",
                "caBundle": base64.b64encode(self._plane.pki.ca.read_bytes()).decode(),
            },
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": SECONDS,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [hook],
        }

    def _wait(self, name: str) -> None:
        if name == PROBE:
            self._in_force.set()
            return
        self.came.set()
        self._let_go.wait(SECONDS)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        wait = self._wait

        class Handler(BaseHTTPRequestHandler):
            """Allows everything, in time."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                wait(asked["request"]["name"])
                said = {**asked, "request": None, "response": {"uid": asked["request"]["uid"], "allowed": True}}
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the waiting pods are the evidence."""

        return Handler
