"""What releases of Volcano's scheduler do with cards that is not what the request says: data, by release.

Sources: Volcano ``pkg/scheduler/api/devices/nvidia/vgpu/device_info.go``, by release, ``trials.md`` V14, V18 to V20. A
quirk that was seen with one release, and of which the code of others was not read, is taken to hold for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+.].*)?", re.ASCII)


class Version(NamedTuple):
    """A release; what is before a release counts as the release."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        """As releases are called."""
        return f"{self.major}.{self.minor}.{self.patch}"


def version_of(text: str) -> Version | None:
    """The release that a text names: ``1.14.1``, ``v1.15.0-alpha.1``; ``None`` for ``latest`` and the like."""
    match = _VERSION.fullmatch(text.strip())
    return None if match is None else Version(int(match[1]), int(match[2]), int(match[3] or 0))


def version_of_image(image: str) -> Version | None:
    """The version that an image's tag names: ``registry:5000/volcanosh/vc-scheduler:v1.14.1@sha256:...``."""
    _, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return version_of(tag)


def version_of_deployment(deployment: Json) -> Version | None:
    """The version that the first image of a Deployment with one names."""
    containers = lenient.mappings(lenient.inside(deployment, "spec", "template", "spec").get("containers"))
    found = (version_of_image(lenient.text(each.get("image"))) for each in containers)
    return next((version for version in found if version is not None), None)


class ReleaseEvidence(StrEnum):
    """How a release is known: by its sources alone, by a trial of a part of it, or by the cluster tests."""

    READ = "sources read"
    PREEMPTION = "sources read, preemption tried"
    TESTED = "cluster tests"


class KnownRelease(NamedTuple):
    """A published release whose sources were read: its name, and what else was done with it."""

    name: str
    version: Version
    evidence: ReleaseEvidence


KNOWN: Final = (
    KnownRelease("1.14.0", Version(1, 14, 0), ReleaseEvidence.READ),
    KnownRelease("1.14.1", Version(1, 14, 1), ReleaseEvidence.TESTED),
    KnownRelease("1.14.2", Version(1, 14, 2), ReleaseEvidence.READ),
    KnownRelease("1.14.3", Version(1, 14, 3), ReleaseEvidence.READ),
    KnownRelease("1.14.4", Version(1, 14, 4), ReleaseEvidence.READ),
    KnownRelease("1.15.0", Version(1, 15, 0), ReleaseEvidence.READ),
    KnownRelease("1.15.1", Version(1, 15, 1), ReleaseEvidence.PREEMPTION),
    KnownRelease("1.16.0-alpha.1", Version(1, 16, 0), ReleaseEvidence.PREEMPTION),
)
"""In their order. Of releases that are not here nothing is claimed."""


def known_release(text: str) -> Version | None:
    """The known release of a name (``1.15.1``), or of a series (``1.15``); ``None`` for all others.

    Of a series it is the release of the cluster tests, where there is one, else the newest.
    """
    named = text.strip().removeprefix("v")
    series = [each for each in KNOWN if f"{each.version.major}.{each.version.minor}" == named]
    tested = (each for each in series if each.evidence is ReleaseEvidence.TESTED)
    named = next(tested, series[-1]).name if series else named
    return next((each.version for each in KNOWN if each.name == named), None)


def known_names() -> str:
    """All of them, as messages list them."""
    return ", ".join(each.name for each in KNOWN)


def release_name(version: Version) -> str:
    """The published name of a release: ``1.16.0-alpha.1``."""
    return next((each.name for each in KNOWN if each.version == version), str(version))


def if_known(version: Version | None) -> Version | None:
    """A version that is a known release, ``None`` for any other."""
    return version if any(each.version == version for each in KNOWN) else None


class ReleaseRange(NamedTuple):
    """Releases from ``first`` on (``None``: from the beginning) and before ``end`` (``None``: to this day)."""

    first: Version | None = None
    end: Version | None = None

    def covers(self, version: Version) -> bool:
        """Whether a release is among them."""
        return (self.first is None or version >= self.first) and (self.end is None or version < self.end)

    def __str__(self) -> str:
        """As messages say it, after the word Volcano."""
        if self.first is None:
            return "of any release" if self.end is None else f"before {self.end}"
        return f"from {self.first} on" if self.end is None else f"from {self.first} to before {self.end}"


EVERY: Final = (ReleaseRange(),)


class DeviceAssigner(StrEnum):
    """Who writes down which cards a pod of Volcano gets: Volcano alone, or ``volcano-vgpu`` in one of its modes."""

    VOLCANO = "volcano"
    POLICY = "policy"
    WEBHOOK = "webhook"
    EXTENDER = "extender"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """Something that Volcano does, the releases that do it, and the ways to allocate cards that put it right.

    ``seen`` is the release with which it was tried, where no more than that is known; then ``spans`` is all of them.
    ``program`` names another program that does it, with its releases, where that is not Volcano's scheduler.
    """

    spans: tuple[ReleaseRange, ...] = EVERY
    program: str = ""
    seen: Version | None = None
    cured_by: frozenset[DeviceAssigner] = frozenset()

    def covers(self, version: Version | None) -> bool:
        """Whether a release does it; for an unknown release the worst is assumed."""
        return version is None or any(span.covers(version) for span in self.spans)

    def holds(self, version: Version | None, assigner: DeviceAssigner) -> bool:
        """Whether it is to be expected in a cluster."""
        return assigner not in self.cured_by and self.covers(version)

    def __str__(self) -> str:
        """The releases, as messages say them."""
        if self.program:
            return self.program
        if self.seen is not None:
            return f"seen with Volcano {self.seen}"
        if self.spans == EVERY:
            return "every release of Volcano"
        return f"Volcano {' and '.join(map(str, self.spans))}"


TRIED: Final = Version(1, 14, 1)
"""The release whose answers were recorded."""

_ALLOCATOR: Final = frozenset({DeviceAssigner.WEBHOOK, DeviceAssigner.EXTENDER})
_NODE_SUMS: Final = (ReleaseRange(Version(1, 13, 0)),)
"""Since then memory and cores also count in the sums of nodes and queues."""

_UP_TO_1_14: Final = (ReleaseRange(None, Version(1, 15, 0)),)
_FROM_1_15: Final = (ReleaseRange(Version(1, 15, 0)),)
_BEFORE_HEALTH: Final = (ReleaseRange(None, Version(1, 14, 3)), ReleaseRange(Version(1, 15, 0), Version(1, 15, 1)))
"""1.14.3 and 1.15.1 took the same changes from the main branch."""

HANDSHAKE: Final = Quirk(spans=_BEFORE_HEALTH)
"""A node without a handshake has no cards (1.14.1 ``device_info.go:101``; in 1.14.3 and 1.15.1 the word is gone)."""

SUMS_NEEDED: Final = Quirk(
    spans=(ReleaseRange(Version(1, 14, 3), Version(1, 15, 0)), ReleaseRange(Version(1, 15, 1))),
    cured_by=frozenset({DeviceAssigner.EXTENDER}),
)
"""A node whose allocatable lacks slots, memory or cores has no cards (1.15.1 ``device_info.go:103``)."""

SIDE_CONTAINERS: Final = Quirk(cured_by=_ALLOCATOR)
"""Cards are given to application containers alone; what others ask counts in the node's sums."""

UNCHOSEN_DEVICES: Final = Quirk(cured_by=_ALLOCATOR)
"""Volcano counts Neuron devices as a plain number and chooses none; only kube-scheduler asks AWS's extension."""

PLUGIN_TOTALS: Final = Quirk(
    program="volcano-vgpu-device-plugin up to 1.12",
    cured_by=frozenset({DeviceAssigner.POLICY, DeviceAssigner.WEBHOOK, DeviceAssigner.EXTENDER}),
)
"""The node agent compares the cards of the whole pod with those of one container (volcano-vgpu-device-plugin 1.12.0
``pkg/util/util.go``): no pod matches whose containers ask for cards twice, and kubelet fails it
(``UnexpectedAdmissionError``). Our agent does not."""

CORES_ALONE: Final = Quirk(cured_by=_ALLOCATOR)
"""A container that asks for cores, and for neither a number nor memory, is bound without a card."""

ID_LISTS: Final = Quirk(spans=(ReleaseRange(None, Version(1, 16, 0)),), cured_by=_ALLOCATOR)
"""``volcano.sh/vgpu-use-gpuuuid`` and its opposite are not read (1.16.0-alpha.1 ``type.go:25``)."""

FOREIGN_ID_LISTS: Final = Quirk(cured_by=_ALLOCATOR)
"""``nvidia.com/use-gpuuuid`` and its opposite are not read."""

PERCENTAGE: Final = Quirk(spans=_NODE_SUMS)
"""A percentage of memory is had only where nodes advertise it."""

PLAIN_CAPS: Final = Quirk(spans=_NODE_SUMS)
"""A queue's limits for memory and cores are compared with plain requests, not with the cards' allocations."""

OPEN_GATE: Final = Quirk(seen=TRIED)
"""A PodGroup without ``minResources`` passes the enqueue gate always, and counts nothing there."""

NO_GANG: Final = Quirk(seen=TRIED)
"""A Job that reaches the scheduler without ``minAvailable`` is not a gang."""

HELD_GATE: Final = Quirk(seen=TRIED)
"""An admitted PodGroup counts in enqueue admission for ever, even if its pods fit nowhere."""

HELD_BACK: Final = Quirk(seen=TRIED)
"""The guarantee of a queue is kept from the others while the queue is idle."""

TASKS_BY_NUMBER: Final = Quirk(seen=TRIED)
"""Members of a gang are tried by priority and number, whichever tasks need them (``CompareTask``)."""

SILENT_QUEUE: Final = Quirk(seen=TRIED)
"""Bare pods for a queue that is closed or missing wait without a word."""

INNER_QUEUE: Final = Quirk(seen=TRIED)
"""With ``enableHierarchy`` of ``capacity``, one group in a queue that has children ends every session at its start
(``buildHierarchicalQueueAttrs``); jobs are refused there by the webhook, bare pods and PodGroups are not."""

PARTIAL_GANG: Final = Quirk(seen=TRIED)
"""A quota lets in a part of a Job's pods, which then wait for the others."""

NO_REGISTER: Final = Quirk(cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""Pods that fit the sums of a node without known cards are bound there, with no card looked at."""

CRASH: Final = Quirk(
    spans=(ReleaseRange(TRIED, Version(1, 14, 2)),), seen=TRIED, cured_by=frozenset({DeviceAssigner.EXTENDER})
)
"""The scheduler ends with a nil pointer at the first pod that fits a node with slots and without known cards."""

UNKNOWN_CARDS: Final = Quirk(
    spans=(ReleaseRange(None, TRIED), ReleaseRange(Version(1, 14, 2))), cured_by=frozenset({DeviceAssigner.EXTENDER})
)
"""``NO_REGISTER`` of the releases that do not crash there."""

READY_IGNORED: Final = Quirk(seen=TRIED)
"""Taints and ``spec.unschedulable`` keep pods off a node, its ``Ready`` condition does not."""

HEALTH_IGNORED: Final = Quirk(cured_by=_ALLOCATOR)
"""Cards that are registered as unhealthy are given out."""

SUMS: Final = Quirk(spans=_NODE_SUMS)
"""Pods have to fit the sums in the node's status before cards are looked at."""

GANG_TOGETHER: Final = Quirk(spans=_UP_TO_1_14)
"""``volcano.sh/vgpu-podgroup-policy: spread`` is not read (1.15.1 ``utils.go:362``)."""

SAME_SLOT: Final = Quirk()
"""Containers of one pod may be given the same slot of a MIG card."""

STALE_GANG: Final = Quirk(
    spans=(ReleaseRange(None, Version(1, 16, 0)),),
    cured_by=frozenset({DeviceAssigner.POLICY, DeviceAssigner.WEBHOOK, DeviceAssigner.EXTENDER}),
)
"""A gang that had to wait is bound with the ids of an earlier try that was rolled back."""

BOOKED_BY_TRIES: Final = Quirk(
    spans=(ReleaseRange(None, Version(1, 15, 0)), ReleaseRange(Version(1, 16, 0))),
    cured_by=frozenset({DeviceAssigner.EXTENDER}),
)
"""A gang that does not fit leaves cards booked within a session, because its tries are rolled back only in part."""

STUCK_QUEUES: Final = Quirk(seen=TRIED)
"""Of two queues that compete more is let in than there is, and who is above its share never steps back."""

COUNTED_TWICE: Final = Quirk(spans=_UP_TO_1_14, cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""A pod that has just been bound counts twice on its card until the node changes. From 1.15.0 on a card counts a pod
once, by its UID (``hamicore.go:40``).
"""

FRESH: Final = Quirk(seen=TRIED, cured_by=_ALLOCATOR)
"""A scheduler that has just started binds pods without looking at cards until the node changes."""

LEAVING_FREED: Final = Quirk(cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""Cards of a pod that is being deleted count as free at once, while its containers still run."""

KEPT_FOR_WAITING: Final = Quirk(seen=TRIED)
"""A pod that waits for one that is being deleted keeps what is free on that node from those behind it."""

FIRST_CONTAINER: Final = Quirk(spans=_FROM_1_15, cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""Of the containers of one pod that share a card only the first is counted (1.15.0 ``hamicore.go:40``; 1.14.1 counts
both, ``trials.md`` V6).
"""

ALLOCATION_BY_BINDING: Final = Quirk(spans=(ReleaseRange(Version(1, 16, 0)),))
"""The allocation is written into the Binding and nowhere else (1.16.0-alpha.1 ``pkg/scheduler/cache/cache.go:238``)."""

EVICTS_IN_VAIN: Final = Quirk(spans=_UP_TO_1_14, cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""``preempt`` commits evictions that leave no card with room: a failed ``Pipeline`` is logged and forgotten (1.14.4
``pkg/scheduler/actions/preempt/preempt.go:407``).
"""

FRAGMENTED: Final = Quirk(cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""No pod is evicted where the sums of a node suffice and no card has room, unless ``enableTopologyAwarePreemption`` is
on and known to consider cards.
"""

TAKES_BACK: Final = Quirk(spans=_FROM_1_15, cured_by=frozenset({DeviceAssigner.EXTENDER}))
"""The tries of each node are a statement of their own, discarded where cards refuse (1.15.1 ``preempt.go:373``)."""

VICTIMS_STILL_RUNNING: Final = Quirk(spans=_FROM_1_15, cured_by=_ALLOCATOR)
"""``enableTopologyAwarePreemption`` looks at cards in a copy of the node (1.15.1
``pkg/scheduler/plugins/predicates/predicates.go:411``), and then binds the pod while its victims still run.
"""

NO_CARDS_IN_COPIES: Final = Quirk(spans=_UP_TO_1_14)
"""``enableTopologyAwarePreemption`` looks at sums alone: its copies of nodes have no cards."""

FOREIGN_GANG_CARDS: Final = Quirk(
    spans=(ReleaseRange(Version(1, 15, 0), Version(1, 16, 0)),), seen=Version(1, 15, 1), cured_by=_ALLOCATOR
)
"""A gang that preempts is bound with cards of other nodes."""

STRIPPED_VICTIMS: Final = Quirk(
    spans=(ReleaseRange(Version(1, 14, 3), Version(1, 15, 0)), ReleaseRange(Version(1, 15, 1), Version(1, 16, 0))),
    cured_by=frozenset({DeviceAssigner.EXTENDER}),
)
"""A try to evict takes the allocation off the running pod, also if the try is taken back, unless ``bind-phase`` is
``success`` (1.14.4 ``device_info.go:291``, 1.15.1 ``device_info.go:300``).
"""

NO_BUNDLES: Final = Quirk(spans=_UP_TO_1_14)
"""The actions ``gangpreempt`` and ``gangreclaim`` do not exist; a configuration with an unknown action is refused as a
whole (1.14.1 ``pkg/scheduler/util.go:88``, 1.15.1 ``pkg/scheduler/actions/factory.go:40``).
"""

RANKS_NODES_ONLY: Final = Quirk(spans=_UP_TO_1_14, cured_by=_ALLOCATOR)
"""``deviceshare.SchedulePolicy`` ranks nodes; the last card of a node comes first, whatever it says (1.15.1
``pkg/scheduler/plugins/deviceshare/deviceshare.go:114``).
"""

NO_EXCLUSIVE_RULES: Final = Quirk(spans=_UP_TO_1_14)
"""``deviceshare.GPUExclusiveRules`` is not read (1.15.1 ``pkg/scheduler/plugins/deviceshare/gpuexclusive.go:35``)."""

NO_QUEUE_GATE: Final = Quirk(spans=_UP_TO_1_14)
"""``scheduling.volcano.sh/queue-allocation-gate`` is not read; later it is with the feature gate
``SchedulingGatesQueueAdmission``, off by default (1.15.1 ``pkg/features/volcano_features.go:71``).
"""

NO_CLAIM_QUOTA: Final = Quirk(spans=_UP_TO_1_14)
"""Claims do not count in queues; later releases count them if the plugin ``capacity`` is configured to (1.15.1
``pkg/scheduler/plugins/capacity/capacity.go:51``).
"""

NO_SOFT_NPUS: Final = Quirk(spans=(ReleaseRange(None, Version(1, 16, 0)),), cured_by=_ALLOCATOR)
"""``huawei.com/vnpu-mode: hami-core`` is not read (1.16.0-alpha.1
``pkg/scheduler/api/devices/ascend/hami/constants.go:20``).
"""

ASCEND_MODES: Final = Quirk(spans=(ReleaseRange(Version(1, 14, 0)),))
"""The two modes for Ascend, and their part of the device ConfigMap (1.14.1
``pkg/scheduler/plugins/deviceshare/deviceshare.go:50``).
"""

NPU_HEALTH_IGNORED: Final = Quirk(spans=_BEFORE_HEALTH, cured_by=_ALLOCATOR)
"""Ascend devices count whatever the node's allocatable says (1.15.1
``pkg/scheduler/api/devices/ascend/hami/device_info.go``).
"""

NO_NPU_WRAPPER: Final = Quirk(
    spans=(ReleaseRange(None, Version(1, 14, 4)), ReleaseRange(Version(1, 15, 0), Version(1, 15, 1)))
)
"""The device ConfigMap is unreadable where ``vnpus`` is a mapping with ``configs``, and the built-in defaults hold
instead of all of it (1.14.1 ``pkg/scheduler/api/devices/config/config.go:158``, 1.14.4 ``vnpu.go:26``).
"""
