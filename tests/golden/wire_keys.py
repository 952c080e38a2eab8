"""Every name on the wire: resources, annotations and labels of every vendor and dialect, from the code that uses it."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from hami_plugins.engine import annotate, policies
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.report.vet import scheduling, suppression
from hami_plugins.vendors import BUILTIN
from hami_plugins.wire import gang_keys, koordinator, scoring_weights
from koordinator_adapter.translation import vocabulary
from neuron_topology import nodes as neuron_nodes

FILE: Final = Path(__file__).parent / "wire_keys.txt"

SHARED: Final[Mapping[str, Mapping[str, str]]] = {
    "pods, HAMi": {
        "annotation and label node": annotate.NODE_KEY,
        "annotation time": annotate.TIME_KEY,
        "annotation node policy": policies.NODE_POLICY_KEY,
        "annotation device policy": policies.DEVICE_POLICY_KEY,
        "annotation device weights": scoring_weights.KEY,
        "annotation numa binding": policies.NUMA_BIND_KEY,
        "label webhook": scheduling.IGNORE_LABEL,
    },
    "pods, Volcano": {
        "annotation queue": gang_keys.QUEUE_KEY,
        "annotation group": gang_keys.GROUP_KEY,
        "annotation task": gang_keys.TASK_KEY,
        "annotation group minimum": gang_keys.MIN_MEMBER_KEY,
    },
    "pods, coscheduling": {"label group": gang_keys.COSCHEDULING_LABEL},
    "nodes, ours": {
        "annotation neuron-ls": neuron_nodes.LINKS_KEY,
        "annotation health": neuron_nodes.HEALTH_KEY,
        "label family of sets": neuron_nodes.FAMILY_LABEL,
    },
    "pods, Koordinator": {
        "label isolation": vocabulary.ISOLATION,
        "label group": vocabulary.GROUP,
        "label quota": vocabulary.QUOTA,
        "annotation hint": vocabulary.HINT,
        "annotation cards": koordinator.ALLOCATED_KEY,
        "annotation no core limit": vocabulary.NO_CORE_LIMIT,
        "resource cards": koordinator.SHARED,
        "resource cores": koordinator.CORE,
        "resource memory": koordinator.MEMORY,
        "resource memory percentage": koordinator.RATIO,
    },
    "manifests, ours": {"annotation findings to overlook": suppression.KEY},
}
"""What belongs to no vendor."""


def text() -> str:
    """The whole list: a heading for each owner, then a line for each name."""
    return "\n".join(_lines()) + "\n"


def all_keys() -> frozenset[str]:
    """Every name that is no resource."""
    shared = {key for names in SHARED.values() for key in names.values()}
    return frozenset(shared | {key for spec in BUILTIN for key in spec.keys.all()})


def _lines() -> Iterator[str]:
    for spec in BUILTIN:
        yield f"[{spec.name}, {spec.dialect}]"
        yield from _of(spec)
        yield ""
    for owner, names in SHARED.items():
        yield f"[{owner}]"
        yield from (f"{what:26} {key}" for what, key in names.items())
        yield ""


def _of(spec: VendorSpec) -> Iterator[str]:
    for kind, names in (("resource", spec.resources), ("annotation", spec.keys)):
        for member in fields(names):
            found = getattr(names, member.name)
            for name in (found,) if isinstance(found, str) else found:
                if name:
                    yield f"{kind + ' ' + member.name.replace('_', ' '):26} {name}"
