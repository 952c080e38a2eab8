"""Volcano's scheduler configuration where pods are evicted for devices: what belongs into it, what is wrong with one.

Each finding was observed with 1.14.1, 1.15.1 and 1.16.0-alpha.1 (``trials.md`` V12): within a tier Volcano intersects
the victims of the plugins, and asks the next tier if none is left; it looks up the extender's victims among those of
the plugins before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests import volcano_configuration
from hami_plugins.allocations.manifests.volcano_configuration import (
    EVICTING,
    EXTENDER,
    PREDICATES,
    ConfigurationFinding,
    Plugin,
    actions_of,
    error,
    info,
    named,
    warning,
)
from hami_plugins.model.vendor_names import ResourceNames

ACTIONS: Final = "allocate, preempt, reclaim, backfill"
"""Without ``enqueue``: that action keeps PodGroups out while the cluster's sums are full, so no pod is evicted for
them.
"""

VERBS: Final[Mapping[str, str]] = {
    "preemptableVerb": "preemptable",
    "reclaimableVerb": "reclaimable",
    "onSessionCloseVerb": "onSessionClose",
}
"""The calls about evictions, by the argument that turns each on."""

BUNDLES: Final = frozenset({"gangpreempt", "gangreclaim"})
"""Actions of Volcano 1.15 that evict once more in each session until the pod is bound."""

JUDGES: Final = frozenset(
    {"capacity", "cdp", "conformance", "drf", "gang", "pdb", "priority", "proportion", "tdm"},
)
"""Plugins that return victims."""

KEPT: Final[Mapping[str, bool]] = {"enablePreemptable": False, "enableReclaimable": False}
"""With these options a plugin says nothing about victims."""

NOTES: Final = (
    "plugin pdb is left out: it spares every pod without labels. The server names no pod whose PodDisruptionBudget "
    "allows no eviction; Volcano itself deletes pods without asking their budgets",
)
"""What an operator should know of the configuration that is printed."""

TOPOLOGY: Final = "enableTopologyAwarePreemption"
"""The argument with which Volcano looks for victims in copies of nodes."""


def document(url: str, resources: Sequence[ResourceNames]) -> dict[str, Any]:
    """A whole configuration: one tier, the extender last in it."""
    verbs = {**volcano_configuration.VERBS, **VERBS}
    extender = {"name": EXTENDER, "arguments": volcano_configuration.extender_arguments(url, resources, verbs)}
    before = ("conformance", PREDICATES, "proportion", "nodeorder")
    plugins = [{"name": "priority"}, {"name": "gang", **KEPT}, *({"name": each} for each in before), extender]
    return {"actions": ACTIONS, "tiers": [{"plugins": plugins}]}


def check(conf: Mapping[str, Any], plugins: Sequence[Plugin]) -> Iterator[ConfigurationFinding]:
    """What keeps pods from being evicted for devices, or evicts wrong ones."""
    yield from _actions(conf)
    yield from _topology(conf)
    extenders = named(plugins, EXTENDER)
    if extenders:
        yield from _order(plugins, extenders[-1])
        yield from _calls(extenders[-1])
    yield from _gangs(plugins)
    if not named(plugins, "pdb"):
        yield info(
            "pdb",
            "Volcano deletes pods without asking their PodDisruptionBudgets; the server names none that they protect",
            "add the plugin pdb before extender if Volcano is to look as well; it spares every pod without labels",
        )


def _actions(conf: Mapping[str, Any]) -> Iterator[ConfigurationFinding]:
    actions = actions_of(conf)
    for action in actions:
        if action in BUNDLES:
            yield error(
                f"actions {action}",
                "it evicts pods again in each session until the pod that waits is bound",
                f"use {action.removeprefix('gang')} instead",
            )
    if "enqueue" in actions and EVICTING.intersection(actions):
        yield warning(
            "actions enqueue",
            "it keeps PodGroups out while the sums of the cluster are full, and no pod is evicted for them",
            "remove enqueue",
        )
    others = {"preempt": "pods of lower priority in the same queue", "reclaim": "queues above their share"}
    for action, where in others.items():
        if action not in actions:
            yield info(f"actions {action}", f"is missing: no pod is evicted from {where}", f"write actions: {ACTIONS}")


def topology_arguments(conf: Mapping[str, Any]) -> Iterator[str]:
    """The places at which topology-aware preemption is turned on."""
    listed = conf.get("configurations")
    for number, raw in enumerate(listed if isinstance(listed, list) else ()):
        arguments = raw.get("arguments") if isinstance(raw, dict) else None
        if isinstance(arguments, dict) and arguments.get(TOPOLOGY) is True:
            yield f"configurations[{number}] ({raw.get('name')}) {TOPOLOGY}"


def _topology(conf: Mapping[str, Any]) -> Iterator[ConfigurationFinding]:
    for place in topology_arguments(conf):
        yield error(
            place,
            "Volcano's dry run asks no extender: from 1.15 on pods are bound while their victims still run",
            f"remove {TOPOLOGY}",
        )


def _judges(plugin: Plugin) -> bool:
    """Whether a plugin has a say about victims."""
    return plugin.name in JUDGES and any(plugin.options.get(option) is not value for option, value in KEPT.items())


def _order(plugins: Sequence[Plugin], extender: Plugin) -> Iterator[ConfigurationFinding]:
    judges = [plugin for plugin in plugins if _judges(plugin)]
    elsewhere = [plugin.name for plugin in judges if plugin.tier != extender.tier]
    if elsewhere:
        yield error(
            extender.place,
            f"is in another tier than {', '.join(elsewhere)}: if one tier leaves no victim, Volcano asks the next one "
            "alone, which evicts pods that the other protects",
            "put all of them into one tier, extender last",
        )
    after = [plugin.name for plugin in judges if plugin.tier == extender.tier and plugin.at > extender.at]
    if after:
        yield error(
            extender.place,
            f"is listed before {', '.join(after)}: it is asked about pods that they protect, and its victims get lost",
            "move it to the end of its tier",
        )


def _calls(extender: Plugin) -> Iterator[ConfigurationFinding]:
    for argument, verb in VERBS.items():
        given = extender.arguments.get(f"extender.{argument}")
        place, remedy = f"{extender.place} extender.{argument}", f"write extender.{argument}: {verb}"
        if given is None and verb == "onSessionClose":
            yield info(place, "is missing: no pod is evicted where sums suffice and no device has room", remedy)
        elif given is None:
            yield info(place, "is missing: no pod is evicted for devices", remedy)
        elif given != verb:
            yield error(place, f"{given!r} is not answered", remedy)
    for option in KEPT:
        if extender.options.get(option) is False:
            yield error(f"{extender.place} {option}", "the plugin's calls are not made", f"remove {option}: false")


def _gangs(plugins: Sequence[Plugin]) -> Iterator[ConfigurationFinding]:
    for gang in named(plugins, "gang"):
        for option in KEPT:
            if gang.options.get(option) is not False:
                yield info(
                    f"{gang.place} {option}",
                    "the plugin protects every pod without a gang, and gangs at their minimum",
                    f"write {option}: false; the server itself keeps gangs at their minimum or takes them whole",
                )
