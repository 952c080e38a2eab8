"""Where a replica is asked: plainly by probes, scrapers and schedulers, and over TLS by the API server for webhooks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route

from hami_plugins.errors import ConfigError
from hami_plugins.kube.port import KubeApi
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.bootstrap import CertificateKeeper, SecretName
from hami_plugins.web.probes import Check, first_trouble, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.web.settings import ServedSettings
from hami_plugins.web.tls import Tls, TlsMetrics


class Endpoints:
    """Two servers, from ``start`` to ``stop``: one for ``plain`` routes and probes, one over TLS for ``webhooks``.

    ``ready`` are the readiness checks of the replica besides its certificate.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: ServedSettings,
        api: KubeApi,
        *,
        plain: Iterable[Route],
        webhooks: Iterable[Route],
        ready: Mapping[str, Check],
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._routes = tuple(webhooks)
        self._tls_metrics = TlsMetrics(metrics)
        self._keeper = _keeper(api, settings) if settings.certificate.bootstrap else None
        self.leaving = threading.Event()
        self._ready: Mapping[str, Check] = {
            "stopping": lambda: "the process ends" if self.leaving.is_set() else "",
            **ready,
            "certificate": lambda: "" if self._webhooks is not None else "the webhooks are not served yet",
        }
        probes = probe_routes(alive={"server": self._ended}, ready=self._ready, metrics=metrics)
        listen = settings.listen
        self._plain = WebServer(Starlette(routes=[*probes, *plain]), host=listen.host, port=listen.port)
        self._webhooks: WebServer | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where probes, metrics and the plain routes are served."""
        return self._plain.address

    @property
    def webhook_address(self) -> tuple[str, int] | None:
        """Where the webhooks are served; ``None`` before the certificate is there."""
        return None if self._webhooks is None else self._webhooks.address

    @property
    def trouble(self) -> str:
        """Why this replica is not to be asked; empty where it is."""
        return first_trouble(self._ready)

    def start(self) -> None:
        """Serves. Raises ``ConfigError`` or ``KubeError`` where an address or a certificate is not to be had."""
        self._plain.start()
        webhooks = WebServer(
            Starlette(routes=self._routes),
            host=self._settings.webhooks.host,
            port=self._settings.webhooks.port,
            tls=self._tls(),
            tls_metrics=self._tls_metrics,
        )
        webhooks.start()
        self._webhooks = webhooks

    def leave(self) -> None:
        """Answers until no client is sent here any more; none is sent to one that is not ready."""
        sent_here = not self.trouble
        self.leaving.set()
        if sent_here:
            time.sleep(self._settings.shutdown_delay)

    def stop(self) -> None:
        """Answers no more. May be called twice."""
        for server in (self._webhooks, self._plain):
            if server is not None:
                server.stop()
        if self._keeper is not None:
            self._keeper.stop()

    def _ended(self) -> str:
        """Why no request is answered before a restart."""
        return "" if self._webhooks is None or self._webhooks.serves else "the server of the webhooks has ended"

    def _tls(self) -> Tls:
        certificate = self._settings.certificate
        directory = Path(certificate.directory)
        files = Tls(certificate=directory / certificate.file, key=directory / certificate.key)
        if self._keeper is not None:
            files = self._keeper.start()
        elif missing := [path for path in (files.certificate, files.key) if not path.exists()]:
            raise ConfigError(
                f"certificate: {missing[0]} is not there; put it there, or have the server make its own "
                "(certificate: {bootstrap: true})"
            )
        return files if certificate.client_ca is None else replace(files, client_ca=Path(certificate.client_ca))


def _keeper(api: KubeApi, settings: ServedSettings) -> CertificateKeeper:
    certificate = settings.certificate
    secret = SecretName(settings.service.namespace, certificate.secret)
    return CertificateKeeper(api, secret, names=settings.certified_names, folder=Path(certificate.directory))
