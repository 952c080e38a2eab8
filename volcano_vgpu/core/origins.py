"""Whether a scheduler wrote an allocation, as far as a node can tell.

Schedulers write an allocation before the Binding or with it (``trials.md`` V14: 0 of 3,590 wrote later), so that the
first version of a pod that its node sees is the one to serve. Earlier writes are known from
``managedFields``, which the owner of a pod may reset: an admission policy has to prevent that, this is the second line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_plugins.allocations import writers
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import lenient
from volcano_vgpu.core.dialects import keys_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode


def doubt(raw: Mapping[str, Any], first: Mapping[str, str] | None, spec: VendorSpec) -> ContainerRefusal | None:
    """Why the allocation on a pod is not a scheduler's; ``None`` where nothing says so.

    ``first`` are the annotations of the pod when this node first saw it, where that is known.
    """
    keys = tuple(key for key in (spec.keys.allocated, spec.keys.more, keys_of(spec).node) if key)
    if who := writers.placed_by(raw):
        return ContainerRefusal(
            RefusalCode.NOT_VOLCANO,
            f"{who} set spec.nodeName, so that no scheduler allocated what {spec.keys.allocated} names; create the pod "
            "again without both",
            heals=False,
        )
    now = lenient.inside(raw, "metadata", "annotations")
    for key in keys if first is not None else ():
        before = (first or {}).get(key, "")
        if now.get(key, "") != before:
            return ContainerRefusal(
                RefusalCode.ALLOCATION_CHANGED,
                f"{key} was {before!r} when this node first saw the pod, and is {now.get(key, '')!r} now; schedulers "
                "write it before that. Restore the annotation or delete the pod",
            )
    if who := writers.written_later(raw, keys):
        text = f"{who} wrote the allocation after the pod was bound; no scheduler does. Delete the pod"
        return ContainerRefusal(RefusalCode.ALLOCATION_CHANGED, text, heals=False)
    return None
