"""Would these workloads fit, where, and with which annotations: the main job, without a cluster."""

from hami_plugins.report.plan.planner import (
    Plan,
    Planner,
    PodPlan,
    Stage,
    Unit,
)

__all__ = [
    "Plan",
    "Planner",
    "PodPlan",
    "Stage",
    "Unit",
]
