"""Requests over the official client's configuration, authentication and connection pools.

Of the official client nothing else is used. Its models cost ten times the parsing, differ between major versions, and
refuse objects with fields they do not know; ``call_api`` changed its parameters between 36 and 37.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import urllib3
import urllib3.exceptions
from kubernetes import client
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from urllib3.connection import HTTPConnection

from hami_plugins.errors import KubeError, UnreachableError
from hami_plugins.kube.interrupter import Interrupter, ThreadRead, make_interruptible

_CONNECT_SECONDS: Final = 5.0
_WATCHES: Final = 4096
"""Room for idle connections of watches. A place costs eight bytes, a watch without one a line in the log."""

_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A server that vanished without a word is noticed after a minute, not when a quiet watch has waited to its end."""

_LAST_YEAR: Final = 9900


class ApiRequest(NamedTuple):
    """What is sent, and ``what`` that is in words for errors. ``path`` comes with its query; who asks is left out."""

    what: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Transport:
    """One cluster: where it is, who asks, and the connections to it. Shared by all threads.

    At most ``connections`` requests run at a time, further ones wait for their turn; each watch has an additional
    connection of its own.
    """

    def __init__(self, settings: client.Configuration, *, connections: int = 16) -> None:
        self.host: str = settings.host
        self.interrupter = Interrupter()
        self._settings = settings
        self._authenticating = threading.Lock()
        self._dated: tuple[datetime, float] | None = None
        if settings.socket_options is None:
            settings.socket_options = [*HTTPConnection.default_socket_options, *_KEEP_ALIVE]
        self._requests = self._pool(maxsize=connections, block=True)
        self._watches = self._pool(maxsize=_WATCHES, block=False)
        # Set once, the proxy is kept: otherwise each renewal of credentials looks for one in the environment again.
        settings.proxy = settings.proxy

    def close(self) -> None:
        """Closes the connections that nothing uses at the moment."""
        for manager in (self._requests, self._watches):
            manager.clear()
            make_interruptible(manager, self.host)

    def server_time(self) -> datetime | None:
        """See ``KubeApi``."""
        if self._dated is None:
            return None
        said, at = self._dated
        return said + timedelta(seconds=time.monotonic() - at)

    @contextlib.contextmanager
    def answer(
        self, request: ApiRequest, *, seconds: float, reading: ThreadRead | None = None, streamed: bool = False
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer, read or still to be ``streamed``; its connection is free after the block.

        ``seconds`` bounds each wait for the server. Raises ``UnreachableError`` where nothing could be sent, and
        ``KubeError`` where the connection tears, also inside of the block.
        """
        headers = {"Accept": "application/json", **request.headers, **self._authorization(request)}
        manager = self._watches if streamed else self._requests
        with self._translated(request), reading.asking() if reading else contextlib.nullcontext():
            response = manager.request(
                request.method,
                f"{self.host}{request.path}",
                headers=headers,
                body=request.body,
                timeout=urllib3.Timeout(total=seconds, connect=min(_CONNECT_SECONDS, seconds)),
                pool_timeout=seconds,
                preload_content=not streamed,
                redirect=False,
                retries=False,
            )
        if (said := moment(response.headers.get("Date"))) is not None:
            self._dated = said, time.monotonic()
        try:
            with self._translated(request):
                yield response
        finally:
            if streamed:
                # A body read to its end has freed the connection already. Otherwise the connection cannot be reused,
                # but its slot can.
                response.close()
                response.release_conn()

    @contextlib.contextmanager
    def _translated(self, request: ApiRequest) -> Iterator[None]:
        try:
            yield
        except (
            urllib3.exceptions.NewConnectionError,
            urllib3.exceptions.ConnectTimeoutError,
            urllib3.exceptions.EmptyPoolError,
        ) as error:
            raise UnreachableError(self._silence(request, error), retryable=True) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(self._silence(request, error), retryable=True) from error

    def _silence(self, request: ApiRequest, error: Exception) -> str:
        return f"{request.what}: {self.host} does not answer: {error}"

    def _authorization(self, request: ApiRequest) -> dict[str, str]:
        """Headers that say who asks, renewed where the configuration knows how (token files, exec plugins).

        One thread renews at a time: an exec plugin asks a person or a cloud, and is to do so once.
        """
        try:
            with self._authenticating:
                known: list[Any] = list(self._settings.auth_settings().values())
        except (ConfigException, OSError, ValueError) as error:
            raise UnreachableError(
                f"{request.what}: credentials for {self.host} cannot be renewed: {error}", retryable=True
            ) from error
        return {each["key"]: each["value"] for each in known if each["in"] == "header" and each["value"]}

    def _pool(self, *, maxsize: int, block: bool) -> urllib3.PoolManager:
        if not self._settings.verify_ssl:  # the kubeconfig asks for this; a warning at each request adds nothing
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        manager: urllib3.PoolManager = RESTClientObject(self._settings).pool_manager
        manager.connection_pool_kw |= {"maxsize": maxsize, "block": block}
        make_interruptible(manager, self.host)
        return manager


def moment(date: str | None) -> datetime | None:
    """What a ``Date`` header says (RFC 9110, 5.6.7); ``None`` where it says nothing that can be read."""
    try:
        found = parsedate_to_datetime(date or "")
    except (ValueError, TypeError, OverflowError):
        return None
    # Nothing can be added to the last of all years.
    return found.replace(tzinfo=found.tzinfo or UTC) if found.year < _LAST_YEAR else None
