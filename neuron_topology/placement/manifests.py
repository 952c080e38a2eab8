"""What an operator installs in the API server: the configuration of the webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hami_plugins.granting import webhooks as shared
from hami_plugins.granting.webhooks import EXEMPT, Hooks, Target
from neuron_topology.placement.words import MARKER_KEY
from neuron_topology.vendor import SPEC

HOOKS: Final = Hooks(domain="neuron.hami-plugins.io", marker=MARKER_KEY, resources=SPEC.resources)


def webhooks(target: Target, *, exempt: Iterable[str] = EXEMPT, marked_only: bool = False) -> dict[str, Any]:
    """The MutatingWebhookConfiguration; see ``hami_plugins.granting.webhooks``."""
    return shared.webhooks(HOOKS, target, exempt=exempt, marked_only=marked_only)
