"""``ClusterReader`` over the official client: its configuration and authentication, raw JSON instead of its models.

The models are left out on purpose: they cost ten times the parsing, differ between major versions, and refuse objects
with fields they do not know. So is ``call_api``, whose parameters changed between 36 and 37.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import tenacity
import urllib3
import urllib3.exceptions
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from hami_plugins.errors import KubeError, WireError
from hami_plugins.kube.port import Collection, Raw
from hami_plugins.wire.pages import load_page

_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})
_MISSING: Final = frozenset({403, 404})
_EXPIRED: Final = 410
_OK: Final = 200
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=60.0)


def connect(*, kubeconfig: str | None = None, context: str | None = None) -> KubeClient:
    """A client for the cluster that kubeconfig names, or for the cluster this process runs in.

    Raises ``KubeError`` with what was tried when neither works.
    """
    settings = client.Configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, context=context, client_configuration=settings
        )
    except (ConfigException, OSError) as outside:
        if kubeconfig or context:
            raise KubeError(f"kubeconfig cannot be used: {outside}") from outside
        try:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except ConfigException as inside:
            raise KubeError(
                f"no cluster: kubeconfig cannot be used ({outside}), and this is no pod ({inside}); "
                "give --snapshot FILE, --fleet NAME or --kubeconfig FILE"
            ) from inside
    return KubeClient(client.ApiClient(settings), host=settings.host)


@dataclass(frozen=True, slots=True)
class KubeClient:
    """Reads collections page by page. ``attempts`` bounds the tries of one page, with growing pauses between them."""

    api: client.ApiClient
    host: str
    attempts: int = 4

    def pages(self, collection: Collection, *, page_size: int = 500) -> Iterator[list[Raw]]:
        """See ``ClusterReader``. A list that outlives its snapshot on the server is read on from a newer one, once."""
        token, renewed = "", False
        while True:
            try:
                body = self._page(collection, page_size, token)
            except KubeError as error:
                if error.status in _MISSING and collection.optional:
                    return
                if error.status == _EXPIRED and token and not renewed:
                    token, renewed = error.continue_token, True
                    continue
                raise
            items = body.get("items") or []
            for item in items:
                item.setdefault("kind", collection.kind)
            yield items
            token = (body.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def _page(self, collection: Collection, page_size: int, token: str) -> dict[str, Any]:
        query: dict[str, str] = {"limit": str(page_size)}
        if token:
            query["continue"] = token
        patient = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, KubeError) and error.may_retry),
            reraise=True,
        )
        return patient(self._get, f"{collection.path}?{urlencode(query)}")

    def _get(self, path: str) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        for setting in self.api.configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        try:
            response = self.api.rest_client.pool_manager.request(
                "GET", f"{self.host}{path}", headers=headers, timeout=_TIMEOUT, retries=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(f"{self.host} does not answer: {error}", retryable=True) from error
        try:
            body: dict[str, Any] = load_page(path, response.data)
        except WireError as error:
            raise KubeError(
                f"GET {path.split('?', maxsplit=1)[0]}: {response.status}, and the answer is not JSON"
            ) from error
        if response.status == _OK:
            return body
        raise KubeError(
            f"GET {path.split('?', maxsplit=1)[0]}: {response.status} {body.get('message') or response.reason}",
            status=response.status,
            retryable=response.status in _RETRYABLE,
            continue_token=(body.get("metadata") or {}).get("continue") or "",
        )
