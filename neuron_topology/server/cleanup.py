"""Removes from a cluster what the Neuron allocator, and the commands around it, have put there.

What running pods were given stays on them: AWS's plugin, and whoever allocates devices next, read it there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths, removal
from hami_plugins.kube.leases import holder_of
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.kube.removal import Release
from hami_plugins.web.certificates import Material
from hami_plugins.wire.fields import Json
from neuron_topology.commands import hypernode_writer
from neuron_topology.core.allocator.names import MARKER_KEY
from neuron_topology.core.capacity_block_end import END_KEY
from neuron_topology.core.hypernodes import differences, reader
from neuron_topology.core.hypernodes.differences import HyperNodeStep
from neuron_topology.core.nodes import FAMILY_LABEL, HEALTH_KEY, LINKS_KEY
from neuron_topology.server.settings import NeuronAllocatorSettings

NODE_KEYS: Final = {"annotations": (LINKS_KEY, HEALTH_KEY, END_KEY), "labels": (FAMILY_LABEL, END_KEY)}
"""What operators write on nodes for this product."""

_HYPERNODES: Final = replace(hypernode_writer.COLLECTION, optional=True)
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerObjects:
    """Where a server's objects are: ``deployment`` is its path, empty for one that was not installed by the chart."""

    configuration: str
    lease: str
    secret: str
    deployment: str = ""

    @classmethod
    def of(cls, settings: NeuronAllocatorSettings) -> Self:
        """Of a server with these settings."""
        namespace = settings.service.namespace
        return cls(
            configuration=paths.webhook_configuration("mutating", settings.webhooks.configuration),
            lease=paths.lease(namespace, settings.lease.name),
            secret=paths.secret(namespace, settings.certificate.secret),
        )

    @classmethod
    def of_release(cls, release: Release) -> Self:
        """Of a release of the chart."""
        name = f"{release.name}-allocator"
        return cls(
            configuration=paths.webhook_configuration("mutating", f"{release.namespace}.{name}"),
            lease=paths.lease(release.namespace, name),
            secret=paths.secret(release.namespace, f"{name}-tls"),
            deployment=paths.deployment(release.namespace, name),
        )


def blocking_reason(api: KubeApi, site: ServerObjects, *, now: datetime) -> str:
    """Why nothing can be removed now: a server that runs writes it again. Empty where it can. Raises ``KubeError``.

    The server of a release is ended before anything else, so that it is in nobody's way.
    """
    lease = None if site.deployment else removal.find(api, site.lease)
    held = None if lease is None else holder_of(lease)
    if held is None or held.expired(now):
        return ""
    return f"{held.identity} has the lease {site.lease}: end the server first, or name its release with --release"


def cleaned(
    api: KubeApi, site: ServerObjects, *, nodes: bool, dry_run: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Removes it all, and tells each thing once it is gone; on a dry run, what would be.

    The webhooks go first, so that no pod waits for a server that ends. With ``nodes`` what operators wrote on nodes for
    this product goes, too. Raises ``KubeError``, also where the pods of a server do not end.
    """
    yield from _object(api, site.configuration, dry_run=dry_run)
    if site.deployment:
        yield from _server(api, site.deployment, dry_run=dry_run, sleep=sleep)
    yield from _object(api, site.lease, dry_run=dry_run)
    held = removal.find(api, site.secret)
    if held is not None and _is_ours(held):
        yield from _object(api, site.secret, dry_run=dry_run)
    for step in _hypernodes(api):
        for _ in hypernode_writer.apply(api, () if dry_run else (step,)):
            pass
        yield f"HyperNode {step.name}"
    yield from _keys(api, Collection(paths.PODS, "Pod"), {"annotations": (MARKER_KEY,)}, dry_run=dry_run)
    if nodes:
        yield from _keys(api, Collection(paths.NODES, "Node"), NODE_KEYS, dry_run=dry_run)


def _object(api: KubeApi, path: str, *, dry_run: bool) -> Iterator[str]:
    if removal.find(api, path) is not None:
        if not dry_run:
            removal.remove(api, path)
        yield path


def _server(api: KubeApi, path: str, *, dry_run: bool, sleep: Callable[[float], None]) -> Iterator[str]:
    if removal.find(api, path) is None:
        return
    if not dry_run:
        removal.remove(api, path, removal.FOREGROUND)
        if removal.late(api, (path,), sleep=sleep):
            raise KubeError(f"{path}: its pods have not ended within {removal.PATIENCE:g} s; see why, and try again")
    yield path


def _is_ours(secret: Json) -> bool:
    """Whether the server has made what is in a Secret: nobody else keeps the key of the authority beside it."""
    try:
        Material.of_secret(secret.get("data") or {})
    except ValueError:
        return False
    return True


def _hypernodes(api: KubeApi) -> Iterable[HyperNodeStep]:
    there = (each for page in api.pages(_HYPERNODES) for each in page)
    return differences.compare((), reader.read(there).found, {}, prune=True).steps


def _keys(api: KubeApi, collection: Collection, keys: Mapping[str, Sequence[str]], *, dry_run: bool) -> Iterator[str]:
    """Takes labels and annotations off; an object that goes meanwhile takes them along."""
    for page in api.pages(collection):
        for raw in page:
            metadata = raw["metadata"]
            there = {kind: held for kind, names in keys.items() if (held := _held(metadata, kind, names))}
            if not there:
                continue
            name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
            path = paths.pod(namespace, name) if namespace else paths.node(name)
            if not dry_run:
                _patch(api, path, {"metadata": {kind: dict.fromkeys(held) for kind, held in there.items()}})
            listed = ", ".join(dict.fromkeys(key for held in there.values() for key in held))
            yield f"{collection.kind.lower()} {namespace}{'/' if namespace else ''}{name}: {listed}"


def _held(metadata: Json, kind: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in (metadata.get(kind) or {})]


def _patch(api: KubeApi, path: str, body: Json) -> None:
    try:
        api.merge_patch(path, body)
    except KubeError as error:
        if error.status != _NOT_FOUND:
            raise
