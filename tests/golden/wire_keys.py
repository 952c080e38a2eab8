"""Every name on the wire: resources, annotations and labels of every vendor and dialect, from the code that uses it."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from hami_plugins.engine import annotate, policies
from hami_plugins.inputs.fleets import templates as templates_of_fleets
from hami_plugins.inputs.vocabulary import IGNORE_KEY
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.vet import scheduling
from hami_plugins.wire import (
    allocator_mark,
    gang_keys,
    koordinator,
    koordinator_devices,
    koordinator_hints,
    node_devices,
    resizes,
    scoring_weights,
)
from koordinator_adapter.core.devices import wanted
from koordinator_adapter.core.migration import steps
from koordinator_adapter.core.translation import vocabulary
from neuron_topology.core import capacity_block_end
from neuron_topology.core import names as neuron_names
from neuron_topology.core import nodes as neuron_nodes
from neuron_topology.core.agent import annotations as agent_annotations
from neuron_topology.core.hypernodes import objects as hypernodes
from neuron_topology.core.jobs import chain, templates
from volcano_vgpu.agent import cdi
from volcano_vgpu.core import identity, register

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
        "annotation group of a job": gang_keys.VOLCANO_GROUP_KEY,
        "annotation queue of a job": gang_keys.JOB_QUEUE_KEY,
        "label place in a task": gang_keys.TASK_INDEX_KEY,
    },
    "pods, ours": {
        "annotation call": identity.NONCE_KEY,
        "annotation allocation": allocator_mark.KEY,
        "annotation tried again": allocator_mark.REQUEUED_KEY,
        "annotation room made on": allocator_mark.NOMINATED_KEY,
        "annotation asked memory": resizes.ASKED_KEY,
        "annotation booked memory": resizes.BOOKED_KEY,
        "annotation memory in force": resizes.IN_FORCE_KEY,
        "annotation refused resize": resizes.REFUSED_KEY,
        "annotation duration": capacity_block_end.DURATION_KEY,
        "annotation limited cards": koordinator.INJECTED,
        "annotation visible cards": koordinator.VISIBLE,
        "annotation memory of card": koordinator.MEMORY_LIMIT,
        "label translation": vocabulary.OPT_IN,
    },
    "Volcano Jobs": {
        "annotation next job": chain.NEXT_KEY,
        "annotation next job, packed": chain.MANIFEST_KEY,
    },
    "pods, coscheduling": {"label group": gang_keys.COSCHEDULING_LABEL},
    "nodes, ours": {
        "annotation neuron-ls": neuron_nodes.LINKS_KEY,
        "annotation health": neuron_nodes.HEALTH_KEY,
        "annotation health by the agent": agent_annotations.OWN_KEY,
        "annotation register": agent_annotations.REGISTER_KEY,
        "label family of sets": neuron_nodes.FAMILY_LABEL,
        "label shape": templates_of_fleets.SHAPE_LABEL,
        "annotation end of block": capacity_block_end.END_KEY,
        "annotation touched": TOUCHED_KEY,
        "annotation agents": node_devices.AGENTS_KEY,
        "annotation leftovers": register.LEFTOVERS_KEY,
    },
    "nodes, Neuron": {
        "resource former devices": neuron_names.LEGACY_DEVICES,
        "resource network": neuron_names.EFA,
        "annotation used devices": neuron_nodes.USAGE_KEYS[0],
        "annotation used cores": neuron_nodes.USAGE_KEYS[1],
        "label zone": neuron_names.ZONE_LABEL,
        "label outer network": neuron_names.LAYER_LABELS[0],
        "label middle network": neuron_names.LAYER_LABELS[1],
        "label inner network": neuron_names.LAYER_LABELS[2],
    },
    "containers, Neuron": {
        "variable node": templates.NODE_ENV,
        "variable order of nodes": templates.ORDER_ENV,
        "variable tier": templates.TIER_ENV,
    },
    "devices of containers, vGPU": {
        "kind": identity.KIND,
        "annotation container": cdi.CONTAINER_KEY,
        "annotation slots": cdi.SLOTS_KEY,
        "annotation allocation": cdi.ASSIGNMENT_KEY,
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
        "resource whole cards": koordinator.GPU,
        "resource network": koordinator.RDMA,
        "resource FPGA": koordinator.FPGA,
        "resource NPU cores": koordinator.NPU_CORE,
        "resource NPU CPUs": koordinator.NPU_CPU,
        "resource NPU DVPP": koordinator.NPU_DVPP,
        "annotation joint cards": koordinator_hints.JOINT_KEY,
        "annotation partition": koordinator_hints.PARTITION_KEY,
        "annotation gang": gang_keys.KOORDINATOR_GANG_KEY,
        "annotation gang minimum": gang_keys.KOORDINATOR_LEAST_KEY,
        "annotation gang mode": gang_keys.KOORDINATOR_MODE_KEY,
    },
    "nodes, Koordinator": {
        "label card model": koordinator_devices.MODEL_LABEL,
        "label card vendor": koordinator_devices.VENDOR_LABEL,
        "annotation partitions": koordinator_devices.PARTITIONS_KEY,
    },
    "objects, ours": {
        "annotation migration": steps.MADE_BY,
        "label publisher": wanted.PUBLISHER_LABEL,
        "label family of a HyperNode": hypernodes.FAMILY_LABEL,
    },
    "manifests, ours": {"annotation findings to overlook": IGNORE_KEY},
}
"""What belongs to no vendor."""


def text() -> str:
    """The whole list: a heading for each owner, then a line for each name."""
    return "\n".join(_lines()) + "\n"


def all_keys() -> frozenset[str]:
    """Every name that is not a resource."""
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
            for name in found if isinstance(found, tuple) else (found,):
                if isinstance(name, str) and name:
                    yield f"{kind + ' ' + member.name.replace('_', ' '):26} {name}"
