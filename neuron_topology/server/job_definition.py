"""The definition of Volcano's Job that the cluster serves, read anew from time to time: Volcano may be upgraded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hami_plugins.errors import KubeError
from hami_plugins.kube.port import KubeApi
from neuron_topology.core.jobs import served

FRESH: Final = 600.0
"""Seconds for which an answer counts."""


def read(api: KubeApi) -> frozenset[str] | None:
    """The members of ``networkTopology`` that the cluster keeps of Volcano Jobs; ``None`` where it does not say."""
    try:
        return served.topology_members(dict(api.get(served.PATH)))
    except KubeError:
        return None


class JobDefinition:
    """``now`` gives seconds. Any thread may ask; two that ask together both read."""

    def __init__(self, api: KubeApi, *, now: Callable[[], float]) -> None:
        self._api = api
        self._now = now
        self._read: tuple[float, frozenset[str] | None] | None = None

    @property
    def kept(self) -> frozenset[str] | None:
        """See ``read``; what was known stays where the API server does not answer."""
        before, now = self._read, self._now()
        if before is None or now - before[0] >= FRESH:
            known = None if before is None else before[1]
            found = read(self._api)
            self._read = before = now, known if found is None else found
        return before[1]
