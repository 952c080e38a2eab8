"""Nodes without a kubelet: made through the API as an agent would have registered them; pods bound there stay Pending.

The judge counts their pods' allocations in the simplest way, from the API server's objects alone.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tests.cluster.agents import CORES, HANDSHAKE, MEMORY, NUMBER, REGISTER
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.slices import ALLOCATED_NODE, IDS
from tests.cluster.waiting import wait_until

POOL: Final = "test/pool"
NODES: Final = "/api/v1/nodes"
NEVER_EXPIRES: Final = "Requesting_2099.01.01 00:00:00"
SLOTS: Final = 10
WHOLE: Final = 40960
MODEL: Final = "NVIDIA-NVIDIA A100-SXM4-40GB"
_CORES: Final = 100
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Card:
    """A card of such a node."""

    uuid: str
    memory: int = WHOLE
    slots: int = SLOTS
    model: str = MODEL
    healthy: bool = True

    def __str__(self) -> str:
        return f"{self.uuid},{self.slots},{self.memory},{self.model},{'true' if self.healthy else 'false'},hami-core:"


@dataclass(slots=True)
class Pool:
    """Some nodes that pods reach by ``selector``. At the end of the ``with`` they are gone, and the pods on them.

    ``ids`` and ``node`` are the annotations of pods that name their cards and their node.
    """

    plane: ControlPlane
    name: str = field(default_factory=lambda: f"pool-{secrets.token_hex(3)}")
    cards: dict[str, tuple[Card, ...]] = field(default_factory=dict)
    ids: str = IDS
    node: str = ALLOCATED_NODE

    @property
    def selector(self) -> Mapping[str, str]:
        return {POOL: self.name}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.cards:
            for each in self.plane.api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}"):
                place = f"/api/v1/namespaces/{each['metadata']['namespace']}/pods/{each['metadata']['name']}"
                self.plane.api.delete(place, grace=0)
            self.plane.api.delete(f"{NODES}/{node}")

    def add(self, count: int = 1, *, cards: int = 1, **of_card: Any) -> list[str]:
        """More nodes of equal cards; their names."""
        names = [f"{self.name}-{len(self.cards) + at}" for at in range(count)]
        for name in names:
            unique = secrets.token_hex(6)
            self._create(name, [Card(f"GPU-{at:08x}-0000-0000-0000-{unique}", **of_card) for at in range(cards)])
        self._wait_taking_pods()
        return names

    def put(self, name: str, cards: Iterable[Card], *, annotations: Mapping[str, str] | None = None) -> None:
        """Makes a node, with other annotations than its agent would write where some are given."""
        self._create(name, cards, annotations)
        self._wait_taking_pods()

    def _create(self, name: str, cards: Iterable[Card], annotations: Mapping[str, str] | None = None) -> None:
        listed = tuple(cards)
        healthy = [card for card in listed if card.healthy]
        amounts = {
            "cpu": "96",
            "memory": "1024Gi",
            "pods": "500",
            NUMBER: str(sum(card.slots for card in healthy)),
            MEMORY: str(sum(card.memory for card in healthy)),
            CORES: str(_CORES * len(healthy)),
        }
        notes = {REGISTER: "".join(map(str, listed)), HANDSHAKE: NEVER_EXPIRES} if annotations is None else annotations
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        labels = {"kubernetes.io/hostname": name, **self.selector}
        body: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": dict(notes)},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        self.plane.api.create(NODES, body)
        self.cards[name] = listed

    def _wait_taking_pods(self) -> None:
        """The API server taints a new node, and a controller takes that off again when it has seen its condition."""

        def tainted() -> list[str]:
            every = self.plane.api.items(NODES, labelSelector=f"{POOL}={self.name}")
            return [each["metadata"]["name"] for each in every if each["spec"].get("taints")]

        wait_until(lambda: not tainted(), "the nodes take pods", 120, show=lambda: str(tainted()))

    def register(self, name: str, cards: Iterable[Card]) -> None:
        """What the node's agent says of its cards from now on."""
        self.cards[name] = tuple(cards)
        text = "".join(map(str, self.cards[name]))
        self.plane.api.merge_patch(f"{NODES}/{name}", {"metadata": {"annotations": {REGISTER: text}}})

    def touch(self) -> None:
        """Changes every node: 1.14.1 looks at cards only when their node changes."""
        for name in self.cards:
            self.plane.touch_node(name)

    def bound(self) -> list[Object]:
        """The pods on these nodes that have not ended."""
        every = self.plane.api.items("/api/v1/pods")
        return [
            each
            for each in every
            if each["spec"].get("nodeName") in self.cards and each["status"].get("phase") not in _ENDED
        ]

    def faults(self, bound: Iterable[Object] | None = None) -> list[str]:
        """Every allocation of a bound pod that is not right, and every card that has more to give than it has.

        Of the pods that are there now, or of those that were bound in another moment.
        """
        found: list[str] = []
        memory, slots, cores = Counter[str](), Counter[str](), Counter[str]()
        for each in self.bound() if bound is None else bound:
            name, node = each["metadata"]["name"], each["spec"]["nodeName"]
            notes = each["metadata"].get("annotations", {})
            ids = devices(notes.get(self.ids, ""))
            if not ids:
                found.append(f"{name}: bound to {node} without cards")
            if notes.get(self.node) != node:
                found.append(f"{name}: on {node}, allocated for {notes.get(self.node)}")
            own = {card.uuid for card in self.cards[node]}
            for uuid, amount, part in ids:
                if uuid not in own:
                    found.append(f"{name}: on {node}, allocated {uuid} of another node")
                memory[uuid] += amount
                cores[uuid] += part
                slots[uuid] += 1
        for cards in self.cards.values():
            for card in cards:
                used = (slots[card.uuid], memory[card.uuid], cores[card.uuid])
                if any(part > most for part, most in zip(used, (card.slots, card.memory, _CORES), strict=True)):
                    found.append(
                        f"{card.uuid}: slots, memory and cores {used} allocated of {card.slots}, {card.memory}"
                    )
        return found

    def by_card(self) -> Mapping[str, list[str]]:
        """The names of the pods on each card."""
        named: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.bound():
            for uuid, _, _ in devices(each["metadata"].get("annotations", {}).get(self.ids, "")):
                named[uuid].append(each["metadata"]["name"])
        return named


def devices(text: str) -> list[tuple[str, int, int]]:
    """Card, memory and cores of every device in an allocation, whichever container it is for."""
    parts = [device.split(",") for segment in text.split(";") for device in segment.split(":") if device]
    return [(fields[0], int(fields[2]), int(fields[3])) for fields in parts]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
