"""What differs between the two dialects that a node can speak: keys of pods, and what messages call the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.engine import annotate
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import nvidia, volcano

DONE: Final = "18446744073709551615"
"""The time of a pod that no longer has to be served: the largest number of 64 bits, as Volcano's own plugin has it."""

SUCCESS: Final = "success"
FAILED: Final = "failed"
"""The bind phases of a pod that no longer has to be served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKeys:
    """The annotations by which a scheduler and a node agent tell each other of a pod, besides its lists of devices.

    ``settled`` goes with the phase of a pod that no longer has to be served. With ``lists_every`` the lists have a
    piece for every container; otherwise for requesting applications. With ``phase_is_asked`` the phase is written only
    if a scheduler has written one, because no other component reads it.
    """

    node: str
    phase: str
    bind_time: str
    scheduler: str
    settled: Mapping[str, str] = field(default_factory=dict)
    lists_every: bool = False
    phase_is_asked: bool = False


_KEYS: Final[Mapping[Dialect, PodKeys]] = {
    Dialect.VOLCANO: PodKeys(
        node=volcano.NODE_KEY,
        phase=volcano.PHASE_KEY,
        bind_time=volcano.BIND_TIME_KEY,
        scheduler="Volcano",
        settled={volcano.TIME_KEY: DONE},
    ),
    Dialect.HAMI: PodKeys(
        node=annotate.NODE_KEY,
        phase=annotate.PHASE_KEY,
        bind_time=annotate.BIND_TIME_KEY,
        scheduler="the scheduler",
        lists_every=True,
        phase_is_asked=True,
    ),
}

ALLOCATION_KEYS: Final = tuple(
    sorted(
        {
            key
            for spec, dialect in ((volcano.SPEC, Dialect.VOLCANO), (nvidia.SPEC, Dialect.HAMI))
            for key in (*spec.keys.written(), _KEYS[dialect].node, _KEYS[dialect].phase, _KEYS[dialect].bind_time)
        }
    )
)
"""The annotations of an allocation in either dialect: users have no business with them."""


def keys_of(spec: VendorSpec) -> PodKeys:
    """The keys of the dialect that a vendor's specification is in."""
    return _KEYS[spec.dialect]
