"""Removes from a cluster what the agents wrote on its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube import paths, removal
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.kube.removal import Release
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from neuron_topology.core.agent.annotations import withdrawal

_TRIES: Final = 5
"""Writes of one node before the command gives up: each fails where another client has just changed the node."""

_NOT_FOUND: Final = 404


def agents_of(release: Release) -> str:
    """The path of the DaemonSet of a release."""
    return paths.daemon_set(release.namespace, f"{release.name}-neuron-agent")


def cleaned(
    api: KubeApi, release: Release | None, *, dry_run: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Ends the agents of a release and removes their annotations; yields each thing as it is gone, or would be.

    Entries of ``hami-plugins.io/neuron-health`` that no agent wrote stay. Raises ``KubeError``.
    """
    if release is not None:
        yield from removal.ended(api, agents_of(release), dry_run=dry_run, sleep=sleep)
    for page in api.pages(Collection(paths.NODES, "Node")):
        for node in page:
            wanted = _wanted(node)
            if wanted and (dry_run or _withdrawn(api, node)):
                yield f"node {node['metadata']['name']}: {', '.join(sorted(wanted))}"


def _wanted(node: Json) -> dict[str, str | None]:
    return withdrawal(lenient.texts(node["metadata"].get("annotations")))


def _withdrawn(api: KubeApi, node: Json) -> bool:
    """Writes a node; ``False`` where it has been deleted."""
    path = paths.node(str(node["metadata"]["name"]))
    for _ in range(_TRIES):
        changes = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": _wanted(node)}
        try:
            api.merge_patch(path, {"metadata": changes})
        except KubeError as error:
            if not isinstance(error, ContentionError) and error.status != _NOT_FOUND:
                raise
        else:
            return True
        again = removal.find(api, path)
        if again is None:
            return False
        node = again
    raise KubeError(f"{path}: keeps being modified by another client; try again later")
