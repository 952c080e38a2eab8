"""One self-signed certificate for all replicas of a server, kept in a Secret, and the configurations that trust it.

Every replica does the same, so it does not matter which comes first: existing objects are read, missing ones are
created, and each write fails if another replica has written in between. A server writes only the Secret. The CA bundle
for API servers is written by ``establish``, which a short-lived process with an account of its own runs: an account
that may write a webhook configuration may have any pod of the cluster rewritten.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

import structlog

from hami_plugins.errors import ConfigError, ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.web.certificates import USUAL, Lifetimes, Material, renewed, rotated, write
from hami_plugins.web.tls import Tls
from hami_plugins.wire.fields import Json

_TRIES: Final = 8
"""Writes that lose a race, until something else must be wrong."""

_RETRY_SECONDS: Final = 5.0
_MISSING: Final = 404
_APART: Final = timedelta(minutes=5)
"""How much two clocks may differ; certificates are valid since so long before they were made."""


class SecretName(NamedTuple):
    """Where the material is kept."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WebhookConfiguration(NamedTuple):
    """A configuration whose webhooks are all ours. It belongs to the cluster, not to a namespace."""

    kind: Literal["mutating", "validating"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} webhook configuration {self.name}"


def _now() -> datetime:
    return datetime.now(UTC)


def shared_material(
    api: KubeApi,
    secret: SecretName,
    names: Sequence[str],
    *,
    lifetimes: Lifetimes = USUAL,
    now: Callable[[], datetime] = _now,
) -> Material:
    """What the Secret holds, renewed and written back if that is due; who loses a race takes what the winner wrote.

    A Secret that is there and empty is filled, one that holds something else is overwritten, and logged. The API server
    verifies certificates, so its clock decides what is valid; ``now`` where it does not tell. Raises ``KubeError``.
    """
    return _shared(api, secret, lambda held: renewed(held, names, api.server_time() or now(), lifetimes))


def establish(  # noqa: PLR0913 - where it is kept, for which service, and options for tests
    api: KubeApi,
    secret: SecretName,
    names: Sequence[str],
    configurations: Sequence[WebhookConfiguration],
    *,
    lifetimes: Lifetimes = USUAL,
    now: Callable[[], datetime] = _now,
) -> tuple[WebhookConfiguration, ...]:
    """Make the configurations trust what servers sign with; those that this changed.

    A new authority is made where there is none, and where the newest one has a third of its lifetime left. The
    configurations trust it before the Secret has it, so no server signs with one that is not trusted. Raises
    ``KubeError``.
    """
    changed: dict[WebhookConfiguration, None] = {}

    def trust(material: Material) -> None:
        changed.update((each, None) for each in configurations if put_trust(api, each, material.trusted))

    _shared(api, secret, lambda held: rotated(held, names, api.server_time() or now(), lifetimes), before=trust)
    return tuple(changed)


def _shared(
    api: KubeApi,
    secret: SecretName,
    renew: Callable[[Material | None], Material],
    *,
    before: Callable[[Material], None] = lambda _material: None,
) -> Material:
    """What the Secret holds, renewed; ``before`` is called with what it is going to hold."""
    for _ in range(_TRIES):
        found = _existing(api, paths.secret(*secret))
        held, material = _renewed(found, secret, renew)
        before(material)
        if material == held:
            return material
        try:
            _write(api, secret, found, material)
        except ContentionError:
            continue
        return material
    raise KubeError(f"secret {secret}: it changed {_TRIES} times before it could be written; find its other writer")


def put_trust(api: KubeApi, configuration: WebhookConfiguration, trusted: bytes) -> bool:
    """Make the webhooks of a configuration trust the authorities; whether that changed it.

    Raises ``KubeError``, with status 404 if the configuration does not exist.
    """
    path = paths.webhook_configuration(configuration.kind, configuration.name)
    bundle = base64.b64encode(trusted).decode()
    for _ in range(_TRIES):
        found = api.get(path)
        webhooks = found.get("webhooks") or []
        wanted = [
            {**each, "clientConfig": {**(each.get("clientConfig") or {}), "caBundle": bundle}} for each in webhooks
        ]
        if wanted == webhooks:
            return False
        version = found["metadata"]["resourceVersion"]
        try:
            api.merge_patch(path, {"metadata": {"resourceVersion": version}, "webhooks": wanted})
        except ContentionError:
            continue
        return True
    raise KubeError(f"{configuration}: it changed {_TRIES} times before it could be written; find its other writer")


class CertificateKeeper:
    """Keeps the files of a server up to date, from a thread, until it is stopped.

    ``folder`` gets the files (``Tls`` of ``start``). Every ``every`` seconds the Secret is read. ``now`` is this
    machine's clock.
    """

    def __init__(  # noqa: PLR0913 - where it is kept, for which service, and options for tests
        self,
        api: KubeApi,
        secret: SecretName,
        *,
        names: Sequence[str],
        folder: Path,
        lifetimes: Lifetimes = USUAL,
        every: float = 60.0,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._api = api
        self._secret = secret
        self._names = tuple(names)
        self._folder = folder
        self._lifetimes = lifetimes
        self._every = every
        self._now = now
        self._wrong = ""
        self._apart = False
        self._log = structlog.get_logger(__name__).bind(kept_in=str(secret))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Tls:
        """The files, ready to be served; they are kept up to date from now on. Raises ``KubeError``."""
        files = self._renew()
        self._thread = threading.Thread(target=self._keep, name="certificate-keeper", daemon=True)
        self._thread.start()
        return files

    def stop(self, timeout: float = 5.0) -> None:
        """Ends; a request that hangs may live on after ``timeout`` seconds. May be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def check(self) -> str:
        """What is wrong, in words for an operator; empty when all is well (see ``probes.Check``)."""
        return self._wrong

    def _renew(self) -> Tls:
        """One round: the Secret and the files."""
        material = shared_material(self._api, self._secret, self._names, lifetimes=self._lifetimes, now=self._now)
        self._compare_clocks()
        return write(material, self._folder)

    def _compare_clocks(self) -> None:
        """A wrong clock is logged once. It harms no certificate, but much else."""
        own, server = self._now(), self._api.server_time()
        apart = server is not None and abs(server - own) > _APART
        if apart and not self._apart:
            remedy = "set the clocks of this node and of the API server by NTP"
            self._log.warning("clocks_differ", own=str(own), api_server=str(server), remedy=remedy)
        self._apart = apart

    def _keep(self) -> None:
        while not self._stop.wait(_RETRY_SECONDS if self.check() else self._every):
            try:
                self._renew()
            except Exception as error:  # noqa: BLE001 - the outermost loop: nothing may end it but stop()
                why = f"secret {self._secret}: {error}"
                if self._wrong != why:
                    self._log.warning("certificate_upkeep_failed", error=str(error))
                self._wrong = why
            else:
                self._wrong = ""


def _existing(api: KubeApi, path: str) -> Json | None:
    try:
        return api.get(path)
    except KubeError as error:
        if error.status == _MISSING:
            return None
        raise


def _renewed(
    found: Json | None, secret: SecretName, renew: Callable[[Material | None], Material]
) -> tuple[Material | None, Material]:
    """What the Secret holds, if that can be used, and what it is to hold."""
    data = (found or {}).get("data") or {}
    if any(data.values()):
        try:
            held = Material.of_secret(data)
            return held, renew(held)
        except ValueError as error:
            structlog.get_logger(__name__).warning("secret_not_usable", kept_in=str(secret), error=str(error))
    return None, renew(None)


def _write(api: KubeApi, secret: SecretName, found: Json | None, material: Material) -> None:
    if found is None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": secret.namespace, "name": secret.name},
            "type": "kubernetes.io/tls",
            "data": material.secret_data(),
        }
        api.create(paths.secrets(secret.namespace), body)
        return
    if found.get("immutable"):
        raise ConfigError(f"secret {secret} is immutable, and its certificate has to be renewed; delete it")
    version = found["metadata"]["resourceVersion"]
    api.merge_patch(paths.secret(*secret), {"metadata": {"resourceVersion": version}, "data": material.secret_data()})
