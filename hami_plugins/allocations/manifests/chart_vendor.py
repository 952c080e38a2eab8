"""The allocator chart's description of a vendor: an entry of its own list, or of ``moreVendors``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.lock_demand import lock_keys
from hami_plugins.allocations.product import served_by_hami
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec

NO_KEYS: Final[Mapping[str, str]] = {}


def entry(
    spec: VendorSpec,
    *,
    section: str = "",
    word: str = "",
    renamed_by: Mapping[str, str] = NO_KEYS,
    jobs: Sequence[str] = (),
) -> dict[str, Any]:
    """One vendor. ``section`` of the settings renames its resources, each by a key; ``word`` names it in that section.

    ``jobs`` are the resources of Volcano Jobs that a webhook patches.
    """
    locks = lock_keys((spec,))
    ignored = spec.ignored_by_scheduler if served_by_hami(spec) else ()
    return {
        "name": spec.name,
        "section": section,
        "word": word,
        "kubeScheduler": spec.dialect is Dialect.HAMI,
        "hami": served_by_hami(spec),
        "lock": locks[0].key if locks else "",
        "keys": list(spec.keys.written()),
        "jobs": list(jobs),
        "resources": [
            {"name": name, "key": renamed_by.get(name, ""), "ignored": name in ignored} for name in spec.resources.all()
        ],
    }
