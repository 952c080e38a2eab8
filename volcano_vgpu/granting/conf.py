"""Volcano's scheduler configuration for each mode: what belongs into it, and what is wrong with the one that is there.

What the scheduler reads of it is known from 1.14.1 (``peers.md`` 3.8 and 7): an argument of the wrong type is passed
over without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hami_plugins.model.vendor import ResourceNames
from hami_plugins.vendors.volcano import RESOURCES
from volcano_vgpu.granting.modes import Mode

CONFIG_MAP: Final = "volcano-scheduler-configmap"
CONFIG_KEY: Final = "volcano-scheduler.conf"

EXTENDER: Final = "extender"
DEVICESHARE: Final = "deviceshare"
PREDICATES: Final = "predicates"

EVICTING: Final = frozenset({"preempt", "reclaim"})
"""Actions that end pods to make room for others."""

VERBS: Final[Mapping[str, str]] = {
    "predicateVerb": "predicate",
    "prioritizeVerb": "prioritize",
    "allocateFuncVerb": "allocate",
    "deallocateFuncVerb": "deallocate",
}
"""The calls that are answered, by the argument that turns each on."""

TIMEOUT: Final = "5s"
LEAST_TIMEOUT: Final = 2.0
"""Seconds. While a replica takes over nothing is answered; a call that is given up costs a whole session."""

FLAGS: Final[Mapping[Mode, Mapping[str, str]]] = {
    Mode.LEDGER: {
        "--schedule-period=200ms": "a pod that has to wait is tried again five times a second",
        "--percentage-nodes-to-find=5": "each node that is looked at costs a call with all of its pods in it: "
        "look at some of a large cluster's nodes",
        "--minimum-feasible-nodes=16": "of small clusters look at so many all the same (100 without it)",
    },
    Mode.GUARD: {},
    Mode.POLICY: {},
}
"""Flags of vc-scheduler that go with a mode, and why."""

_URL: Final = re.compile(r"(https?)://[^/\s]", re.ASCII)
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a configuration that breaks the mode (``error``) or costs something, and what to write instead."""

    severity: Severity
    place: str
    what: str
    remedy: str


class _Plugin(NamedTuple):
    """A plugin in its tier; ``at`` counts all plugins, in the order in which they are asked."""

    name: str
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    place: str
    at: int


def document(mode: Mode, url: str, resources: ResourceNames = RESOURCES) -> dict[str, Any]:
    """A whole configuration for the mode; ``url`` is where the scheduler reaches the extender."""
    last: dict[str, Any] = {"name": DEVICESHARE, "arguments": _deviceshare()}
    if mode is Mode.LEDGER:
        last = {"name": EXTENDER, "arguments": extender_arguments(url, resources)}
    return {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {"plugins": [{"name": PREDICATES}, {"name": "proportion"}, {"name": "nodeorder"}, last]},
        ],
    }


def extender_arguments(url: str, resources: ResourceNames = RESOURCES) -> dict[str, Any]:
    """The arguments of the plugin ``extender``."""
    return {
        "extender.urlPrefix": url,
        "extender.httpTimeout": TIMEOUT,
        **{f"extender.{argument}": verb for argument, verb in VERBS.items()},
        "extender.ignorable": False,
        "extender.managedResources": list(resources.all()),
    }


def check(conf: Mapping[str, Any], mode: Mode, resources: ResourceNames = RESOURCES) -> tuple[Finding, ...]:
    """What is wrong with a configuration for the mode, in the order of the file; empty where nothing is."""
    found, unreadable = _plugins(conf)
    if unreadable:
        return tuple(unreadable)
    if mode is Mode.LEDGER:
        return (*_evictions(conf), *_with_deviceshare(found), *_extender(found, resources))
    return (*_without_deviceshare(found, mode), *_two_ledgers(found, resources))


def _deviceshare() -> dict[str, Any]:
    return {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.ScheduleWeight": 10,
    }


def _plugins(conf: Mapping[str, Any]) -> tuple[list[_Plugin], list[Finding]]:
    tiers = conf.get("tiers")
    if not isinstance(tiers, list) or not tiers:
        return [], [_error("tiers", "no list of tiers", "give the scheduler's conf, with actions and tiers")]
    found: list[_Plugin] = []
    wrong: list[Finding] = []
    for number, tier in enumerate(tiers):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        for place, raw in enumerate(plugins if isinstance(plugins, list) else ()):
            where = f"tiers[{number}].plugins[{place}]"
            if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
                wrong.append(_error(where, "a plugin without a name", "write - name: <plugin>"))
                continue
            arguments = raw.get("arguments")
            told = arguments if isinstance(arguments, dict) else {}
            found.append(_Plugin(raw["name"], told, raw, f"{where} ({raw['name']})", len(found)))
    return found, wrong


def _named(plugins: Iterable[_Plugin], name: str) -> list[_Plugin]:
    return [plugin for plugin in plugins if plugin.name == name]


def _evictions(conf: Mapping[str, Any]) -> Iterator[Finding]:
    actions = conf.get("actions")
    named = [each.strip() for each in actions.split(",")] if isinstance(actions, str) else []
    for action in named:
        if action in EVICTING:
            yield _warning(
                f"actions {action}",
                "cards are held until their pods have ended, so that nobody is evicted for those that another needs",
                "delete pods that have to go, or use mode guard",
            )


def _with_deviceshare(plugins: list[_Plugin]) -> Iterator[Finding]:
    for plugin in _named(plugins, DEVICESHARE):
        if plugin.arguments.get("deviceshare.VGPUEnable") is True:
            yield _error(
                f"{plugin.place} deviceshare.VGPUEnable",
                "Volcano keeps a second ledger of the cards, which refuses pods that fit and binds with stale ids",
                "remove the plugin, or at least this argument, and restart the scheduler",
            )


def _without_deviceshare(plugins: list[_Plugin], mode: Mode) -> Iterator[Finding]:
    shares = _named(plugins, DEVICESHARE)
    if not any(plugin.arguments.get("deviceshare.VGPUEnable") is True for plugin in shares):
        place = f"{shares[0].place} deviceshare.VGPUEnable" if shares else DEVICESHARE
        yield _error(
            place,
            f"in mode {mode} Volcano itself chooses the cards, and this turns it off",
            "add the plugin deviceshare with deviceshare.VGPUEnable: true, restart the scheduler; or use mode ledger",
        )
    if not _named(plugins, PREDICATES):
        yield _error(
            PREDICATES, "without this plugin Volcano writes no grant at all", "add the plugin predicates to a tier"
        )
    for plugin in shares:
        if plugin.arguments.get("deviceshare.NodeLockEnable") is True:
            yield _warning(
                f"{plugin.place} deviceshare.NodeLockEnable",
                "while a node is locked its next pod is bound without cards",
                "remove it",
            )


def _two_ledgers(plugins: list[_Plugin], resources: ResourceNames) -> Iterator[Finding]:
    for plugin in _named(plugins, EXTENDER):
        managed = plugin.arguments.get("extender.managedResources")
        if isinstance(managed, list) and set(managed) & set(resources.all()):
            yield _warning(
                plugin.place,
                "an extender is asked about cards, and deviceshare decides about them, too",
                "use mode ledger, or take the vGPU names out of extender.managedResources",
            )


def _extender(plugins: list[_Plugin], resources: ResourceNames) -> Iterator[Finding]:
    extenders = _named(plugins, EXTENDER)
    if not extenders:
        yield _error(
            EXTENDER,
            "the plugin is missing: pods are placed without a look at their cards",
            "add it behind predicates, as `hami-plugins volcano-vgpu conf` prints it",
        )
        return
    if len(extenders) > 1:
        yield _error(
            extenders[1].place,
            "Volcano keeps one extender: of several the last one with each call has the word",
            "leave one",
        )
    plugin = extenders[-1]
    yield from _address(plugin)
    yield from _calls(plugin)
    yield from _failing(plugin)
    yield from _managed(plugin, resources)
    yield from _turned_off(plugin)
    predicates = _named(plugins, PREDICATES)
    if predicates and plugin.at < predicates[0].at:
        yield _warning(
            plugin.place,
            "stands before predicates, so that it is asked about nodes that are out of the question",
            "move it behind predicates",
        )


def _address(plugin: _Plugin) -> Iterator[Finding]:
    place = f"{plugin.place} extender.urlPrefix"
    url = plugin.arguments.get("extender.urlPrefix")
    parts = _URL.match(url) if isinstance(url, str) else None
    if parts is None:
        yield _error(place, f"no address: {url!r}", "write http://<service>.<namespace>.svc:<port>/extender")
    elif parts[1] == "https":
        yield _warning(
            place, "Volcano's extender trusts only the CAs of its own image", "use http, or a certificate of such a CA"
        )


def _calls(plugin: _Plugin) -> Iterator[Finding]:
    for argument, verb in VERBS.items():
        given = plugin.arguments.get(f"extender.{argument}")
        if given == verb:
            continue
        place, remedy = f"{plugin.place} extender.{argument}", f"write extender.{argument}: {verb}"
        if argument == "prioritizeVerb" and given is None:
            yield _warning(place, "is missing: nodes are not ranked by their cards", remedy)
        else:
            yield _error(place, "is missing" if given is None else f"{given!r} is not answered", remedy)


def _failing(plugin: _Plugin) -> Iterator[Finding]:
    ignorable = plugin.arguments.get("extender.ignorable")
    if ignorable is True:
        yield _error(
            f"{plugin.place} extender.ignorable",
            "while the server is away pods are placed without a look at their cards",
            "write extender.ignorable: false",
        )
    elif ignorable not in (None, False):
        yield _warning(
            f"{plugin.place} extender.ignorable", f"{ignorable!r} is not read", "write extender.ignorable: false"
        )
    place = f"{plugin.place} extender.httpTimeout"
    timeout = plugin.arguments.get("extender.httpTimeout")
    seconds = _seconds(timeout) if isinstance(timeout, str) else None
    if seconds is None:
        told = "is missing" if timeout is None else f"{timeout!r} is no duration"
        yield _warning(place, f"{told}: it is 1 s", f"write extender.httpTimeout: {TIMEOUT}")
    elif seconds < LEAST_TIMEOUT:
        yield _warning(place, f"{timeout} is short for a large node", f"write extender.httpTimeout: {TIMEOUT}")


def _managed(plugin: _Plugin, resources: ResourceNames) -> Iterator[Finding]:
    place = f"{plugin.place} extender.managedResources"
    managed = plugin.arguments.get("extender.managedResources")
    remedy = f"write it as a list: [{', '.join(resources.all())}]"
    if isinstance(managed, str):
        yield _error(place, "is a text and not read; every pod comes to the extender", remedy)
    elif not isinstance(managed, list) or not managed:
        yield _error(place, "is missing; every pod comes to the extender", remedy)
    elif not all(isinstance(each, str) for each in managed):
        yield _error(place, "is not a list of names; every pod comes to the extender", remedy)
    elif missing := [name for name in _needed(resources) if name not in managed]:
        yield _error(place, f"lacks {', '.join(missing)}: pods that ask for that alone are not looked at", remedy)


def _needed(resources: ResourceNames) -> tuple[str, ...]:
    """The names by which pods are known to ask for cards. A percentage never stands alone: new pods get a number."""
    return tuple(name for name in resources.all() if name != resources.memory_percentage)


def _turned_off(plugin: _Plugin) -> Iterator[Finding]:
    for option in ("enablePredicate", "enableNodeOrder"):
        if plugin.options.get(option) is False:
            what = "the plugin's calls are not made"
            yield _error(f"{plugin.place} {option}", what, f"remove {option}: false")


def _seconds(text: str) -> float | None:
    """A duration as Go writes it (``1m30s``), ``None`` for another text."""
    total, at = 0.0, 0
    for part in _DURATION.finditer(text):
        if part.start() != at:
            return None
        number = part.group().rstrip("nuµmsh")
        total += float(number) * _SECONDS[part.group()[len(number) :]]
        at = part.end()
    return total if at == len(text) and at else None


def _error(place: str, what: str, remedy: str) -> Finding:
    return Finding(severity="error", place=place, what=what, remedy=remedy)


def _warning(place: str, what: str, remedy: str) -> Finding:
    return Finding(severity="warning", place=place, what=what, remedy=remedy)
