"""What an operator installs in the API server: the configuration of the webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hami_plugins.allocations.manifests import webhooks as shared
from hami_plugins.allocations.manifests.webhooks import EXEMPT, Hooks
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors.volcano import RESOURCES
from volcano_vgpu.core.allocator.names import ALLOCATION_KEYS, MARKER_KEY, NAME, SCHEDULER


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuWebhookTarget(shared.WebhookTarget):
    """See ``hami_plugins.allocations.manifests.webhooks``."""

    configuration: str = NAME
    service: str = NAME
    namespace: str = "volcano-system"


def webhooks(
    target: shared.WebhookTarget,
    *,
    schedulers: Sequence[str] = (SCHEDULER,),
    resources: ResourceNames = RESOURCES,
    exempt: Iterable[str] = EXEMPT,
    marked_only: bool = False,
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration; see ``hami_plugins.allocations.manifests.webhooks``."""
    hooks = Hooks(
        domain="volcano-vgpu.hami-plugins.io",
        marker=MARKER_KEY,
        resources=(resources,),
        schedulers=schedulers,
        keys=ALLOCATION_KEYS,
    )
    return shared.webhooks(hooks, target, exempt=exempt, marked_only=marked_only)
