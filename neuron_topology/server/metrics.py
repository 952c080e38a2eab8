"""The figures of a cluster as Prometheus reads them; for ``Metrics.collected`` of a server that has a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hami_plugins.model.cluster import ClusterSnapshot
from neuron_topology.core.device_metrics import DeviceMetrics, DeviceState, Linkage, figures_of

PREFIX: Final = "neuron"


def families(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    """Everything that one snapshot says."""
    found = figures_of(snapshot)
    devices = {state.value: found.devices[state] for state in DeviceState}
    linkage = {linkage.value: found.linkage[linkage] for linkage in Linkage}
    alike = {str(same).lower(): found.alike[same] for same in (False, True)}
    yield _by("devices", "Devices by state for a new request", "state", devices)
    yield _recognised(found)
    yield _by("nodes", "Nodes by the size of their largest free set", "largest", found.largest)
    yield _by("nodes_fitting", "Nodes with a free set of this many devices", "devices", found.fitting)
    by_chance = "The same on average, if the devices in use or broken on each node were random"
    yield _by("nodes_fitting_by_chance", by_chance, "devices", found.by_chance)
    fragmented = "Nodes with this many free devices but no free set of them"
    yield _by("nodes_fragmented", fragmented, "devices", found.fragmented)
    yield _chances(found)
    worth = found.worth / found.worth_idle if found.worth_idle else 0.0
    yield _one(
        "free_sets_ratio", "Value of all free sets (larger ones count more), relative to an empty cluster", worth
    )
    yield _by("allocations", "Allocations of several devices by how these are linked", "linkage", linkage)
    yield _by("allocations_by_numa", "The same by the number of NUMA nodes", "numa_nodes", found.numa)
    yield _by("gangs", "Gangs on several nodes, by whether they have the same devices on each", "alike", alike)
    yield _one("devices_held_twice", "Devices whose cores are held by two pods", found.held_twice)
    yield _one("devices_held_broken", "Broken devices that a pod holds", found.held_broken)


def _recognised(found: DeviceMetrics) -> GaugeMetricFamily:
    what = "Share of all linked sets of a machine that its node pool allocates"
    family = GaugeMetricFamily(f"{PREFIX}_recognised_sets_ratio", what, labels=("instance_type", "family"))
    for labels, share in sorted(found.recognised.items()):
        family.add_metric(labels, share)
    return family


def _chances(found: DeviceMetrics) -> GaugeMetricFamily:
    """A sample for each number of busy devices that leaves a chance."""
    family = GaugeMetricFamily(
        f"{PREFIX}_set_chance_ratio",
        "Probability that a set of this many devices is free with this many devices in use, chosen at random",
        labels=("instance_type", "family", "devices", "busy"),
    )
    for (kind, sets, count), chances in sorted(found.chances.items()):
        for busy, chance in enumerate(chances):
            if chance:
                family.add_metric((kind, sets, str(count), str(busy)), chance)
    return family


def _one(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", what, value=value)


def _by(name: str, what: str, label: str, counts: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=(label,))
    for key, number in sorted(counts.items(), key=lambda item: str(item[0]).zfill(4)):
        family.add_metric((str(key),), number)
    return family
