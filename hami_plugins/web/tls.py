"""TLS for servers, with certificates that may change while connections are open.

Each handshake gets the newest valid context; one in use is never changed. So a broken pair of files affects no client,
and an open connection keeps its context.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.errors import ConfigError
from hami_plugins.observe.metrics import Metrics

_Signature = tuple[tuple[int, int, int, int], ...]

_TRIES: Final = 3
"""Certificate and key are two files: who reads between their two writes sees a pair that does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files of a certificate chain and its key, PEM; both may be one file.

    With ``client_ca`` only clients with a certificate from one of those authorities are served.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def __str__(self) -> str:
        others = (path for path in (self.key, self.client_ca) if path is not None)
        return " and ".join(map(str, dict.fromkeys((self.certificate, *others))))

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are read."""
        return tuple(path for path in (self.certificate, self.key, self.client_ca) if path is not None)


class TlsMetrics:
    """What is counted of the certificates of one process."""

    def __init__(self, metrics: Metrics) -> None:
        self.changes = metrics.counter(
            "tls_certificate_changes_total", "Changes of the files, by outcome: taken or broken", ("outcome",)
        )
        self.expires = metrics.gauge(
            "tls_certificate_expiry_timestamp_seconds", "When the served certificate expires, in Unix time"
        )


class Rotation:
    """A context for a server that follows ``files``, looked at every ``every`` seconds between start and stop.

    Unusable new files are logged and counted once, and the last good ones stay in use. Raises ``ConfigError`` while
    there are no good ones.
    """

    def __init__(self, files: Tls, *, metrics: TlsMetrics | None = None, every: float = 1.0) -> None:
        self._files = files
        self._metrics = metrics
        self._every = every
        self._log = structlog.get_logger(__name__).bind(certificate=str(files.certificate))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: _Signature | None = None
        try:
            self._seen, self._current = self._read()
            self.context = self._outer()
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS with {files}: {error}") from error

    def start(self) -> None:
        """Follows the files from now on."""
        self._thread = threading.Thread(target=self._follow, name="web-certificates", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Follows them no longer. May be called twice, and without a start."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> bool:
        """Takes the files as they are now; whether that changed anything."""
        try:
            if self._signature() == self._seen:
                return False
            self._seen, self._current = self._read()
        except (OSError, ValueError) as error:
            self._broken(error)
            return False
        self._count("taken")
        self._log.info("certificate_changed")
        return True

    def _follow(self) -> None:
        told = ""
        while not self._stop.wait(self._every):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the outermost loop: without it the certificate runs out one day
                if told != repr(error):
                    told = repr(error)
                    self._log.exception("certificate_not_looked_at")

    def _broken(self, error: Exception) -> None:
        try:
            seen = self._signature()
        except OSError:
            seen = ()
        if seen != self._seen:
            self._seen = seen
            self._count("broken")
            self._log.error("certificate_not_usable", error=str(error), remedy="the last good one is served on")

    def _count(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.changes.labels(outcome).inc()

    def _read(self) -> tuple[_Signature, ssl.SSLContext]:
        """A context of the files, and which files those were."""
        left = _TRIES
        while True:
            seen = self._signature()
            try:
                context = _context(self._files)
                self._tell_expiry()
            except (OSError, ValueError):
                left -= 1
                if not left or self._signature() == seen:
                    raise
            else:
                return seen, context

    def _tell_expiry(self) -> None:
        if self._metrics is not None:
            # Here, because it takes 8 MiB, and only a server that is asked for TLS needs it.
            from cryptography import x509  # noqa: PLC0415

            found = x509.load_pem_x509_certificate(self._files.certificate.read_bytes())
            self._metrics.expires.set(found.not_valid_after_utc.timestamp())
            if found.not_valid_before_utc > datetime.now(UTC):
                begins = str(found.not_valid_before_utc)
                remedy = "clients refuse it until then; see the clock of the machine that made it, and of this one"
                self._log.error("certificate_not_valid_yet", begins=begins, remedy=remedy)

    def _signature(self) -> _Signature:
        """Changes with what the files hold, also where a link now leads elsewhere, as Kubernetes changes its mounts."""
        found = [path.stat() for path in self._files.files]
        return tuple((each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in found)

    def _outer(self) -> ssl.SSLContext:
        """The context that the server knows, which hands every handshake to the current one."""
        outer = _context(self._files)

        def newest(connection: ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext) -> None:
            connection.context = self._current

        outer.sni_callback = newest
        return outer


def _context(files: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
