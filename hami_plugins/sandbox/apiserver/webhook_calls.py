"""Webhooks called as the API server calls them: its requests, its rules for their answers, its words for what fails.

Errors of the network are worded as Go does, as far as that can be told from Python's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import orjson
import urllib3
import urllib3.exceptions
from urllib3.util.ssl_ import create_urllib3_context

from hami_plugins.errors import HamiPluginsError
from hami_plugins.sandbox.apiserver import patches
from hami_plugins.sandbox.apiserver.answers import ApiError, internal_error
from hami_plugins.sandbox.apiserver.conditions import UndecidedError
from hami_plugins.sandbox.apiserver.review import Review, ReviewVerdict, changed
from hami_plugins.sandbox.apiserver.webhooks import AdmissionAttributes, Webhook
from hami_plugins.wire.fields import Json

_API: Final = "admission.k8s.io/v1"
_CALLS: Final = 64
"""Webhooks that are waited for at a time."""

_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_HTTP_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallFailedError(HamiPluginsError):
    """A webhook could not be asked, or its answer is none; the failure policy decides what that means."""


class Caller:
    """Calls webhooks, many at a time, from threads of its own. ``close`` ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Ends threads and connections that are idle; the next call makes new ones."""
        with self._lock:
            pools, self._pools = self._pools, {}
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        for pool in pools.values():
            pool.clear()

    async def ask(self, review: Review) -> ReviewVerdict:
        """See ``reviewing.Ask``."""
        return await (self._mutate(review) if review.stage == "mutating" else self._validate(review))

    async def _mutate(self, review: Review) -> ReviewVerdict:
        """One webhook after the other, each with what the earlier ones made."""
        change = review.change
        warnings: list[str] = []
        for webhook in review.webhooks:
            response = await self._response(webhook, change, review)
            if response is None:
                continue
            warnings += response.get("warnings") or []
            operations = _operations(response)
            if operations and change.obj is None:
                why = "attempted to modify the object, which is not supported for this operation"
                raise internal_error(f'admission webhook "{webhook.name}" {why}')
            if operations:
                change = changed(change, _patched(change.obj, operations))
        return ReviewVerdict(change.obj, tuple(warnings))

    async def _validate(self, review: Review) -> ReviewVerdict:
        """All at once; of several refusals the first in order counts."""
        asked = [self._response(webhook, review.change, review) for webhook in review.webhooks]
        found = await asyncio.gather(*asked, return_exceptions=True)
        warnings: list[str] = []
        for each in found:
            if isinstance(each, BaseException):
                raise each
            warnings += (each or {}).get("warnings") or []
        return ReviewVerdict(review.change.obj, tuple(warnings))

    async def _response(self, webhook: Webhook, change: AdmissionAttributes, review: Review) -> Json | None:
        """What a webhook says in favour; ``None`` where it is not asked, or need not answer. Raises ``ApiError``."""
        if not webhook.wants(change, review.labels):
            return None
        request = _request(change)
        try:
            if not webhook.conditions_hold(change, request):
                return None
        except UndecidedError as error:
            if webhook.ignores:
                return None
            resource = f"{change.resource}.{change.group}" if change.group else change.resource
            raise ApiError(403, f'{resource} "{change.name}" is forbidden: {error}') from error
        try:
            response = await self._called(webhook, request, validating=review.stage == "validating")
        except CallFailedError as error:
            if webhook.ignores:
                return None
            raise internal_error(f'failed calling webhook "{webhook.name}": {error}') from error
        if not response.get("allowed"):
            raise _refusal(webhook, response.get("status") or {})
        return response

    async def _called(self, webhook: Webhook, request: Json, *, validating: bool) -> Json:
        client = webhook.raw["clientConfig"]
        url = _url(client, webhook.seconds)
        body = orjson.dumps({"kind": "AdmissionReview", "apiVersion": _API, "request": request})
        loop = asyncio.get_running_loop()
        sent = loop.run_in_executor(self._workers(), self._post, url, client, body, webhook.seconds)
        try:
            data = await asyncio.wait_for(sent, webhook.seconds)
        except TimeoutError as error:
            raise CallFailedError(f'failed to call webhook: Post "{url}": context deadline exceeded') from error
        return _understood(data, request["uid"], validating=validating)

    def _post(self, url: str, client: Json, body: bytes, seconds: int) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        try:
            pool = self._pool(client.get("caBundle") or "")
            answer = pool.request("POST", url, body=body, headers=headers, retries=False, timeout=seconds)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise CallFailedError(f'failed to call webhook: Post "{url}": {_as_go(url, error)}') from error
        if not 200 <= answer.status <= 206:
            raise CallFailedError(f"failed to call webhook: {_status_text(answer)}")
        return answer.data

    def _pool(self, bundle: str) -> urllib3.PoolManager:
        with self._lock:
            found = self._pools.get(bundle)
            if found is None:
                found = self._pools[bundle] = urllib3.PoolManager(maxsize=_CALLS, ssl_context=_trusting(bundle))
            return found

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_CALLS, thread_name_prefix="webhooks")
            return self._threads


def _request(change: AdmissionAttributes) -> dict[str, Any]:
    """The request as the review carries it, which is also what match conditions look at."""
    path = {"group": change.group, "version": change.version, "resource": change.resource}
    kind = {"group": change.kind.group, "version": change.kind.version, "kind": change.kind.kind}
    subresource = {"subResource": change.subresource, "requestSubResource": change.subresource}
    named = {"name": change.name, "namespace": change.namespace}
    return {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": path,
        "requestKind": kind,
        "requestResource": path,
        **(subresource if change.subresource else {}),
        **{member: value for member, value in named.items() if value},
        "operation": change.operation,
        "userInfo": {"username": change.user, "groups": ["system:authenticated"]},
        "object": change.obj,
        "oldObject": change.old,
        "dryRun": change.dry,
        "options": {"kind": _OPTIONS[change.operation], "apiVersion": "meta.k8s.io/v1"},
    }


def _url(client: Json, seconds: int) -> str:
    """Where the webhook is, with its time as the API server appends it."""
    if "url" in client:
        url = str(client["url"])
    else:
        service = client["service"]
        host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port', 443)}"
        path = str(service.get("path") or "/")
        url = f"https://{host}/{path.lstrip('/')}"
        reason = f'service "{service.get("name")}" not found'
        raise CallFailedError(f'failed to call webhook: Post "{url}?timeout={seconds}s": {reason}')
    return f"{url}?timeout={seconds}s"


def _understood(data: bytes, uid: str, *, validating: bool) -> Json:
    """The response of a review. Raises ``CallFailedError`` for everything that is none."""
    try:
        review = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CallFailedError(
            f"failed to call webhook: couldn't get version/kind; json parse error: {error}"
        ) from error
    if not isinstance(review, Mapping):
        raise CallFailedError("failed to call webhook: couldn't get version/kind; json parse error: no object")
    invalid = "received invalid webhook response: "
    response = review.get("response")
    if not isinstance(response, Mapping):
        raise CallFailedError(f"{invalid}webhook response was absent")
    if response.get("uid") != uid:
        raise CallFailedError(f'{invalid}expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    found = f"{review.get('apiVersion')}, Kind={review.get('kind')}"
    if found != f"{_API}, Kind=AdmissionReview":
        raise CallFailedError(f"{invalid}expected webhook response of {_API}, Kind=AdmissionReview, got {found}")
    if validating and (response.get("patch") or response.get("patchType")):
        raise CallFailedError(f"{invalid}validating webhook may not return response.patch")
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        raise CallFailedError(f"{invalid}webhook returned response.patch but not response.patchType")
    return response


def _operations(response: Json) -> list[Any]:
    try:
        operations = orjson.loads(base64.b64decode(response.get("patch") or "W10=", validate=True))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise internal_error(str(error)) from error
    if not isinstance(operations, list):
        raise internal_error("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    return operations


def _patched(obj: Json | None, operations: list[Any]) -> Json:
    try:
        made = patches.json_patch(obj, operations)
    except ApiError as error:
        raise internal_error(f"the patch of the webhook does not apply: {error.message}") from error
    if not isinstance(made, Mapping):
        raise internal_error("the patch of the webhook leaves no object")
    return made


def _refusal(webhook: Webhook, status: Json) -> ApiError:
    """The webhook's own status, its message in the server's words."""
    code = status.get("code")
    code = code if isinstance(code, int) and code >= 400 else 400
    denied = f'admission webhook "{webhook.name}" denied the request'
    why = status.get("message") or status.get("reason")
    return ApiError(
        code, f"{denied}: {why}" if why else f"{denied} without explanation", reason=status.get("reason") or ""
    )


def _trusting(bundle: str) -> ssl.SSLContext | None:
    """TLS that trusts the authorities of a ``caBundle``; ``None`` for those of the system.

    A context is what urllib3 1 takes as well, which TorchX 0.7 pins.
    """
    if not bundle:
        return None
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
    return context


def _status_text(answer: urllib3.BaseHTTPResponse) -> str:
    if answer.status in _HTTP_TEXTS:
        return _HTTP_TEXTS[answer.status]
    if answer.status >= 500:
        told = answer.data.decode(errors="replace").strip()
        readable = answer.headers.get("Content-Type", "text/").startswith("text/")
        why = orjson.dumps(told if readable else "unknown").decode()
        return f"an error on the server ({why}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"


_REFUSED: Final = re.compile(r"\[Errno 111\] Connection refused")


def _as_go(url: str, error: Exception) -> str:
    text = str(error)
    place = url.split("/")[2]
    if _REFUSED.search(text):
        return f"dial tcp {place}: connect: connection refused"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, urllib3.exceptions.SSLError) or "CERTIFICATE_VERIFY_FAILED" in text:
        unknown = "self-signed" in text or "local issuer" in text
        why = "certificate signed by unknown authority" if unknown else text
        return f"tls: failed to verify certificate: x509: {why}"
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "EOF"
    return text
