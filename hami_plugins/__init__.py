"""Plans, explanations and one decision function for shared accelerators on Kubernetes.

The names below are the stable surface; everything is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hami_plugins.engine.decide import Decider as Decider
    from hami_plugins.engine.intake import Intake as Intake
    from hami_plugins.engine.intake import Rules as Rules
    from hami_plugins.engine.registry import Registry as Registry
    from hami_plugins.engine.relax.changes import Counterfactual as Counterfactual
    from hami_plugins.kube.client import connect as connect
    from hami_plugins.model.cluster import ClusterSnapshot as ClusterSnapshot
    from hami_plugins.model.decisions import Placed as Placed
    from hami_plugins.model.decisions import Refused as Refused
    from hami_plugins.report.explain import explain as explain
    from hami_plugins.report.library import admit as admit
    from hami_plugins.report.library import decide as decide
    from hami_plugins.report.library import live_snapshot as live_snapshot
    from hami_plugins.report.library import load_fleet as load_fleet
    from hami_plugins.report.library import load_snapshot as load_snapshot
    from hami_plugins.report.library import plan as plan
    from hami_plugins.report.library import read_manifests as read_manifests
    from hami_plugins.report.library import relax as relax
    from hami_plugins.report.plan import Plan as Plan
    from hami_plugins.report.plan import Planner as Planner
    from hami_plugins.report.plan import PodPlan as PodPlan
    from hami_plugins.vendors import BUILTIN as BUILTIN
    from hami_plugins.vendors import builtin as builtin

_HOME: Final = {
    "BUILTIN": "vendors",
    "ClusterSnapshot": "model.cluster",
    "Counterfactual": "engine.relax.changes",
    "Decider": "engine.decide",
    "Intake": "engine.intake",
    "Placed": "model.decisions",
    "Plan": "report.plan",
    "Planner": "report.plan",
    "PodPlan": "report.plan",
    "Refused": "model.decisions",
    "Registry": "engine.registry",
    "Rules": "engine.intake",
    "admit": "report.library",
    "builtin": "vendors",
    "connect": "kube.client",
    "decide": "report.library",
    "explain": "report.explain",
    "live_snapshot": "report.library",
    "load_fleet": "report.library",
    "load_snapshot": "report.library",
    "plan": "report.library",
    "read_manifests": "report.library",
    "relax": "report.library",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the names are the keys above
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"hami_plugins has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"hami_plugins.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
