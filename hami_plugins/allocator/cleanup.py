"""Removes from a cluster what the allocator, and the commands around it, have put there.

The allocations of running pods stay on them: device plugins, node agents and the next allocator read them there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from hami_plugins.allocations.manifests import allocation_policy, node_policy, stale_allocations
from hami_plugins.allocator.extension import AllocatorExtensionEntry
from hami_plugins.kube import paths, removal
from hami_plugins.kube.leases import holder_of
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.kube.removal import Release
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.web.certificates import Material
from hami_plugins.web.settings import ServedSettings
from hami_plugins.wire import allocator_mark, resizes
from hami_plugins.wire.fields import Json

POLICIES: Final = tuple(
    f"/apis/admissionregistration.k8s.io/{version}/{kind}/{name}"
    for version, policies, name in (
        *(
            (version, "mutatingadmissionpolicies", stale_allocations.POLICY)
            for version in stale_allocations.POLICY_VERSIONS
        ),
        ("v1", "validatingadmissionpolicies", allocation_policy.NAME),
        ("v1", "validatingadmissionpolicies", node_policy.NAME),
    )
    for kind in (policies.replace("policies", "policybindings"), policies)
)
"""The paths of what ``allocator policy`` and ``stale-policy`` print, under the names that they have by default; each
binding comes before its policy, because a binding without a policy lets requests fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerObjects:
    """Where a server's objects are: ``deployment`` is its path, empty for one that was not installed by the chart."""

    configuration: str
    lease: str
    secret: str
    deployment: str = ""

    @classmethod
    def of(cls, settings: ServedSettings) -> Self:
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
    """Why nothing can be removed now: a running server writes it again. Empty where it can. Raises ``KubeError``.

    The server of a release is ended before anything else, so that it does not block the removal.
    """
    lease = None if site.deployment else removal.find(api, site.lease)
    held = None if lease is None else holder_of(lease)
    if held is None or held.expired(now):
        return ""
    return f"{held.identity} has the lease {site.lease}: end the server first, or name its release with --release"


def cleaned(  # noqa: PLR0913 - the options of the command
    api: KubeApi,
    site: ServerObjects,
    extensions: Sequence[AllocatorExtensionEntry],
    *,
    nodes: bool,
    dry_run: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Removes it all, and yields the name of each thing once it is gone; on a dry run, of what would be removed.

    The webhooks are removed first, so that no pod waits for a server that ends. With ``nodes`` what operators wrote on
    nodes for the vendors of ``extensions`` is removed as well. Raises ``KubeError``, also where the pods of a server do
    not end.
    """
    yield from _object(api, site.configuration, dry_run=dry_run)
    if site.deployment:
        yield from removal.ended(api, site.deployment, dry_run=dry_run, sleep=sleep)
    yield from _object(api, site.lease, dry_run=dry_run)
    held = removal.find(api, site.secret)
    if held is not None and _is_ours(held):
        yield from _object(api, site.secret, dry_run=dry_run)
    for path in POLICIES:
        yield from _object(api, path, dry_run=dry_run)
    for extension in extensions:
        yield from extension.cleaned(api, nodes=nodes, dry_run=dry_run)
    pods, every_node = Collection(paths.PODS, "Pod"), Collection(paths.NODES, "Node")
    keys = {"annotations": (*allocator_mark.KEYS, *resizes.KEYS)}
    yield from removal.without_keys(api, pods, keys, dry_run=dry_run)
    yield from removal.without_keys(api, every_node, {"annotations": (TOUCHED_KEY,)}, dry_run=dry_run)


def _object(api: KubeApi, path: str, *, dry_run: bool) -> Iterator[str]:
    if removal.find(api, path) is not None:
        if not dry_run:
            removal.remove(api, path)
        yield path


def _is_ours(secret: Json) -> bool:
    """Whether the server made the content of a Secret: no other program keeps the key of the authority in it."""
    try:
        Material.of_secret(secret.get("data") or {})
    except ValueError:
        return False
    return True
