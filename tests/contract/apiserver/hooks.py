"""Webhooks for cases: an HTTPS server on this machine, and configurations that reach one workspace alone."""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hami_plugins.web.certificates import Material, renewed, write
from hami_plugins.web.server import WebServer
from tests.contract.apiserver.api import Api, Object, Reply
from tests.contract.apiserver.objects import named

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"

NOT_OURS = "kube-root-ca.crt"
"""Kubernetes' own controllers put a config map of this name into every namespace, a while after it was made."""

Answering = Callable[[Object], Any]
"""From the request of a review to the response without its uid, or to a whole HTTP answer."""


class Asked(NamedTuple):
    """A call of a webhook: the request of the review, and the query of the URL."""

    request: Object
    query: dict[str, list[str]]


def allow(_request: Object) -> Object:
    return {"allowed": True}


def patch(*operations: Object) -> Answering:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}


def annotate(key: str, value: str) -> Answering:
    """Adds to annotations that are there."""
    return patch({"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value})


def refuse(**status: Any) -> Answering:
    return lambda _: {"allowed": False, **({"status": status} if status else {})}


class Hooks:
    """Answers under ``/<name>`` as ``on`` says, and keeps what was asked; ``/probe`` allows everything.

    What Kubernetes itself makes in the workspace is allowed, and not kept.
    """

    def __init__(self, api: Api, material: Material, port: Callable[[], int]) -> None:
        self.api = api
        self.space = api.workspace()
        self.asked: dict[str, list[Asked]] = {}
        self._answers: dict[str, Answering] = {"probe": allow}
        self._material = material
        self._port = port

    @property
    def namespace(self) -> str:
        return self.space.rsplit("/", maxsplit=1)[-1]

    def on(self, name: str, answer: Answering) -> None:
        self._answers[name] = answer

    def requests(self, name: str) -> list[Object]:
        return [asked.request for asked in self.asked.get(name, [])]

    def webhook(self, name: str, *, port: int | None = None, **changes: Any) -> Object:
        """A webhook for every write of config maps in the workspace, unless ``changes`` say otherwise."""
        return {
            "name": f"{name}.test.example",
            "clientConfig": {
                "url": f"https://127.0.0.1:{port or self._port()}/{name}",
                "caBundle": base64.b64encode(self._material.trusted).decode(),
            },
            "rules": [rule("configmaps")],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **changes,
        }

    def configure(self, *webhooks: Object, kind: str = "mutating", suffix: str = "") -> str:
        """Put webhooks in force and wait until the server knows of them; the path of the configuration."""
        selector = {"matchLabels": {"probe": f"{kind}{suffix}"}}
        probe = self.webhook("probe", rules=[rule("secrets")], objectSelector=selector)
        path = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
        name = f"{self.namespace}{suffix}"
        self.api.create(path, {"metadata": {"name": name}, "webhooks": [probe, *webhooks]})
        self.api.remember(f"{path}/{name}")
        metadata = {"name": "probe", "labels": {"probe": f"{kind}{suffix}"}}
        deadline = time.monotonic() + 60
        while not self.asked.pop("probe", None):
            assert time.monotonic() < deadline, f"{name} is not in force"
            reply = self.api.ask("POST", f"{self.space}/secrets", {"metadata": metadata}, dryRun="All")
            assert reply.code == 201, reply
        for asked in self.asked.values():
            asked.clear()
        return f"{path}/{name}"

    def respond(self, name: str, query: str, body: bytes) -> Response:
        review = json.loads(body)
        request = review["request"]
        if request.get("name") == NOT_OURS:
            made: Any = allow(request)
        else:
            self.asked.setdefault(name, []).append(Asked(request, parse_qs(query)))
            made = self._answers[name](request)
        if isinstance(made, Response):
            return made
        response = {"uid": request["uid"], **made}
        text = orjson.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        return Response(text, media_type="application/json")


def rule(*resources: str, operations: tuple[str, ...] = ("*",), group: str = "") -> Object:
    return {"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources), "operations": list(operations)}


_made: list[Material] = []
_making = threading.Lock()


def _material() -> Material:
    with _making:
        if not _made:
            _made.append(renewed(None, ["127.0.0.1"], datetime.now(UTC)))
        return _made[0]


@contextlib.contextmanager
def hooks(api: Api) -> Iterator[Hooks]:
    """A workspace with webhooks of its own."""

    async def serve(request: Request) -> Response:
        name, query, body = request.path_params["name"], request.url.query, await request.body()
        return await run_in_threadpool(made.respond, name, query, body)

    with tempfile.TemporaryDirectory() as folder:
        tls = write(_material(), Path(folder))
        server = WebServer(Starlette(routes=[Route("/{name}", serve, methods=["POST"])]), tls=tls, grace=1.0)
        made = Hooks(api, _material(), lambda: server.address[1])
        with server:
            yield made


def told(reply: Reply, code: int) -> str:
    assert reply.code == code, reply
    message: str = reply.body["message"]
    return message


def a_map(name: str = "a", **metadata: object) -> Object:
    return named(name, annotations={"first": "yes"}, **metadata)


def notes(reply: Reply) -> dict[str, str]:
    assert reply.code in (200, 201), reply
    found: dict[str, str] = reply.body["metadata"].get("annotations", {})
    return found


def make(hooked: Hooks, body: Object | None = None, **query: Any) -> Reply:
    return hooked.api.ask("POST", f"{hooked.space}/configmaps", body or a_map(), **query)


@contextlib.contextmanager
def slow(hooked: Hooks, name: str = "slow") -> Iterator[tuple[threading.Event, threading.Event]]:
    """A webhook that says that it was asked, and answers when it is let."""
    arrived, go_on = threading.Event(), threading.Event()

    def wait(_: Object) -> Object:
        arrived.set()
        go_on.wait(5)
        return {"allowed": True}

    hooked.on(name, wait)
    try:
        yield arrived, go_on
    finally:
        go_on.set()


@contextlib.contextmanager
def meanwhile(hooked: Hooks, method: str, path: str, body: Object | None = None) -> Iterator[list[Reply]]:
    """A request under way in the background; its answer is there after the block."""
    got: list[Reply] = []
    asking = threading.Thread(target=lambda: got.append(hooked.api.ask(method, path, body)))
    asking.start()
    yield got
    asking.join()
