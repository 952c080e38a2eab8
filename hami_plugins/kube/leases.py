"""Who holds a Lease, read from a ``Store``; taking one is another matter."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Selection
from hami_plugins.wire.fields import Json


class LeaseHolder(NamedTuple):
    """Who holds a Lease, since when it is certain, and for how long that counts."""

    identity: str
    renewed: datetime
    duration: timedelta

    def expired(self, now: datetime) -> bool:
        """Whether the holder had to renew and did not. Clocks of two machines differ: allow for that."""
        # In the other order: nothing can be added to the last of all years.
        return now - self.renewed >= self.duration


def lease_selection(namespace: str, name: str) -> Selection:
    """One Lease, to be followed by a ``Store``."""
    return Selection(paths.leases(namespace), "Lease", fields=f"metadata.name={name}")


def holder_of(lease: Json | None) -> LeaseHolder | None:
    """The holder that a Lease names; ``None`` for a free Lease.

    Raises ``WireError`` when it has a holder and no readable time.
    """
    spec = (lease or {}).get("spec") or {}
    identity = str(spec.get("holderIdentity") or "")
    if not identity:
        return None
    renewed, seconds = str(spec.get("renewTime") or ""), spec.get("leaseDurationSeconds")
    try:
        moment = datetime.fromisoformat(renewed)
        duration = timedelta(seconds=float(str(seconds)))
    except (ValueError, OverflowError) as error:
        raise WireError("Lease", f"renewTime={renewed} leaseDurationSeconds={seconds}", str(error)) from error
    if moment.tzinfo is None:
        raise WireError("Lease", f"renewTime={renewed}", "has no time zone")
    return LeaseHolder(identity, moment, duration)
