"""Would these workloads fit, where, and with which annotations: the main job, without a cluster."""

from hami_plugins.plan.planner import (
    Plan,
    Planner,
    PlanUnit,
    PodPlan,
    Stage,
)

__all__ = [
    "Plan",
    "PlanUnit",
    "Planner",
    "PodPlan",
    "Stage",
]
