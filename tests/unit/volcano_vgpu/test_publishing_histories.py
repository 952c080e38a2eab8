"""No history of agents, cards and kubelets leaves slots on offer under a register that kills the scheduler."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hami_plugins.model.units import DeviceId
from tests.unit.volcano_vgpu.cards import card, inventory, settings
from volcano_vgpu.core import publication, register
from volcano_vgpu.core.publication import Duties, Offer, PublicationTiming, Touch
from volcano_vgpu.core.register import HANDSHAKE_KEY, REGISTER_KEY, desired

LOCK_KEY = "hamivgpu"
COUNT = "volcano.sh/vgpu-number"
TIMING = PublicationTiming()
STEPS = 8
"""Writes after which an undisturbed agent has come to rest."""


class Histories(RuleBasedStateMachine):
    """One node, its kubelet, which reports late, and its agent, which may die between any two writes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.node: dict[str, Any] = {"metadata": {"annotations": {}}, "status": {"capacity": {}, "allocatable": {}}}
        self.duties: Duties | None = None
        self.offer = Offer()
        self.listed: frozenset[DeviceId] = frozenset()
        self.broken_by_others = False

    @initialize()
    def begin(self) -> None:
        self.start()

    @precondition(lambda self: self.duties is None)
    @rule()
    def start(self) -> None:
        self.duties, self.offer = Duties(), Offer()

    @precondition(lambda self: self.duties is not None)
    @rule()
    def die(self) -> None:
        """The kubelet notices immediately that the plugin no longer answers; its next report says so."""
        self.duties, self.offer, self.listed = None, Offer(), frozenset()

    @precondition(lambda self: self.duties is not None)
    @rule(health=st.lists(st.booleans(), max_size=3), handshake=st.booleans())
    def find(self, health: list[bool], handshake: bool) -> None:
        assert self.duties is not None
        cards = [card(at, problems=() if well else ("ill",)) for at, well in enumerate(health)]
        words = desired(inventory(*cards), settings(), handshake=handshake)
        self.duties = Duties(
            words=words, handshake=handshake, touch=self.duties.touch, withdraw_by=self.duties.withdraw_by
        )

    @precondition(lambda self: self.duties is not None)
    @rule(after=st.integers(0, 6))
    def touch(self, after: int) -> None:
        assert self.duties is not None
        at = self.now + timedelta(seconds=after)
        touch = Touch(at, at, frozenset({"pod-bound"})).joined(self.duties.touch)
        self.duties = Duties(
            words=self.duties.words,
            handshake=self.duties.handshake,
            touch=touch,
            served_until=self.now,
            withdraw_by=self.duties.withdraw_by,
        )

    @precondition(lambda self: self.duties is not None)
    @rule()
    def withdraw(self) -> None:
        assert self.duties is not None
        by = self.now + timedelta(seconds=5)
        self.duties = Duties(words=self.duties.words, handshake=self.duties.handshake, withdraw_by=by)

    @rule(seconds=st.integers(1, 7))
    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def report(self) -> None:
        """The kubelet's next status."""
        if not self.listed and COUNT not in self.node["status"]["capacity"]:
            return
        number = str(10 * len(self.listed))
        self.node["status"]["capacity"][COUNT] = self.node["status"]["allocatable"][COUNT] = number

    @rule(key=st.sampled_from([REGISTER_KEY, HANDSHAKE_KEY]), text=st.sampled_from([None, "", "Deleted_x", "a,b:"]))
    def meddle(self, key: str, text: str | None) -> None:
        """Another client writes the node's annotations."""
        self.broken_by_others = True
        merge(self.node, {"metadata": {"annotations": {key: text, LOCK_KEY: "2026-11-20T00:00:00Z"}}})

    @precondition(lambda self: self.duties is not None)
    @rule()
    def step(self) -> None:
        """One look of the agent, and at most one write."""
        self.look()

    def look(self) -> bool:
        """One look; whether it wrote."""
        assert self.duties is not None
        self.offer = publication.offer(self.node, self.duties, self.offer, self.now, TIMING)
        self.listed = self.offer.cards
        found = publication.next_step(self.node, self.duties, settings(), self.now, TIMING)
        assert found.wake is None or found.wake > self.now
        if found.patch is None:
            return False
        before = copy.deepcopy(self.node)
        merge(self.node, found.patch.body)
        assert self.node != before, "a write that changes nothing"
        if self.is_safe(before):
            assert self.is_safe(self.node), f"written: {found.patch}"
        return True

    @precondition(lambda self: self.duties is not None)
    @rule()
    def come_to_rest(self) -> None:
        """Without disturbance the agent ends writing, and then the node says what it is to say."""
        for _ in range(STEPS):
            self.look()
            self.report()
        assert not self.look()
        assert self.duties is not None
        self.broken_by_others = False
        assert self.is_safe(self.node)
        if self.duties.withdraw_by is not None:
            assert self.node["metadata"]["annotations"].keys() <= {LOCK_KEY}
        elif self.duties.words is not None and self.duties.words.registered:
            assert not register.changes(self.node, self.duties.words)
            assert self.offer.cards == self.duties.words.healthy

    @invariant()
    def the_scheduler_lives(self) -> None:
        assert self.broken_by_others or self.is_safe(self.node)

    def is_safe(self, node: Mapping[str, Any]) -> bool:
        """A node that offers slots has a register of cards, and has not been given up."""
        if register.allocatable(node, COUNT) == 0:
            return True
        given_up = "Deleted" in register.annotations_of(node).get(HANDSHAKE_KEY, "")
        return bool(register.registered_on(node)) and not given_up


def merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, Mapping):
            merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


TestHistories = Histories.TestCase
