"""Annotations and labels by which pods name their group, their queue and their task in it."""

from typing import Final

GROUP_KEY: Final = "scheduling.k8s.io/group-name"
"""Names a pod's PodGroup for Volcano's scheduler; nothing else does."""

VOLCANO_GROUP_KEY: Final = "scheduling.volcano.sh/group-name"
"""Read by Volcano's vGPU plugin where the other is missing, and by nothing else."""

COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Names a pod's PodGroup for the coscheduling plugin."""

KOORDINATOR_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
"""Names a pod's PodGroup for Koordinator's scheduler."""

KOORDINATOR_OLD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"
"""The same, in older releases; read where the other is missing."""

KOORDINATOR_GANG_KEY: Final = "gang.scheduling.koordinator.sh/name"
"""Names a gang that only the annotations of its pods describe; read where both labels are missing."""

KOORDINATOR_LEAST_KEY: Final = "gang.scheduling.koordinator.sh/min-available"
"""How many pods of such a gang start together."""

KOORDINATOR_MODE_KEY: Final = "gang.scheduling.koordinator.sh/mode"
"""``NonStrict`` lets a part of a gang start."""

QUEUE_KEY: Final = "scheduling.volcano.sh/queue-name"
"""Names the queue of pods outside Volcano's own jobs."""

QUEUE_GATE_KEY: Final = "scheduling.volcano.sh/queue-allocation-gate"
"""``true`` asks Volcano from 1.15 on for a scheduling gate until the pod's queue has room."""

JOB_QUEUE_KEY: Final = "volcano.sh/queue-name"
"""What the job controller writes the queue under; the scheduler does not read it."""

PREEMPTABLE_KEY: Final = "volcano.sh/preemptable"
"""``false`` on a pod keeps it from being evicted for others; an annotation before a label of this name."""

TASK_KEY: Final = "volcano.sh/task-spec"
"""Names a pod's task, of which a group may need a number."""

TASK_INDEX_KEY: Final = "volcano.sh/task-index"
"""The number of a pod of a Volcano Job within its task, by which members take turns."""

VOLCANO_SCHEDULER: Final = "volcano"
"""The name under which Volcano's scheduler is installed."""

MIN_MEMBER_KEY: Final = "scheduling.volcano.sh/group-min-member"
"""On an owner of pods: how many of them start together."""
