"""What does not go together in Volcano's scheduler configuration, the mode of the allocator, and a release of Volcano.

The releases, and the sources, are in ``vendors.volcano_releases``. Without a release a finding names those it is about,
and is only to be known where other releases are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests.eviction_configuration import BUNDLES, TOPOLOGY, topology_arguments
from hami_plugins.allocations.manifests.volcano_configuration import (
    DEVICESHARE,
    EVICTING,
    ConfigurationFinding,
    Plugin,
    Severity,
    actions_of,
    error,
    info,
    named,
    warning,
)
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Quirk, Version, release_name

RULES: Final = "deviceshare.GPUExclusiveRules"
SHARES: Final = ("deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable")
NPUS: Final = "deviceshare.AscendHAMiVNPUEnable"
NPU_PREFIX: Final = "huawei.com/Ascend"


def check(
    conf: Mapping[str, Any],
    plugins: Sequence[Plugin],
    mode: AllocatorMode,
    asked: Sequence[str],
    release: Version | None,
) -> Iterator[ConfigurationFinding]:
    """What does not go together. ``asked`` are the resources about which an extender is asked."""
    if release is not None:
        yield from _policy(mode, release)
        yield from _bundles(conf, release)
        if mode is not AllocatorMode.EXTENDER:
            yield from _evictions(conf, mode, release)
            yield from _topology(conf, mode, release)
    for plugin in named(plugins, DEVICESHARE):
        yield from _shared(plugin)
        yield from _exclusive(plugin, mode, release)
        if release is not None:
            yield from _order(plugin, mode, release)
            yield from _two_writers(plugin, mode, release)
        yield from _npus(plugin, asked)


def _policy(mode: AllocatorMode, release: Version) -> Iterator[ConfigurationFinding]:
    quirk = volcano_releases.ALLOCATION_BY_BINDING
    if mode is AllocatorMode.POLICY and quirk.covers(release):
        yield error(
            f"mode {mode}",
            f"{_which(quirk, release)} writes the allocation into the Binding alone, and the policy of this mode "
            "removes it: pods are bound without cards",
            "delete the MutatingAdmissionPolicy volcano-vgpu-stale-allocations and its binding, or use mode webhook or "
            "extender",
        )


def _bundles(conf: Mapping[str, Any], release: Version) -> Iterator[ConfigurationFinding]:
    quirk = volcano_releases.NO_BUNDLES
    for action in actions_of(conf):
        if action in BUNDLES and quirk.covers(release):
            yield error(
                f"actions {action}",
                f"{_which(quirk, release)} does not know the action and refuses the whole configuration: the one "
                "before, or the default, stays in force",
                f"use {action.removeprefix('gang')} instead",
            )


def _evictions(conf: Mapping[str, Any], mode: AllocatorMode, release: Version) -> Iterator[ConfigurationFinding]:
    """What Volcano's own evictions for cards do wrong."""
    for action in actions_of(conf):
        if action not in EVICTING:
            continue
        for quirk, what in (
            (volcano_releases.EVICTS_IN_VAIN, "evicts pods of several cards also where no card has room afterwards"),
            (volcano_releases.FOREIGN_GANG_CARDS, "binds gangs that preempt with cards of other nodes"),
            (
                volcano_releases.STRIPPED_VICTIMS,
                "takes the allocation off running pods that it tries to evict and keeps, unless their "
                "volcano.sh/bind-phase is success",
            ),
        ):
            if quirk.holds(release, DeviceAssigner(mode.value)):
                yield warning(
                    f"actions {action}",
                    f"{_which(quirk, release)} {what}",
                    f"remove {action}, or use mode extender with preemption.mode",
                )


def _topology(conf: Mapping[str, Any], mode: AllocatorMode, release: Version) -> Iterator[ConfigurationFinding]:
    for place in topology_arguments(conf):
        for quirk, what in (
            (
                volcano_releases.VICTIMS_STILL_RUNNING,
                "binds pods while their victims still run: cards are allocated twice",
            ),
            (volcano_releases.NO_CARDS_IN_COPIES, "looks at the sums of a node there, and at no card"),
        ):
            if quirk.holds(release, DeviceAssigner(mode.value)):
                yield warning(place, f"{_which(quirk, release)} {what}", f"remove {TOPOLOGY}")


def _shared(plugin: Plugin) -> Iterator[ConfigurationFinding]:
    """Sharing modes that crash the scheduler when combined with vGPUs (Volcano 1.14.1 ``deviceshare.go:103``)."""
    if plugin.arguments.get("deviceshare.VGPUEnable") is True:
        for argument in SHARES:
            if plugin.arguments.get(argument) is True:
                yield error(
                    f"{plugin.place} {argument}",
                    "the scheduler ends at its start where this and deviceshare.VGPUEnable are true",
                    f"remove {argument}",
                )


def _exclusive(plugin: Plugin, mode: AllocatorMode, release: Version | None) -> Iterator[ConfigurationFinding]:
    if RULES not in plugin.arguments:
        return
    place, rules = f"{plugin.place} {RULES}", plugin.arguments[RULES]
    quirk = volcano_releases.NO_EXCLUSIVE_RULES
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        yield error(place, f"{rules!r} is not a list of labels and is not read", "write a list: [{<label>: <value>}]")
    elif mode is not AllocatorMode.POLICY:
        what = "the server chooses the cards and does not read these rules"
        yield warning(place, what, "ask for whole cards on the pods, volcano.sh/vgpu-cores: 100")
    elif quirk.covers(release):
        yield _finding(
            "warning" if release is not None else "info",
            place,
            f"{_which(quirk, release)} does not read it: pods share cards",
            "ask for whole cards on the pods, volcano.sh/vgpu-cores: 100",
        )


def _order(plugin: Plugin, mode: AllocatorMode, release: Version) -> Iterator[ConfigurationFinding]:
    quirk, argument = volcano_releases.RANKS_NODES_ONLY, "deviceshare.SchedulePolicy"
    if plugin.arguments.get(argument) and mode is AllocatorMode.POLICY and quirk.covers(release):
        yield info(
            f"{plugin.place} {argument}",
            f"{_which(quirk, release)} ranks nodes by it; on a node the last card with room comes first",
            "use mode webhook or extender where the order of cards matters",
        )


def _two_writers(plugin: Plugin, mode: AllocatorMode, release: Version) -> Iterator[ConfigurationFinding]:
    quirk, argument = volcano_releases.ALLOCATION_BY_BINDING, "deviceshare.VGPUEnable"
    if mode is not AllocatorMode.WEBHOOK or not quirk.covers(release):
        return
    if plugin.arguments.get(argument) is True:
        yield info(
            f"{plugin.place} {argument}",
            f"{_which(quirk, release)} and the server write the allocation into the same Binding; the server is last, "
            "and this was not run with that release",
            "use mode extender, in which one of them chooses",
        )


def _npus(plugin: Plugin, asked: Sequence[str]) -> Iterator[ConfigurationFinding]:
    npus = sorted(name for name in asked if name.startswith(NPU_PREFIX))
    if npus and plugin.arguments.get(NPUS) is True:
        yield error(
            f"{plugin.place} {NPUS}",
            f"the extender decides about {npus[0]} and others as well: two caches count the same devices",
            f"remove {NPUS}, or leave Ascend out of the setting vendors",
        )


def _which(quirk: Quirk, release: Version | None) -> str:
    """The releases that a finding is about."""
    return str(quirk) if release is None else f"Volcano {release_name(release)}"


def _finding(severity: Severity, place: str, what: str, remedy: str) -> ConfigurationFinding:
    return ConfigurationFinding(severity=severity, place=place, what=what, remedy=remedy)
