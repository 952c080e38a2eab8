"""Volcano's scheduler configuration for the allocator: what belongs into it, and what is wrong with one.

In mode ``webhook`` Volcano's own plugin decides about vGPUs, and the extender about all other devices. In mode
``policy`` no server runs, so no extender is asked.

Volcano's handling of these arguments was observed with 1.14.1 (``trials.md`` V12 and V14): it ignores an argument of
the wrong type without a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from hami_plugins.allocations.manifests import (
    eviction_configuration,
    network_configuration,
    release_configuration,
    volcano_configuration,
)
from hami_plugins.allocations.manifests.volcano_configuration import (
    DEVICESHARE,
    EXTENDER,
    PREDICATES,
    ConfigurationFinding,
    Plugin,
    error,
    named,
    names_of,
    warning,
)
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors.volcano_releases import ALLOCATION_BY_BINDING, Version

COMMAND: Final = "hami-plugins allocator conf"


def document(mode: AllocatorMode, url: str, vendors: Registry, *, evicts: bool = False) -> dict[str, Any]:
    """A whole configuration for the mode; ``url`` is where the scheduler reaches the extender.

    With ``evicts`` pods are evicted for devices, which takes mode ``extender``.
    """
    own, asked = _divided(mode, vendors)
    weights = network_configuration.resources(vendors)
    network = [network_configuration.plugin(weights)] if weights else []
    if _evicts(mode, evicts=evicts):
        return _with(eviction_configuration.document(url, asked), network)
    plugins = [_deviceshare()] if own else []
    if asked:
        plugins.append({"name": EXTENDER, "arguments": volcano_configuration.extender_arguments(url, asked)})
    return volcano_configuration.document(*plugins, *network)


def _with(conf: dict[str, Any], plugins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A configuration with more plugins in its last tier."""
    *tiers, last = conf["tiers"]
    return {**conf, "tiers": [*tiers, {**last, "plugins": [*last["plugins"], *plugins]}]}


def flags(mode: AllocatorMode, vendors: Registry) -> Mapping[str, str]:
    """Flags of vc-scheduler that go with it, and why."""
    return volcano_configuration.FLAGS if _divided(mode, vendors)[1] else {}


def notes(mode: AllocatorMode, *, evicts: bool = False) -> tuple[str, ...]:
    """What an operator should know of the configuration that is printed."""
    return eviction_configuration.NOTES if _evicts(mode, evicts=evicts) else ()


def check(
    conf: Mapping[str, Any],
    mode: AllocatorMode,
    vendors: Registry,
    *,
    evicts: bool = False,
    release: Version | None = None,
) -> tuple[ConfigurationFinding, ...]:
    """What is wrong with a configuration for the mode, in the order of the file; empty where nothing is.

    With ``release`` also what does not go together with that release of Volcano.
    """
    found, unreadable = volcano_configuration.plugins(conf)
    if unreadable:
        return tuple(unreadable)
    own, asked = _divided(mode, vendors)
    if own:
        cards = chain(_without_deviceshare(found, mode), _two_caches(found, own))
    else:
        cards = chain(_with_deviceshare(found, release) if _has_cards(vendors) else ())
    evictions: Iterator[ConfigurationFinding]
    if _evicts(mode, evicts=evicts):
        evictions = eviction_configuration.check(conf, found)
    elif asked:
        remedy = "set preemption.mode to scheduler or full in mode extender, or delete pods to free their devices"
        evictions = volcano_configuration.evictions(conf, "devices", remedy)
    else:
        evictions = iter(())
    extender = volcano_configuration.extender(found, asked, COMMAND) if asked else iter(())
    network = network_configuration.check(found, network_configuration.resources(vendors), COMMAND)
    together = release_configuration.check(conf, found, mode, names_of(asked), release)
    return (*cards, *evictions, *extender, *network, *together)


def _evicts(mode: AllocatorMode, *, evicts: bool) -> bool:
    return evicts and mode is AllocatorMode.EXTENDER


def _has_cards(vendors: Registry) -> bool:
    return any(spec.dialect is Dialect.VOLCANO for spec in vendors)


def _divided(mode: AllocatorMode, vendors: Registry) -> tuple[list[ResourceNames], list[ResourceNames]]:
    """The names of what Volcano's own plugin decides about, and of what the extender is asked about."""
    if mode is AllocatorMode.EXTENDER:
        return [], [spec.resources for spec in vendors]
    own = [spec.resources for spec in vendors if spec.dialect is Dialect.VOLCANO]
    others = [spec.resources for spec in vendors if spec.dialect is not Dialect.VOLCANO]
    return own, others if mode is AllocatorMode.WEBHOOK else []


def _deviceshare() -> dict[str, Any]:
    """Volcano's own plugin for cards."""
    arguments = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.ScheduleWeight": 10,
    }
    return {"name": DEVICESHARE, "arguments": arguments}


def _with_deviceshare(plugins: list[Plugin], release: Version | None) -> Iterator[ConfigurationFinding]:
    """What is wrong where the extender decides about cards."""
    by_binding = release is not None and ALLOCATION_BY_BINDING.covers(release)
    what = (
        "Volcano writes cards of its own choice into each Binding, and the server writes others over them: the "
        "scheduler counts the wrong ones"
        if by_binding
        else "Volcano keeps a second cache of the cards, which refuses pods that fit and binds with stale ids"
    )
    for plugin in named(plugins, DEVICESHARE):
        if plugin.arguments.get("deviceshare.VGPUEnable") is True:
            yield error(
                f"{plugin.place} deviceshare.VGPUEnable",
                what,
                "remove the plugin, or at least this argument, and restart the scheduler",
            )


def _without_deviceshare(plugins: list[Plugin], mode: AllocatorMode) -> Iterator[ConfigurationFinding]:
    """What is wrong where Volcano decides about cards."""
    shares = named(plugins, DEVICESHARE)
    if not any(plugin.arguments.get("deviceshare.VGPUEnable") is True for plugin in shares):
        place = f"{shares[0].place} deviceshare.VGPUEnable" if shares else DEVICESHARE
        yield error(
            place,
            f"in mode {mode} Volcano itself chooses the cards, and this turns it off",
            "add the plugin deviceshare with deviceshare.VGPUEnable: true, restart the scheduler; or use mode extender",
        )
    if not named(plugins, PREDICATES):
        yield error(
            PREDICATES, "without this plugin Volcano writes no allocation at all", "add the plugin predicates to a tier"
        )
    for plugin in shares:
        if plugin.arguments.get("deviceshare.NodeLockEnable") is True:
            yield warning(
                f"{plugin.place} deviceshare.NodeLockEnable",
                "while a node is locked its next pod is bound without cards",
                "remove it",
            )


def _two_caches(plugins: list[Plugin], resources: Sequence[ResourceNames]) -> Iterator[ConfigurationFinding]:
    """Whether an extender is asked about these as well."""
    for plugin in named(plugins, EXTENDER):
        managed = plugin.arguments.get("extender.managedResources")
        if isinstance(managed, list) and set(managed) & set(names_of(resources)):
            yield warning(
                plugin.place,
                "an extender is asked about cards, and deviceshare decides about them as well",
                "use mode extender, or take the vGPU names out of extender.managedResources",
            )
