"""What the secret texts of a cluster become, so that it can be shown to strangers.

Pseudonyms are numbers in the order of the texts, because schedulers decide ties by name. No pseudonym is computed from
its text, so a dictionary attack does not find a text. Redacting again changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, Protocol

from hami_plugins.inputs.snapshots.published import (
    ATTRIBUTES,
    CLASSES,
    NAMESPACES,
    QUEUES,
    RUNTIMES,
    SCHEDULERS,
    Published,
)


class Named(StrEnum):
    """The category of a name; the names of one category are numbered together."""

    NODE = "node"
    NAMESPACE = "namespace"
    POD = "pod"
    GROUP = "group"
    QUEUE = "queue"
    TASK = "task"
    CLASS = "class"
    QUOTA = "quota"
    BUDGET = "budget"
    SCHEDULER = "scheduler"
    RUNTIME = "runtime"
    DRIVER = "driver"
    POOL = "pool"
    SLICE = "slice"
    DEVICE = "device"
    DEVICE_CLASS = "device-class"
    CLAIM = "claim"
    REQUEST = "request"
    ATTRIBUTE = "attribute"
    NODE_POOL = "node-pool"
    NODE_GROUP = "node-group"
    NODE_CLASS = "node-class"


_GIVEN: Final[Mapping[Named, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    Named.NAMESPACE: (NAMESPACES, ("a-namespace", "e-namespace", "namespace")),
    Named.QUEUE: (QUEUES, ("a-queue", "queue", "z-queue")),
    Named.CLASS: (CLASSES, ("class", "system-m-class", "z-class")),
    Named.SCHEDULER: (SCHEDULERS, ("scheduler",) * (len(SCHEDULERS) + 1)),
    Named.ATTRIBUTE: (ATTRIBUTES, ("attribute",) * (len(ATTRIBUTES) + 1)),
    Named.RUNTIME: (RUNTIMES, ("runtime",) * (len(RUNTIMES) + 1)),
}
"""Names that stay, sorted, and how pseudonyms between them begin, so that all sort as the names did."""

_UUID: Final = re.compile(r"((?:[A-Za-z]{2,5}-)?)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_PREFIXES: Final = frozenset({"", "GPU-", "MIG-", "MLU-", "DCU-", "NPU-", "XPU-", "GCU-"})


class PseudonymSource(Protocol):
    """Where the walk over the objects asks what a secret text becomes."""

    def name(self, kind: Named, text: str) -> str:
        """The pseudonym of a name."""

    def key(self, text: str) -> str:
        """The pseudonym of a key or of the name of a resource."""

    def value(self, text: str) -> str:
        """The pseudonym of any other text, without blanks."""

    def number(self, key: str, text: str) -> str:
        """The rank of a whole number among those of a label."""

    def bus(self, text: str) -> str:
        """The pseudonym of a PCI bus, in the same form."""


class SecretCollector:
    """Collects the secret texts of a cluster; everything stays as it is."""

    def __init__(self) -> None:
        self.names: dict[Named, set[str]] = {kind: set() for kind in Named}
        self.keys: set[str] = set()
        self.values: set[str] = set()
        self.numbers: defaultdict[str, set[str]] = defaultdict(set)
        self.buses: set[str] = set()

    def name(self, kind: Named, text: str) -> str:
        self.names[kind].add(text)
        return text

    def key(self, text: str) -> str:
        self.keys.add(text)
        return text

    def value(self, text: str) -> str:
        self.values.add(text)
        return text

    def number(self, key: str, text: str) -> str:
        self.numbers[key].add(text)
        return text

    def bus(self, text: str) -> str:
        self.buses.add(text)
        return text


class Pseudonyms:
    """What every secret text of a cluster became, by what it is."""

    def __init__(self, found: SecretCollector, published: Published) -> None:
        self.names = {kind: _ranked(kind, names) for kind, names in found.names.items()}
        attributes = self.names[Named.ATTRIBUTE]
        self.names[Named.ATTRIBUTE] = {name: made.replace("-", "_") for name, made in attributes.items()}
        self.keys = _keys(found.keys, published)
        self.values = _values(found.values)
        self.numbers = {key: _ranks(texts) for key, texts in found.numbers.items()}
        self.buses = _buses(found.buses)

    def name(self, kind: Named, text: str) -> str:
        return self.names[kind][text]

    def key(self, text: str) -> str:
        return self.keys[text]

    def value(self, text: str) -> str:
        return self.values[text]

    def number(self, key: str, text: str) -> str:
        return self.numbers[key][text]

    def bus(self, text: str) -> str:
        return self.buses[text]


def _numbered(names: Iterable[str], *, least: int = 1) -> dict[str, str]:
    """The rank of each text, in digits that sort as the texts do."""
    secret = sorted(names)
    width = max(len(str(max(len(secret) - 1, 0))), least)
    return {name: f"{at:0{width}}" for at, name in enumerate(secret)}


def _ranked(kind: Named, names: Collection[str]) -> dict[str, str]:
    given, prefixes = _GIVEN.get(kind, ((), (kind.value,)))
    numbers = _numbered(name for name in names if name and name not in given)
    made = {name: name for name in ("", *given)}
    return made | {name: f"{prefixes[bisect_right(given, name)]}-{number}" for name, number in numbers.items()}


def _keys(keys: Collection[str], published: Published) -> dict[str, str]:
    """Keys under published domains keep these. Each is sorted in after the published key or domain before it."""
    numbers = _numbered(keys, least=2)
    return {key: _key(key, number, published) for key, number in numbers.items()}


def _key(key: str, number: str, published: Published) -> str:
    domain, slash, _ = key.partition("/")
    if slash and domain in published.domains:
        names = published.by_domain[domain]
        at = bisect_right(names, key)
        return f"{names[at - 1]}-{number}" if at else f"{domain}/0-{number}"
    at = bisect_right(published.anchors, key)
    before = published.anchors[at - 1] if at else ""
    return f"{before}0-{number}.example/key" if slash else f"{before}0-{number}"


def _values(values: Collection[str]) -> dict[str, str]:
    """Any texts by number; UUIDs keep their form and the letters before them."""
    forms: defaultdict[str | None, list[str]] = defaultdict(list)
    for value in values:
        match = _UUID.fullmatch(value)
        forms[match[1] if match and match[1] in _PREFIXES else None].append(value)
    made = {value: f"redacted-{number}" for value, number in _numbered(forms.pop(None, ())).items()}
    for prefix, ids in forms.items():
        numbers = _numbered(ids, least=12)
        made |= {value: f"{prefix}00000000-0000-4000-8000-{number}" for value, number in numbers.items()}
    return made


def _ranks(texts: Collection[str]) -> dict[str, str]:
    """Whole numbers as their ranks; texts of one number get the same, and differ in zeros before it."""
    by_number: defaultdict[int, list[str]] = defaultdict(list)
    for text in texts:
        by_number[int(text)].append(text)
    return {
        text: "0" * (len(same) - 1 - at) + str(rank)
        for rank, (_, same) in enumerate(sorted(by_number.items()))
        for at, text in enumerate(sorted(same))
    }


def _buses(buses: Collection[str]) -> dict[str, str]:
    """``3b`` and ``0000:3b`` keep their form."""
    made = {}
    for long in (False, True):
        for rank, bus in enumerate(sorted(each for each in buses if (":" in each) is long)):
            domain = len(bus) - 3
            made[bus] = f"{rank >> 8:0{domain}x}:{rank & 255:02x}" if long else f"{rank:02x}"
    return made
