"""One active replica at a time, by a Lease: the rules of client-go's leader election, over ``KubeApi``.

Times written by other holders are never compared with the local clock. A holder's lease counts from the moment at which
*this process* saw its record change. This process is active only while no other that saw its last write can take over:
its own lease counts from before that write was sent, and it gives up ``duration - deadline`` earlier than the others
may begin.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from hami_plugins.errors import ConfigError, ContentionError, KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.kube.leases import holder_of
from hami_plugins.kube.port import KubeApi
from hami_plugins.wire.fields import Json

_MISSING: Final = 404
_JITTER: Final = 1.2
_RELEASED: Final = 1
"""Seconds that a lease without a holder is valid; client-go writes the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds. A holder that has not renewed for ``duration`` may be replaced; it gives up after ``deadline`` itself.

    It renews every ``retry`` seconds, and others look as often.
    """

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry * _JITTER < self.deadline < self.duration:
            raise ConfigError(
                f"lease: duration={self.duration} deadline={self.deadline} retry={self.retry}: the duration has to be "
                f"longer than the deadline, and the deadline longer than {_JITTER} times the retry"
            )


USUAL: Final = LeaseTiming()


class Bounded(Protocol):
    """An API server whose requests can be given a time to end in; ``KubeClient`` is one."""

    def within(self, seconds: float) -> KubeApi:
        """The same, with no request longer than that."""


class BoundedApi(KubeApi, Bounded, Protocol):
    """All that is asked of an API server, with and without such a time."""


def _nothing() -> None:
    """Does nothing."""


def _utc() -> datetime:
    return datetime.now(UTC)


class Election:
    """A candidate for a Lease, from ``start`` to ``stop``; ``active`` says whether it has it now.

    ``identity`` is this process alone. ``on_started`` and ``on_stopped`` are called in turn, from the candidate's own
    thread, so they have to be quick: no renewal is sent meanwhile. ``on_stopped`` may be late, where a request hangs or
    the process was frozen; ``active`` never is, and what must not be done twice asks it. A candidate that lost goes on
    as one, and one for which ``on_started`` raises has lost. ``stop`` hands the Lease back, so that the next one need
    not wait.
    """

    def __init__(  # noqa: PLR0913 - who, for what, and what tests want to choose
        self,
        api: Bounded,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming = USUAL,
        on_started: Callable[[], None] = _nothing,
        on_stopped: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc,
        luck: random.Random | None = None,
    ) -> None:
        if not identity:
            raise ConfigError(f"lease {namespace}/{name}: a candidate needs an identity")
        self._api = api
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._timing = timing
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._clock = clock
        self._now = now
        self._luck = luck or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._log = structlog.get_logger(__name__).bind(lease=f"{namespace}/{name}", identity=identity)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._until = float("-inf")
        self._told = False
        self._seen: tuple[object, float, float] | None = None
        self.holder = ""
        self.last_error = ""

    @property
    def active(self) -> bool:
        """Whether no other candidate can have the Lease at this moment. Quick, from any thread."""
        return self._clock() < self._until

    def check(self) -> str:
        """Why it is not active, in words for an operator; empty when it is (see ``probes.Check``)."""
        if self.active:
            return ""
        held = f"held by {self.holder}" if self.holder else "not held"
        return f"lease {self._namespace}/{self._name} is {held}" + (f"; {self.last_error}" if self.last_error else "")

    def start(self) -> None:
        """Stands for election from now on."""
        self._thread = threading.Thread(target=self._run, name=f"election-{self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops being active, then hands the Lease back if it can. May be called twice."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def step(self) -> None:
        """One look at the Lease, and one write where that is due: to take it, or to renew it."""
        try:
            self._look()
        except ContentionError as error:
            self._failed(error, "another candidate was faster")
        except KubeError as error:
            self._failed(error, str(error))
        else:
            self.last_error = ""
        self._tell()

    def resign(self) -> None:
        """Is active no longer, and says so in the Lease if it can; waits for that no longer than the lease is ours."""
        left = self._until - self._clock()
        self._until = float("-inf")
        self._tell()
        if left <= 0:
            return
        try:
            api = self._api.within(min(left, self._timing.retry))
            lease = api.get(self._path)
            if _identity(lease) == self.identity:
                api.replace(self._path, self._written(lease, holder=""))
                self._log.info("lease_released")
        except KubeError as error:
            self._log.warning("lease_not_released", error=str(error), remedy="the next one waits for its end")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - the outermost loop: nothing may end it but stop()
                self._failed(error, str(error))
                self._log.exception("election_failed")
                self._tell()
            self._stop.wait(self.pause())
            if not self.active:
                self._tell()
        self.resign()

    def pause(self) -> float:
        """Seconds to the next step: never past the moment at which this candidate stops being active, or may begin."""
        usual, now = self._timing.retry, self._clock()
        if self.active:
            return max(0.0, min(usual, self._until - now))
        usual = self._luck.uniform(usual, usual * _JITTER)
        _, since, duration = self._seen or (None, now, usual)
        left = since + duration - now
        return min(usual, left) if left > 0 else usual

    def _look(self) -> None:
        try:
            lease = self._within().get(self._path)
        except KubeError as error:
            if error.status != _MISSING:
                raise
            lease = None
        if not self._free(lease):
            self._until = float("-inf")
            return
        sent = self._clock()
        if lease is None:
            self._within().create(paths.leases(self._namespace), self._made())
        else:
            self._within().replace(self._path, self._written(lease, holder=self.identity))
        # Counted from before the write was sent: no other process can have seen it earlier.
        self._until = sent + self._timing.deadline
        self.holder = self.identity

    def _within(self) -> KubeApi:
        """A request may take what is left to a candidate that is active."""
        left = self._until - self._clock()
        return self._api.within(left if left > 0 else self._timing.deadline)

    def _free(self, lease: Json | None) -> bool:
        """Whether the Lease is ours, free, or of a candidate that did not renew it in time.

        One that was deleted may still be believed in by its last holder, if there was one.
        """
        if lease is not None:
            self.holder = _identity(lease)
        if self.holder in ("", self.identity):
            return True
        return self._ran_out(lease or {})

    def _ran_out(self, lease: Json) -> bool:
        """Whether another's record has not changed, before our eyes, for as long as it says that it holds."""
        spec = lease.get("spec")
        now = self._clock()
        if self._seen is None or self._seen[0] != spec:
            self._seen = spec, now, self._duration(lease)
        _, since, duration = self._seen
        return now >= since + duration

    def _duration(self, lease: Json) -> float:
        try:
            held = holder_of(lease)
        except WireError as error:
            self._log.warning("lease_not_readable", error=str(error))
            return self._timing.duration
        return held.duration.total_seconds() if held else self._timing.duration

    def _made(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
        }
        return self._written(fresh, holder=self.identity)

    def _written(self, lease: Json, *, holder: str) -> dict[str, Any]:
        """The Lease with a new record; members that are not ours stay."""
        spec = dict(lease.get("spec") or {})
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != holder and holder:
            transitions = spec.get("leaseTransitions")
            spec["leaseTransitions"] = transitions + 1 if isinstance(transitions, int) else 0
            spec["acquireTime"] = stamp
        spec["holderIdentity"] = holder
        spec["leaseDurationSeconds"] = math.ceil(self._timing.duration) if holder else _RELEASED
        spec["renewTime"] = stamp
        return {**lease, "spec": spec}

    def _failed(self, error: Exception, why: str) -> None:
        if why != self.last_error:
            self._log.warning("lease_not_renewed" if self.active else "lease_not_taken", error=str(error))
        self.last_error = why

    def _tell(self) -> None:
        """Calls who wants to know, once for each change."""
        active = self.active
        if active == self._told:
            return
        self._told = active
        self._log.info("lease_taken" if active else "lease_lost", holder=self.holder)
        try:
            (self._on_started if active else self._on_stopped)()
        except Exception:  # noqa: BLE001 - a failing callback must not end the election
            self._log.exception("election_callback_failed", active=active)
            if active:  # it could not begin: another may, or this one, with its next try
                self.resign()

    @property
    def _path(self) -> str:
        return paths.lease(self._namespace, self._name)


def _identity(lease: Json) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
