"""One of several replicas of a server: where it is asked, and its candidacy for the lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from starlette.routing import Route

from hami_plugins.kube.election import BoundedApi, Election
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.endpoints import Endpoints
from hami_plugins.web.probes import Check
from hami_plugins.web.settings import ServedSettings


class Replica:
    """What servers stand on, which add when each part starts and stops.

    ``identity`` is this process alone, among those that stand for the lease. With ``needs_lease`` only the replica that
    has the lease is ready.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: ServedSettings,
        api: BoundedApi,
        *,
        identity: str,
        plain: Iterable[Route],
        webhooks: Iterable[Route],
        ready: Mapping[str, Check],
        needs_lease: bool = False,
        metrics: Metrics,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None] = lambda: None,
    ) -> None:
        self._election = Election(
            api,
            namespace=settings.service.namespace,
            name=settings.lease.name,
            identity=identity,
            timing=settings.lease.timing,
            on_started=on_started,
            on_stopped=on_stopped,
        )
        needed: Mapping[str, Check] = {"lease": self._election.check} if needs_lease else {}
        self._endpoints = Endpoints(
            settings, api, plain=plain, webhooks=webhooks, ready={**needed, **ready}, metrics=metrics
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where extenders, probes, metrics and findings are served."""
        return self._endpoints.address

    @property
    def webhook_address(self) -> tuple[str, int] | None:
        """Where the webhooks are served; ``None`` before the certificate is there."""
        return self._endpoints.webhook_address

    @property
    def addresses(self) -> dict[str, tuple[str, int] | None]:
        """Both, for the log."""
        return {"address": self.address, "webhooks": self.webhook_address}

    @property
    def trouble(self) -> str:
        """Why this replica is not to be asked; empty where it is."""
        return self._endpoints.trouble
