"""Random clusters in which a pod makes room for itself, whichever process is killed meanwhile: no pod leaves in vain.

``EVICTION_EPISODES`` sets how many; a long run has 300.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from tests.cluster.agents import Numbers
from tests.cluster.api import Object
from tests.cluster.card_nodes import WHOLE, Pool, devices
from tests.cluster.pretended_kubelet import PretendedKubelet
from tests.cluster.waiting import wait_until

EPISODES: Final = int(os.environ.get("EVICTION_EPISODES", "8"))
LOW: Final = (8_000, 12_000, 18_000)
HIGH: Final = (15_000, 25_000, 38_000)


class EpisodeSite(Protocol):
    """Two nodes of two cards, their pods, and a kubelet that pretends."""

    @property
    def kubelet(self) -> PretendedKubelet: ...

    @property
    def pool(self) -> Pool: ...

    def ready(self) -> bool:
        """Whether the server answers: pods that are created before are not marked."""

    def submit_low(self, name: str, memory: int) -> object: ...

    def submit_high(self, name: str, memory: int) -> object: ...

    def see(self, name: str) -> Object: ...

    def remove(self, name: str) -> object:
        """It is gone at once."""

    def story(self) -> str:
        """Messages for pods, and the server's log."""


def random_episodes(site: EpisodeSite, numbers: Numbers, what: str, kills: Sequence[Callable[[], object]]) -> None:
    """Pods of equal priority on four cards; in every second episode a process is killed while room is made."""
    draw, in_vain, too_many, evicted, longest = random.Random(secrets.randbits(32)), 0, 0, 0, 0.0
    stories: list[str] = []
    for at in range(EPISODES):
        wait_until(site.ready, "the server answers", 60)
        site.kubelet.ends = draw.choice((0.3, 0.3, 2.0))
        running = [f"low-{at}-{each}" for each in range(draw.randrange(9, 14))]
        for name in running:
            site.submit_low(name, draw.choice(LOW))
        wait_until(partial(have_been_tried, site, running), "all low pods have been tried", 60, show=site.story)
        high, asked = f"high-{at}", draw.choice(HIGH)
        least = least_victims(site.pool, asked)
        held = {name: _cards(site.pool, name) for name in running}
        before, began = set(site.kubelet.victims), time.monotonic()
        site.submit_high(high, asked)
        if at % 2:
            time.sleep(draw.random() * draw.choice((0.4, 2.0)))
            draw.choice(kills)()
        wait_until(partial(_node, site, high), f"{high} is bound", 90, interval=0.02, show=site.story)
        site.kubelet.wait_bound(high)
        longest = max(longest, 0.0 if at % 2 else time.monotonic() - began - site.kubelet.ends)
        victims = set(site.kubelet.victims) - before
        assert high not in victims
        evicted += len(victims)
        (card,) = _cards(site.pool, high)
        vain, more = sum(card not in held.get(name, ()) for name in victims), max(len(victims) - least, 0)
        in_vain, too_many = in_vain + vain, too_many + more
        if vain or more:
            stories.append(f"{high} ({asked} MiB) on {card}; {least} had to leave; held {held}\n{site.story()}")
        for name in (high, *running):
            if name not in site.kubelet.gone:
                site.remove(name)
        wait_until(lambda: not site.pool.bound(), "the cards are empty", 30)
    label = f"{what}, {EPISODES} random episodes, {EPISODES // 2} kills"
    numbers.add(f"{label}: evictions", f"{evicted}", "")
    numbers.add(f"{label}: evictions in vain", f"{in_vain}", "0")
    numbers.add(f"{label}: victims beyond the minimum", f"{too_many}", "0")
    numbers.add(f"{label}: longest without a kill, beyond what victims take to end", f"{longest:.2f} s", "<= 2 s")
    assert (in_vain, too_many) == (0, 0), "\n".join(stories)


def least_victims(pool: Pool, asked: int) -> int:
    """How many pods of one card have to leave at least, counted on the API server's objects alone."""
    held: dict[str, list[int]] = {card.uuid: [] for cards in pool.cards.values() for card in cards}
    for each in pool.bound():
        for card, memory, _ in devices(each["metadata"]["annotations"][pool.ids]):
            held[card].append(memory)
    return min(_least(sizes, asked - (WHOLE - sum(sizes))) for sizes in held.values())


def _cards(pool: Pool, name: str) -> list[str]:
    return [card for card, names in pool.by_card().items() if name in names]


def _least(sizes: Sequence[int], missing: int) -> int:
    count = 0
    for size in sorted(sizes, reverse=True):
        if missing <= 0:
            break
        missing, count = missing - size, count + 1
    return count


def have_been_tried(site: EpisodeSite, names: Sequence[str]) -> bool:
    """Whether pods run, or have been refused by their scheduler."""
    found: list[dict[str, Any]] = [site.see(name)["status"] for name in names]
    return all(
        each["phase"] == "Running" or "Unschedulable" in (of.get("reason") for of in each.get("conditions", ()))
        for each in found
    )


def _node(site: EpisodeSite, name: str) -> str:
    return str(site.see(name)["spec"].get("nodeName") or "")
