"""``KubeApi`` over the official client: its configuration and authentication, raw JSON instead of its models."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlencode

import orjson
import tenacity
import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from yaml import YAMLError

from hami_plugins.errors import KubeError, UnreachableError, WireError
from hami_plugins.kube import paths
from hami_plugins.kube.lines import lines
from hami_plugins.kube.port import Collection, ListPage, Selection, WatchEvent, WatchKind
from hami_plugins.kube.refusals import EXPIRED, refusal
from hami_plugins.kube.transport import ApiRequest, Transport
from hami_plugins.observe.build import version
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pages import load_page

OnRequest = Callable[[str, str, int, float], None]
"""Told of each try of each request: verb, resource as RBAC spells it, HTTP status (0: no answer), seconds."""

_MISSING: Final = frozenset({403, 404})
_TOO_MANY: Final = 429
_ANSWER_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 0.01
_WATCH_GRACE: Final = 15.0
"""Seconds that a server may be late with ending a watch before it is taken for gone."""

_CHUNK: Final = 64 * 1024
_TAG: Final = re.compile(r"<[^>]*>?")
_WATCH_KINDS: Final[frozenset[str]] = frozenset(get_args(WatchKind))
_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


def connect(*, kubeconfig: str | None = None, context: str | None = None, component: str = "cli") -> KubeClient:
    """A client for the cluster that kubeconfig names, or for the cluster this process runs in.

    ``component`` is how the process calls itself in the server's audit log. Raises ``KubeError`` with what was tried
    when neither works.
    """
    settings = client.Configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, context=context, client_configuration=settings
        )
    except (ConfigException, OSError, YAMLError) as outside:
        if kubeconfig or context:
            named = f"kubeconfig {kubeconfig}" if kubeconfig else "kubeconfig"
            raise KubeError(f"{named} cannot be used: {' '.join(str(outside).split())}") from outside
        try:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except ConfigException as inside:
            raise KubeError(
                f"no cluster: {_no_kubeconfig(outside)}. Give --kubeconfig FILE, or plan without a cluster: "
                "--snapshot FILE or --fleet NAME, where the command takes them"
            ) from inside
    return KubeClient(Transport(settings), component=component)


def _no_kubeconfig(error: Exception) -> str:
    """Why the files of kubeconfig cannot be used: most often there are none."""
    named = os.environ.get("KUBECONFIG")
    files = [Path(each).expanduser() for each in (named or "~/.kube/config").split(os.pathsep) if each]
    if not any(each.exists() for each in files):
        return f"no kubeconfig (looked for {' and '.join(map(str, files))})"
    return f"kubeconfig cannot be used: {' '.join(str(error).split())}"


def connect_to(url: str, *, component: str = "cli") -> KubeClient:
    """A client for the server at ``url``, which needs no credentials: an embedded cluster, ``kubectl proxy``."""
    settings = client.Configuration()
    settings.host = url.rstrip("/")
    settings.proxy = None  # it is on this machine; a proxy from the environment knows another one of that name
    return KubeClient(Transport(settings), component=component)


def _nobody(_verb: str, _resource: str, _code: int, _seconds: float) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class KubeClient:
    """See ``KubeApi``. Safe to use from many threads; ``replace`` makes another view of the same connections.

    A request that may be sent twice is: reads and merge patches when the server is busy, ill or out of reach, anything
    when the server said that it was too busy to look at it or was not reached at all. ``attempts`` and ``deadline``
    (seconds) bound the tries of one request, with growing pauses between them; a server that names a pause gets it.
    """

    transport: Transport
    attempts: int = 4
    deadline: float = 60.0
    component: str = "cli"
    on_request: OnRequest = _nobody

    def within(self, seconds: float) -> KubeClient:
        """The same client with another deadline, for callers who are waited for."""
        return replace(self, deadline=seconds)

    def close(self) -> None:
        """Closes the idle connections. Not needed before the process ends; the client stays usable."""
        self.transport.close()

    def pages(self, collection: Collection, *, page_size: int = 500) -> Iterator[list[Json]]:
        """See ``ClusterReader``. A list that outlives its snapshot on the server is read on from a newer one, once."""
        token, renewed = "", False
        while True:
            query = {"limit": str(page_size)} | ({"continue": token} if token else {})
            query |= {"fieldSelector": collection.fields} if collection.fields else {}
            try:
                body = self._call("list", f"{collection.path}?{urlencode(query)}", again=_worthwhile)
            except KubeError as error:
                if error.status in _MISSING and collection.optional:
                    return
                if error.status == EXPIRED and token and not renewed:
                    token, renewed = error.continue_token, True
                    continue
                raise
            yield _items(body, collection.kind)
            token = (body.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[ListPage]:
        """See ``Watching``. A list that expires between two pages is not read on: its parts would not fit together."""
        query = _selectors(selection) | {"limit": str(page_size)}
        if version:
            query["resourceVersion"] = version
        while True:
            body = self._call("list", f"{selection.path}?{urlencode(query)}", again=_worthwhile, stop=stop)
            told = body.get("metadata") or {}
            yield ListPage(_items(body, selection.kind), str(told.get("resourceVersion") or ""))
            token = told.get("continue") or ""
            if not token:
                return
            # The token holds the version; the server refuses both together.
            query.pop("resourceVersion", None)
            query["continue"] = token

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        """See ``Watching``. Never tried again here: who watches knows where to go on."""
        query = _selectors(selection) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        stream = self._stream(f"{selection.path}?{urlencode(query)}", stop, timeout)
        next(stream, None)
        return stream

    def get(self, path: str) -> Json:
        """See ``KubeApi``."""
        return self._call("get", path, again=_worthwhile)

    def server_time(self) -> datetime | None:
        """See ``KubeApi``."""
        return self.transport.server_time()

    def create(self, path: str, body: Json) -> Json:
        """See ``KubeApi``."""
        return self._call("create", path, body, again=_unprocessed)

    def replace(self, path: str, body: Json) -> Json:
        """See ``KubeApi``."""
        conditional = bool((body.get("metadata") or {}).get("resourceVersion"))
        return self._call("update", path, body, again=_worthwhile if conditional else _unprocessed)

    def delete(self, path: str, *, body: Json | None = None) -> Json:
        """See ``KubeApi``."""
        return self._call("delete", path, body, again=_unprocessed)

    def merge_patch(self, path: str, body: Json) -> Json:
        """See ``KubeApi``."""
        return self._call("patch", path, body, again=_worthwhile)

    def _call(
        self,
        verb: str,
        path: str,
        body: Json | None = None,
        *,
        again: Callable[[KubeError], bool],
        stop: threading.Event | None = None,
    ) -> dict[str, Any]:
        """The answer, tried for as often as ``again`` says that an error allows it, until ``stop`` is set."""
        patient = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts) | tenacity.stop_before_delay(self.deadline),
            wait=_pause,
            sleep=partial(_sleep, stop),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, KubeError) and again(error)),
            reraise=True,
        )
        ends = time.monotonic() + self.deadline
        return patient(self._ask, verb, path, body, stop, ends)

    def _ask(
        self, verb: str, path: str, body: Json | None, stop: threading.Event | None, ends: float
    ) -> dict[str, Any]:
        """One try."""
        request = self._request(verb, path, body)
        if stop and stop.is_set():
            raise KubeError(f"{request.what}: given up, the process stops")
        seconds = min(_ANSWER_SECONDS, max(_LEAST_SECONDS, ends - time.monotonic()))
        with contextlib.ExitStack() as held:
            reading = held.enter_context(self.transport.interrupter.until(stop)) if stop else None
            status = held.enter_context(self._counted(verb, path))
            response = held.enter_context(self.transport.answer(request, seconds=seconds, reading=reading))
            status.append(response.status)
            return _understood(verb, path, response, response.data)

    def _stream(self, path: str, stop: threading.Event, timeout: float) -> Generator[WatchEvent, None, None]:
        """The events of one watch. Before them comes a bookmark that is only the news that the watch is open."""
        try:
            with self.transport.interrupter.until(stop) as reading, contextlib.ExitStack() as held:
                with self._counted("watch", path) as status:
                    response = held.enter_context(
                        self.transport.answer(
                            self._request("watch", path), seconds=timeout + _WATCH_GRACE, reading=reading, streamed=True
                        )
                    )
                    status.append(response.status)
                if not _succeeded(response):
                    _understood("watch", path, response, response.data)
                yield WatchEvent("BOOKMARK", {})
                for line in lines(_chunks(response)):
                    if stop.is_set():
                        return
                    yield _event(path, line)
        except KubeError:
            if not stop.is_set():
                raise

    @contextlib.contextmanager
    def _counted(self, verb: str, path: str) -> Iterator[list[int]]:
        began = time.monotonic()
        status: list[int] = []
        try:
            yield status
        finally:
            code = status[0] if status else 0
            self.on_request(verb, paths.target(path).rule, code, time.monotonic() - began)

    def _request(self, verb: str, path: str, body: Json | None = None) -> ApiRequest:
        headers = {"User-Agent": f"hami-plugins/{version()} ({self.component})"}
        what = f"{verb} {path.partition('?')[0]}"
        if body is None:
            return ApiRequest(what, _METHODS[verb], path, headers)
        headers["Content-Type"] = "application/merge-patch+json" if verb == "patch" else "application/json"
        return ApiRequest(what, _METHODS[verb], path, headers, orjson.dumps(body, default=_plain))


def _worthwhile(error: KubeError) -> bool:
    return error.may_retry


def _unprocessed(error: KubeError) -> bool:
    """Whether the server certainly did nothing, so that even what must not happen twice may be asked for again."""
    return error.status == _TOO_MANY or isinstance(error, UnreachableError)


_growing: Final = tenacity.wait_random_exponential(multiplier=0.2, max=5)


def _pause(state: tenacity.RetryCallState) -> float:
    """What the server asked for, and always something random: many clients were turned away at the same moment."""
    error = state.outcome.exception() if state.outcome else None
    wanted = error.retry_after if isinstance(error, KubeError) else None
    return (wanted or 0.0) + _growing(state)


def _sleep(stop: threading.Event | None, seconds: float) -> None:
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)


def _selectors(selection: Selection) -> dict[str, str]:
    wanted = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
    return {key: value for key, value in wanted.items() if value}


def _items(body: dict[str, Any], kind: str) -> list[Json]:
    items: list[Any] = body.get("items") or []
    for item in items:
        if isinstance(item, dict):
            item.setdefault("kind", kind)
    return items


def _succeeded(response: urllib3.BaseHTTPResponse) -> bool:
    return 200 <= response.status < 300


def _understood(verb: str, path: str, response: urllib3.BaseHTTPResponse, data: bytes) -> dict[str, Any]:
    try:
        body = load_page(path, data)
    except WireError as error:
        if not _succeeded(response):
            body = {"message": _text(data)}
        else:
            text = (
                f"{verb} {path.partition('?')[0]}: {response.status}, and the answer is not JSON; "
                "is this a Kubernetes API server?"
            )
            raise KubeError(text, status=response.status) from error
    if _succeeded(response) and isinstance(body, dict):
        return body
    raise refusal(verb, path, response.status, body, retry_after=response.headers.get("Retry-After"))


def _text(data: bytes) -> str:
    """The beginning of an answer that is no JSON, in one line; of a web page without its tags."""
    text = data[:200].decode(errors="replace")
    page = text.lstrip().startswith("<")
    said = " ".join((_TAG.sub(" ", text) if page else text).split())
    return f"{said}; is this a Kubernetes API server?" if page else said


def _chunks(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The body as it arrives, also where a proxy has taken the chunks away."""
    read = getattr(response, "read1", None) or partial(_read_of_old, response)
    while chunk := read(_CHUNK):
        yield chunk


def _read_of_old(response: Any, most: int) -> bytes:
    """``read1`` for urllib3 1, which has none: TorchX 0.7 does not allow a newer one.

    The answer below it has one, which understands chunks; the errors and the end of the connection are urllib3's.
    """
    with response._error_catcher():  # noqa: SLF001 - urllib3 1 changes no more
        chunk: bytes = response._fp.read1(most)  # noqa: SLF001
        return chunk


def _event(path: str, line: bytes) -> WatchEvent:
    """Raises ``KubeError`` for the line with which a server ends a watch, and for a line that is not an event."""
    try:
        told = orjson.loads(line)
        kind, body = told["type"], told["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise KubeError(f"watch {path.partition('?')[0]}: a line is not an event: {line[:200]!r}") from error
    if kind == "ERROR" or kind not in _WATCH_KINDS:
        code = body.get("code") if isinstance(body, dict) else None
        raise refusal("watch", path, code if isinstance(code, int) else 500, body)
    return WatchEvent(kind, body)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
