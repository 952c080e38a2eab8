"""What operators should know of Volcano's releases, row by row: the answer of a release is the first that covers it.

The releases of each answer are those of a quirk in ``vendors.volcano_releases``, whose text names the source.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import Quirk, Version


class ReleaseRow(NamedTuple):
    """One subject. ``answers`` are tried in their order; ``otherwise`` is that of all other releases."""

    subject: str
    answers: tuple[tuple[Quirk, str], ...]
    otherwise: str

    def answer(self, release: Version) -> str:
        """The behaviour of a release."""
        return next((answer for quirk, answer in self.answers if quirk.covers(release)), self.otherwise)


NODES: Final = (
    ReleaseRow(
        "a node has cards if",
        ((volcano_releases.HANDSHAKE, "it has a register, and a handshake that an agent answers"),),
        "it has a register, and `vgpu-number`, `vgpu-memory` and `vgpu-cores` above 0 in `status.allocatable`",
    ),
    ReleaseRow(
        "agents of nodes",
        (
            (
                volcano_releases.HANDSHAKE,
                "ours, volcano-vgpu-device-plugin up to 1.12; with its master a node has no cards",
            ),
        ),
        "ours, volcano-vgpu-device-plugin up to 1.12 and master",
    ),
    ReleaseRow(
        "slots without known cards",
        (
            (volcano_releases.CRASH, "the scheduler ends at the first pod that fits there"),
            (volcano_releases.UNKNOWN_CARDS, "pods are bound there without cards"),
        ),
        "",
    ),
    ReleaseRow(
        "a pod that was just bound",
        ((volcano_releases.COUNTED_TWICE, "counts twice until the node changes; our agent touches the node"),),
        "counts once",
    ),
    ReleaseRow(
        "containers of a pod on one card",
        ((volcano_releases.FIRST_CONTAINER, "only the first counts"),),
        "all count",
    ),
)

ALLOCATIONS: Final = (
    ReleaseRow(
        "the allocation is written",
        ((volcano_releases.ALLOCATION_BY_BINDING, "into the Binding alone"),),
        "on the pod, then a Binding with what the pod carried before",
    ),
    ReleaseRow(
        "allocator, mode `policy`",
        ((volcano_releases.ALLOCATION_BY_BINDING, "must not be used: it removes the only copy"),),
        "removes stale allocations",
    ),
    ReleaseRow(
        "a gang that had to wait",
        ((volcano_releases.STALE_GANG, "is bound with the cards of an earlier try"),),
        "is bound with its own cards",
    ),
    ReleaseRow(
        "a gang that does not fit",
        ((volcano_releases.BOOKED_BY_TRIES, "leaves cards booked in the session"),),
        "leaves no cards booked",
    ),
    ReleaseRow(
        "`deviceshare.SchedulePolicy`",
        ((volcano_releases.RANKS_NODES_ONLY, "ranks nodes; on a node the last card comes first"),),
        "ranks nodes, and orders the cards of a node",
    ),
    ReleaseRow(
        "`deviceshare.GPUExclusiveRules`",
        ((volcano_releases.NO_EXCLUSIVE_RULES, "is not read"),),
        "pods with the labels of a rule share no card with each other",
    ),
    ReleaseRow(
        "`volcano.sh/vgpu-podgroup-policy: spread`",
        ((volcano_releases.GANG_TOGETHER, "is not read"),),
        "pods of a gang get different cards",
    ),
    ReleaseRow(
        "`volcano.sh/vgpu-use-gpuuuid`, `volcano.sh/vgpu-nouse-gpuuuid`",
        ((volcano_releases.ID_LISTS, "are not read"),),
        "are read",
    ),
)

EVICTIONS: Final = (
    ReleaseRow(
        "`preempt`, `reclaim`: victims by the sums of a node",
        ((volcano_releases.EVICTS_IN_VAIN, "evicted, also where no card has room afterwards"),),
        "taken back where no card has room afterwards; the pod waits",
    ),
    ReleaseRow(
        "sums suffice, no card has room",
        ((volcano_releases.FRAGMENTED, "no pod is evicted"),),
        "",
    ),
    ReleaseRow(
        "`enableTopologyAwarePreemption`",
        ((volcano_releases.NO_CARDS_IN_COPIES, "looks at sums alone"),),
        "looks at cards, and binds pods while their victims still run",
    ),
    ReleaseRow(
        "a gang that preempts",
        (
            (volcano_releases.FOREIGN_GANG_CARDS, "is bound with cards of other nodes"),
            (volcano_releases.STALE_GANG, "as every gang that had to wait"),
        ),
        "is bound with its own cards",
    ),
    ReleaseRow(
        "a running pod whose eviction is taken back",
        (
            (
                volcano_releases.STRIPPED_VICTIMS,
                "loses its allocation, unless `volcano.sh/bind-phase` is `success`",
            ),
        ),
        "keeps its allocation",
    ),
    ReleaseRow(
        "`gangpreempt`, `gangreclaim`",
        ((volcano_releases.NO_BUNDLES, "unknown: the whole configuration is refused"),),
        "evict whole gangs or their spare members, once more in each session until the pod is bound",
    ),
)

QUEUES: Final = (
    ReleaseRow(
        "`scheduling.volcano.sh/queue-allocation-gate`",
        ((volcano_releases.NO_QUEUE_GATE, "is not read"),),
        "is read with the feature gate `SchedulingGatesQueueAdmission` (alpha, off)",
    ),
    ReleaseRow(
        "claims (Dynamic Resource Allocation)",
        ((volcano_releases.NO_CLAIM_QUOTA, "do not count in queues"),),
        "count in queues if the plugin `capacity` is configured to",
    ),
)

ASCEND: Final = (
    ReleaseRow(
        "`deviceshare.AscendHAMiVNPUEnable`",
        ((volcano_releases.NO_SOFT_NPUS, "slices of templates"),),
        "slices of templates; soft slices with `huawei.com/vnpu-mode: hami-core`",
    ),
    ReleaseRow(
        "a node has Ascend devices",
        ((volcano_releases.NPU_HEALTH_IGNORED, "whatever `status.allocatable` says"),),
        "if their resource is above 0 in `status.allocatable`",
    ),
    ReleaseRow(
        "`deviceshare.AscendMindClusterVNPUEnable`",
        ((volcano_releases.ASCEND_MODES, "slices of Ascend 310P by `huawei.com/npu-core`"),),
        "",
    ),
    ReleaseRow(
        "`deviceshare.KnownGeometriesCMName`, `...CMNamespace`",
        (
            (
                volcano_releases.ASCEND_MODES,
                "one ConfigMap for vGPUs and NPUs, `kube-system/volcano-vgpu-device-config` by default",
            ),
        ),
        "",
    ),
    ReleaseRow(
        "`vnpus` in it as a mapping with `configs`",
        ((volcano_releases.NO_NPU_WRAPPER, "makes all of it unreadable: built-in defaults hold, without geometries"),),
        "is read, as the list is",
    ),
)

SECTIONS: Final = (
    ("Nodes", NODES),
    ("Allocations", ALLOCATIONS),
    ("Preemption and reclaim, without the allocator", EVICTIONS),
    ("Queues", QUEUES),
    ("Ascend and the device configuration", ASCEND),
)
"""All rows, by subject."""
