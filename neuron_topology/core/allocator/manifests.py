"""What an operator installs in the API server: the configuration of the webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from hami_plugins.allocations.manifests import webhooks as shared
from hami_plugins.allocations.manifests.webhooks import EXEMPT, Hooks, WebhookTarget
from neuron_topology.core.allocator.names import ALLOCATION_KEYS, MARKER_KEY
from neuron_topology.core.vendor import SPEC

HOOKS: Final = Hooks(
    domain="neuron.hami-plugins.io", marker=MARKER_KEY, resources=(SPEC.resources,), keys=ALLOCATION_KEYS
)


def webhooks(
    target: WebhookTarget, *, exempt: Iterable[str] = EXEMPT, marked_only: bool = False, jobs: bool = False
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration; see ``hami_plugins.allocations.manifests.webhooks``. With ``jobs`` Volcano Jobs
    are patched.

    Nobody waits for a patch: a job is made as it is while the server is away.
    """
    hooks = replace(HOOKS, jobs=SPEC.resources.all() if jobs else ())
    return shared.webhooks(hooks, target, exempt=exempt, marked_only=marked_only)
