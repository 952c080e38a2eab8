"""Documents to the pods that they would make, with their gangs and queues."""

from hami_plugins.inputs.workloads.reader import (
    Ignored,
    Submission,
    Workload,
    read,
)

__all__ = [
    "Ignored",
    "Submission",
    "Workload",
    "read",
]
