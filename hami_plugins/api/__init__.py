"""What programs call: plans, explanations and one decision function.

The names below are the stable surface; everything is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hami_plugins.engine.decide import Decider as Decider
    from hami_plugins.engine.intake import PodInfo as PodInfo
    from hami_plugins.engine.intake import Rules as Rules
    from hami_plugins.engine.registry import Registry as Registry
    from hami_plugins.explain import explain as explain
    from hami_plugins.kube.client import connect as connect
    from hami_plugins.library import admit as admit
    from hami_plugins.library import decide as decide
    from hami_plugins.library import live_snapshot as live_snapshot
    from hami_plugins.library import load_fleet as load_fleet
    from hami_plugins.library import load_snapshot as load_snapshot
    from hami_plugins.library import plan as plan
    from hami_plugins.library import read_manifests as read_manifests
    from hami_plugins.library import relax as relax
    from hami_plugins.model.cluster import ClusterSnapshot as ClusterSnapshot
    from hami_plugins.model.decisions import Placed as Placed
    from hami_plugins.model.decisions import Refused as Refused
    from hami_plugins.plan import Plan as Plan
    from hami_plugins.plan import Planner as Planner
    from hami_plugins.plan import PodPlan as PodPlan
    from hami_plugins.suggest.changes import Counterfactual as Counterfactual
    from hami_plugins.vendors import BUILTIN as BUILTIN
    from hami_plugins.vendors import builtin as builtin

_HOME: Final = {
    "BUILTIN": "vendors",
    "ClusterSnapshot": "model.cluster",
    "Counterfactual": "suggest.changes",
    "Decider": "engine.decide",
    "PodInfo": "engine.intake",
    "Placed": "model.decisions",
    "Plan": "plan",
    "Planner": "plan",
    "PodPlan": "plan",
    "Refused": "model.decisions",
    "Registry": "engine.registry",
    "Rules": "engine.intake",
    "admit": "library",
    "builtin": "vendors",
    "connect": "kube.client",
    "decide": "library",
    "explain": "explain",
    "live_snapshot": "library",
    "load_fleet": "library",
    "load_snapshot": "library",
    "plan": "library",
    "read_manifests": "library",
    "relax": "library",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the names are the keys above


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"hami_plugins.api has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"hami_plugins.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__]
