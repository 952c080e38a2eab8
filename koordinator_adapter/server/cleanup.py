"""Takes out of a cluster what the adapter has put there: Device objects, the sums and labels of their nodes.

What others publish stays, and so do the files on nodes that containers have mounted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_plugins.kube import paths, removal
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.wire.fields import Json
from koordinator_adapter.agent.app import is_ours as labelled_by_us
from koordinator_adapter.core.devices.publication import is_ours
from koordinator_adapter.core.devices.sums import LABELS, NAMES
from koordinator_adapter.core.translation.vocabulary import ISOLATION

_DEVICES: Final = Collection(paths.DEVICES, "Device", optional=True)


def cleaned(api: KubeApi, *, labels: bool, dry_run: bool) -> Iterator[str]:
    """Removes everything, and reports each object once it is gone; on a dry run, what would be.

    With ``labels`` the nodes also lose the label that promises limits, unless the API server knows that another
    component or an administrator wrote it. Raises ``KubeError``.
    """
    nodes: set[str] = set()
    for page in api.pages(_DEVICES):
        for raw in page:
            if not is_ours(raw):
                continue
            name = str(raw["metadata"]["name"])
            nodes.add(name)
            if not dry_run:
                version = {"preconditions": {"resourceVersion": raw["metadata"]["resourceVersion"]}}
                removal.remove(api, paths.device(name), version)
            yield f"Device object {name}"
    for page in api.pages(Collection(paths.NODES, "Node")):
        for raw in page:
            yield from _node(api, raw, published=raw["metadata"]["name"] in nodes, labels=labels, dry_run=dry_run)


def _node(api: KubeApi, raw: Json, *, published: bool, labels: bool, dry_run: bool) -> Iterator[str]:
    name = str(raw["metadata"]["name"])
    held: Mapping[str, Any] = raw["metadata"].get("labels") or {}
    keys = [key for key in LABELS if key in held] if published else []
    keys += [ISOLATION] if labels and ISOLATION in held and _may_be_ours(raw["metadata"]) else []
    if keys:
        if not dry_run:
            api.merge_patch(paths.node(name), {"metadata": {"labels": dict.fromkeys(keys)}})
        yield f"labels of node {name}: {', '.join(keys)}"
    status = raw.get("status") or {}
    sums = [key for key in NAMES if key in (status.get("capacity") or {})] if published else []
    if sums:
        if not dry_run:
            gone = dict.fromkeys(sums)
            api.merge_patch(paths.node_status(name), {"status": {"capacity": gone, "allocatable": gone}})
        yield f"resources of node {name}: {', '.join(sums)}"


def _may_be_ours(metadata: Mapping[str, Any]) -> bool:
    """Whether nothing says that the label is another's: Koordinator's own daemons go by it as well."""
    return not metadata.get("managedFields") or labelled_by_us(metadata)
