"""Volcano's scheduler configuration for each mode: what belongs into it, and what is wrong with the one that is there.

What the scheduler reads of it is known from 1.14.1 (``trials.md`` V12 and V14): an argument of the wrong type is passed
over without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests import volcano_configuration
from hami_plugins.allocations.manifests.volcano_configuration import (
    EXTENDER,
    PREDICATES,
    ConfigurationFinding,
    Plugin,
    error,
    extender_arguments,
    named,
    names_of,
    warning,
)
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors.volcano import RESOURCES

DEVICESHARE: Final = "deviceshare"
COMMAND: Final = "hami-plugins volcano-vgpu conf"

FLAGS: Final[Mapping[AllocatorMode, Mapping[str, str]]] = {
    AllocatorMode.EXTENDER: volcano_configuration.FLAGS,
    AllocatorMode.WEBHOOK: {},
    AllocatorMode.POLICY: {},
}
"""Flags of vc-scheduler that go with a mode, and why."""


def document(mode: AllocatorMode, url: str, resources: Sequence[ResourceNames] = (RESOURCES,)) -> dict[str, Any]:
    """A whole configuration for the mode; ``url`` is where the scheduler reaches the extender."""
    if mode is AllocatorMode.EXTENDER:
        return volcano_configuration.document({"name": EXTENDER, "arguments": extender_arguments(url, resources)})
    return volcano_configuration.document(deviceshare())


def check(
    conf: Mapping[str, Any], mode: AllocatorMode, resources: Sequence[ResourceNames] = (RESOURCES,)
) -> tuple[ConfigurationFinding, ...]:
    """What is wrong with a configuration for the mode, in the order of the file; empty where nothing is."""
    found, unreadable = volcano_configuration.plugins(conf)
    if unreadable:
        return tuple(unreadable)
    if mode is AllocatorMode.EXTENDER:
        return (
            *_evictions(conf),
            *with_deviceshare(found),
            *volcano_configuration.extender(found, resources, COMMAND),
        )
    return (*without_deviceshare(found, mode), *two_caches(found, resources))


def _evictions(conf: Mapping[str, Any]) -> Iterator[ConfigurationFinding]:
    return volcano_configuration.evictions(conf, "cards", "delete pods to free their cards, or use mode webhook")


def deviceshare() -> dict[str, Any]:
    """Volcano's own plugin for cards."""
    arguments = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.ScheduleWeight": 10,
    }
    return {"name": DEVICESHARE, "arguments": arguments}


def with_deviceshare(plugins: list[Plugin]) -> Iterator[ConfigurationFinding]:
    """What is wrong where the extender decides about cards."""
    for plugin in named(plugins, DEVICESHARE):
        if plugin.arguments.get("deviceshare.VGPUEnable") is True:
            yield error(
                f"{plugin.place} deviceshare.VGPUEnable",
                "Volcano keeps a second cache of the cards, which refuses pods that fit and binds with stale ids",
                "remove the plugin, or at least this argument, and restart the scheduler",
            )


def without_deviceshare(plugins: list[Plugin], mode: AllocatorMode) -> Iterator[ConfigurationFinding]:
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


def two_caches(plugins: list[Plugin], resources: Sequence[ResourceNames]) -> Iterator[ConfigurationFinding]:
    """Whether an extender is asked about these as well."""
    for plugin in named(plugins, EXTENDER):
        managed = plugin.arguments.get("extender.managedResources")
        if isinstance(managed, list) and set(managed) & set(names_of(resources)):
            yield warning(
                plugin.place,
                "an extender is asked about cards, and deviceshare decides about them as well",
                "use mode extender, or take the vGPU names out of extender.managedResources",
            )
