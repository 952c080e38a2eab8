"""Why Koordinator says no: the texts that its scheduler puts on pods, with their cause and what would help.

Source: Koordinator 1.7.0 ``pkg/scheduler/plugins/deviceshare/plugin.go`` and ``allocator_gpu.go``; texts of 1.7.0.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class KnownRefusal(NamedTuple):
    """What a text means, and what to do about it."""

    words: str
    remedy: str


def cause_of(text: str) -> KnownRefusal | None:
    """The cause behind a scheduler's text (a condition or an event, whole), ``None`` for texts of others."""
    return next((cause for pattern, cause in _CAUSES if pattern.search(text)), None)


_CAUSES: Final = tuple(
    (re.compile(pattern), KnownRefusal(words, remedy))
    for pattern, words, remedy in (
        (
            r"GPUIsolationProviderHAMICore not found on the node",
            "a node with cards lacks the isolation label; one such node stops the pod everywhere",
            "label the nodes koordinator.sh/gpu-isolation-provider=HAMi-core, and give the pod a nodeSelector of it",
        ),
        (
            r"Insufficient koordinator\.sh/gpu\.shared",
            "no node advertises koordinator.sh/gpu.shared, which Koordinator's webhook adds to every pod with cards",
            "start koord-manager with --feature-gates=EnableSyncGPUSharedResource=true",
        ),
        (
            r"Insufficient (?:koordinator\.sh|nvidia\.com|amd\.com|dcu\.com|huawei\.com)/",
            "the sum of what nodes advertise is too small, or no node advertises it",
            "ask for less, or see that koord-manager publishes the resource (colocation must be enabled)",
        ),
        (
            r"invalid resource unit",
            "a percentage above 100 that is not a multiple of 100",
            "ask for at most 100, or for whole cards: 200, 300",
        ),
        (
            r"invalid resource device requests",
            "the scheduler does not accept this set of names or their amounts; cores alone are never accepted",
            "name koordinator.sh/gpu.shared, and one of gpu-memory and gpu-memory-ratio; cores and ratio are sums over "
            "the cards and must divide by their number",
        ),
        (r"pod request should not be empty", "every amount is zero", "ask for a card"),
        (
            r"model \".*\" of vendor \".*\" does not support GPU Share",
            "the scheduler is configured not to share this model (gpuShareUnsupportedModels)",
            "ask for whole cards, or for another model",
        ),
        (
            r"no matched GPU shared resource template",
            "no template of the NPU has exactly these numbers",
            "take the numbers of one template of ConfigMap gpu-shared-resource-templates",
        ),
        (
            r"missing GPU Partition Table",
            "the node's Device object has no partitions, which the pod wants to be honoured",
            "leave out gpu-partition-spec, or publish partitions",
        ),
        (
            r"Unsupported number of GPU requests",
            "no partition has this number of cards",
            "ask for a number that the node's partitions have",
        ),
        (
            r"Unsupported Multi-Shared GPU",
            "parts of several cards cannot be had within a topology scope",
            "ask for whole cards or for one card, or leave out requiredTopologyScope",
        ),
        (
            r"missing GPU Device Topology Tree",
            "some card of the node has no topology",
            "leave out requiredTopologyScope, or publish the topology of every card",
        ),
        (
            r"Device Joint-Allocate rules violation|Insufficient primary device",
            "cards and network cards of one switch are not available together; the switches of cards that "
            "koordinator-adapter publishes are unknown",
            "leave out requiredScope of device-joint-allocate",
        ),
        (r"Insufficient rdma VirtualFunctions", "the network card has no virtual function left", "ask another node"),
        (
            r"Insufficient Partitioned GPU Devices",
            "no partition of this size is free",
            "ask for fewer cards, or with allocatePolicy BestEffort",
        ),
        (
            r"Insufficient Topology Scoped GPU Devices",
            "no scope of the node has enough free cards; cards that koordinator-adapter publishes are each alone on "
            "a switch, because no switches are reported",
            "ask for fewer cards, or for a wider scope (NUMANode)",
        ),
        (
            r"Insufficient (?:GPU Devices|[a-z]+ devices)",
            "no card of the node has enough left, whatever the sums say; selectors in a device-allocate-hint match "
            "nothing unless Device objects carry labels",
            "ask for less on each card, or drop the selector",
        ),
        (
            r"no healthy gpu device with minor",
            "the chosen card no longer exists, or its Device object has no total",
            "look at the node's Device object",
        ),
    )
)
"""In the order of evaluation: the more precise one first."""
