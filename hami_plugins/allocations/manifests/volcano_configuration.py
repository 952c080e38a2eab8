"""The plugin ``extender`` in Volcano's scheduler configuration: what belongs into it, and what is wrong with one.

Volcano's handling of these arguments was observed with 1.14.1 (``trials.md`` V12): it ignores an argument of the wrong
type without a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hami_plugins.model.vendor_names import ResourceNames

CONFIG_MAP: Final = "volcano-scheduler-configmap"
DEPLOYMENT: Final = "volcano-scheduler"
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


FLAGS: Final[Mapping[str, str]] = {
    "--schedule-period=200ms": "a pod that has to wait is tried again five times a second",
    "--percentage-nodes-to-find=5": "each examined node costs a call with all of its pods: "
    "examine only some nodes of a large cluster",
    "--minimum-feasible-nodes=16": "examine at least so many nodes (100 by default)",
}
"""Flags of vc-scheduler that go with an extender, and why."""

_URL: Final = re.compile(r"(https?)://[^/\s]", re.ASCII)
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFinding:
    """Something in a configuration that breaks the mode (``error``) or costs something (``warning``), or that is only
    to be known (``info``), and what to write instead.
    """

    severity: Severity
    place: str
    what: str
    remedy: str


class Plugin(NamedTuple):
    """A plugin in its tier (by number); ``at`` counts all plugins, in the order in which they are asked."""

    name: str
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    place: str
    at: int
    tier: int


def document(*last: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration, with these plugins at its end."""
    return {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {"plugins": [{"name": PREDICATES}, {"name": "proportion"}, {"name": "nodeorder"}, *map(dict, last)]},
        ],
    }


def extender_arguments(
    url: str, resources: Sequence[ResourceNames], verbs: Mapping[str, str] = VERBS
) -> dict[str, Any]:
    """The arguments of the plugin ``extender``, with these calls."""
    return {
        "extender.urlPrefix": url,
        "extender.httpTimeout": TIMEOUT,
        **{f"extender.{argument}": verb for argument, verb in verbs.items()},
        "extender.ignorable": False,
        "extender.managedResources": names_of(resources),
    }


def names_of(resources: Sequence[ResourceNames]) -> list[str]:
    """The resources of several vendors."""
    return [name for each in resources for name in each.all()]


def plugins(conf: Mapping[str, Any]) -> tuple[list[Plugin], list[ConfigurationFinding]]:
    """The plugins of a configuration, or what cannot be read of it."""
    tiers = conf.get("tiers")
    if not isinstance(tiers, list) or not tiers:
        return [], [error("tiers", "no list of tiers", "give the scheduler's conf, with actions and tiers")]
    found: list[Plugin] = []
    wrong: list[ConfigurationFinding] = []
    for number, tier in enumerate(tiers):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        for place, raw in enumerate(plugins if isinstance(plugins, list) else ()):
            where = f"tiers[{number}].plugins[{place}]"
            if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
                wrong.append(error(where, "a plugin without a name", "write - name: <plugin>"))
                continue
            arguments = raw.get("arguments")
            told = arguments if isinstance(arguments, dict) else {}
            found.append(Plugin(raw["name"], told, raw, f"{where} ({raw['name']})", len(found), number))
    return found, wrong


def named(plugins: Iterable[Plugin], name: str) -> list[Plugin]:
    """Those of a name."""
    return [plugin for plugin in plugins if plugin.name == name]


def actions_of(conf: Mapping[str, Any]) -> list[str]:
    """The actions of a session, in their order."""
    actions = conf.get("actions")
    return [each.strip() for each in actions.split(",")] if isinstance(actions, str) else []


def evictions(conf: Mapping[str, Any], devices: str, remedy: str) -> Iterator[ConfigurationFinding]:
    """Actions that do nothing for these devices."""
    for action in actions_of(conf):
        if action in EVICTING:
            yield warning(
                f"actions {action}",
                f"{devices} are held until their pods have ended; no pod is evicted for another",
                remedy,
            )


def extender(plugins: list[Plugin], resources: Sequence[ResourceNames], command: str) -> Iterator[ConfigurationFinding]:
    """What is wrong with the plugin; ``command`` prints a right one."""
    extenders = named(plugins, EXTENDER)
    if not extenders:
        yield error(
            EXTENDER,
            "the plugin is missing: pods are placed without a check of their devices",
            f"add it after predicates, as `{command}` prints it",
        )
        return
    if len(extenders) > 1:
        yield error(
            extenders[1].place,
            "Volcano keeps one extender: of several, the last one that sets a call is used for it",
            "leave one",
        )
    plugin = extenders[-1]
    yield from _address(plugin)
    yield from _calls(plugin)
    yield from _failing(plugin)
    yield from _managed(plugin, resources)
    yield from _turned_off(plugin)
    predicates = named(plugins, PREDICATES)
    if predicates and plugin.at < predicates[0].at:
        yield warning(
            plugin.place,
            "is listed before predicates, so that it is asked about nodes that cannot be used",
            "move it after predicates",
        )


def _address(plugin: Plugin) -> Iterator[ConfigurationFinding]:
    place = f"{plugin.place} extender.urlPrefix"
    url = plugin.arguments.get("extender.urlPrefix")
    parts = _URL.match(url) if isinstance(url, str) else None
    if parts is None:
        yield error(place, f"not an address: {url!r}", "write http://<service>.<namespace>.svc:<port>/extender")
    elif parts[1] == "https":
        yield warning(
            place, "Volcano's extender trusts only the CAs of its own image", "use http, or a certificate of such a CA"
        )


def _calls(plugin: Plugin) -> Iterator[ConfigurationFinding]:
    for argument, verb in VERBS.items():
        given = plugin.arguments.get(f"extender.{argument}")
        if given == verb:
            continue
        place, remedy = f"{plugin.place} extender.{argument}", f"write extender.{argument}: {verb}"
        if argument == "prioritizeVerb" and given is None:
            yield warning(place, "is missing: nodes are not ranked by their devices", remedy)
        else:
            yield error(place, "is missing" if given is None else f"{given!r} is not answered", remedy)


def _failing(plugin: Plugin) -> Iterator[ConfigurationFinding]:
    ignorable = plugin.arguments.get("extender.ignorable")
    if ignorable is True:
        yield error(
            f"{plugin.place} extender.ignorable",
            "while the server is away pods are placed without a check of their devices",
            "write extender.ignorable: false",
        )
    elif ignorable not in (None, False):
        yield warning(
            f"{plugin.place} extender.ignorable", f"{ignorable!r} is not read", "write extender.ignorable: false"
        )
    place = f"{plugin.place} extender.httpTimeout"
    timeout = plugin.arguments.get("extender.httpTimeout")
    given = seconds(timeout) if isinstance(timeout, str) else None
    if given is None:
        told = "is missing" if timeout is None else f"{timeout!r} is not a duration"
        yield warning(place, f"{told}: the default is 1 s", f"write extender.httpTimeout: {TIMEOUT}")
    elif given < LEAST_TIMEOUT:
        yield warning(place, f"{timeout} is short for a large node", f"write extender.httpTimeout: {TIMEOUT}")


def _managed(plugin: Plugin, resources: Sequence[ResourceNames]) -> Iterator[ConfigurationFinding]:
    place = f"{plugin.place} extender.managedResources"
    managed = plugin.arguments.get("extender.managedResources")
    remedy = f"write it as a list: [{', '.join(names_of(resources))}]"
    if isinstance(managed, str):
        yield error(place, "is a string and is ignored; every pod is sent to the extender", remedy)
    elif not isinstance(managed, list) or not managed:
        yield error(place, "is missing; every pod is sent to the extender", remedy)
    elif not all(isinstance(each, str) for each in managed):
        yield error(place, "is not a list of names; every pod is sent to the extender", remedy)
    elif missing := [name for name in _needed(resources) if name not in managed]:
        yield error(place, f"lacks {', '.join(missing)}: pods that ask for that alone are not checked", remedy)


def _needed(resources: Sequence[ResourceNames]) -> list[str]:
    """The names by which pods are known to ask for devices. A percentage never stands alone: new pods get a number."""
    return [name for each in resources for name in each.all() if name != each.memory_percentage]


def _turned_off(plugin: Plugin) -> Iterator[ConfigurationFinding]:
    for option in ("enablePredicate", "enableNodeOrder"):
        if plugin.options.get(option) is False:
            what = "the plugin's calls are not made"
            yield error(f"{plugin.place} {option}", what, f"remove {option}: false")


def seconds(text: str) -> float | None:
    """A duration as Go writes it (``1m30s``), ``None`` for another text."""
    total, at = 0.0, 0
    for part in _DURATION.finditer(text):
        if part.start() != at:
            return None
        number = part.group().rstrip("nuµmsh")
        total += float(number) * _SECONDS[part.group()[len(number) :]]
        at = part.end()
    return total if at == len(text) and at else None


def error(place: str, what: str, remedy: str) -> ConfigurationFinding:
    """What breaks it."""
    return ConfigurationFinding(severity="error", place=place, what=what, remedy=remedy)


def warning(place: str, what: str, remedy: str) -> ConfigurationFinding:
    """What costs something."""
    return ConfigurationFinding(severity="warning", place=place, what=what, remedy=remedy)


def info(place: str, what: str, remedy: str) -> ConfigurationFinding:
    """What is to be known."""
    return ConfigurationFinding(severity="info", place=place, what=what, remedy=remedy)
