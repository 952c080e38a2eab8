"""Differences for MetaX GPUs and sGPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import DeviceShare, Mark, Tenant
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import Candidate, Check, ContainerRequest, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import metax
from hami_plugins.wire import quantity
from tests.golden import corpus
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import ADMITTED, answers_after, containers, registry

_PLACEMENT = frozenset({"fits", "reason", "devices", "annotations"})
_MEMORY = "metax-tech.com/vmemory"


def _with(spec: VendorSpec, mended: VendorSpec) -> Registry:
    return Registry(mended if each is spec else each for each in registry())


def _answers_with(case: Case, vendors: Registry) -> bool:
    """Whether we would say what upstream said, if a vendor had its defects."""
    return not corpus.differing(case, corpus.answer(case, vendors)) - ADMITTED


class _OneCard:
    """Upstream's rule: a container may only have the card that earlier containers of its phase have."""

    def __init__(self, kinds: Sequence[ContainerKind]) -> None:
        self._kinds = kinds
        self._asks: list[ContainerRequest] = []
        self._taken: list[tuple[ContainerKind, int]] = []
        self._earlier: list[tuple[ContainerKind, int]] = []

    def check(self, candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        """The rule, as a check of one card."""
        if not any(ask is each for each in self._asks):
            self._asks.append(ask)
            self._earlier = list(self._taken)
        kind = self._kinds[len(self._asks) - 1]
        others = any(kind is of and at != candidate.position for of, at in self._earlier)
        return Reason.VENDOR_RULE if others else None

    def share_of(self, candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
        """The whole card, remembered."""
        self._taken.append((self._kinds[len(self._asks) - 1], candidate.position))
        return DeviceShare(candidate.position, candidate.device.memory, candidate.device.cores)


def _one_card_per_pod(case: Case, ours: Answer) -> bool:
    """Upstream's containers may only have the card that the first one got, which is full."""
    _, intake, _ = corpus.situation(case, registry())
    rule = _OneCard([each.kind for each in intake.demand.devices.containers if each.requests])
    return _answers_with(
        case,
        _with(
            metax.SPEC,
            replace(metax.SPEC, fitting=replace(metax.SPEC.fitting, late_checks=(rule.check,), share_of=rule.share_of)),
        ),
    )


def _memory_of_nothing(case: Case, ours: Answer) -> bool:
    """Upstream reads a fraction, and a unit that makes less than one MiB, as no memory at all: the whole card."""
    return answers_after(case, _without_tiny, ADMITTED if ours.refusal else frozenset({"mutated"}))


def _without_tiny(case: Case) -> None:
    for container in containers(case["pod"]):
        for amounts in (container.get("resources") or {}).values():
            asked = amounts.get(_MEMORY)
            if asked is None:
                continue
            found = quantity.parse(asked, key=_MEMORY)
            has_unit = any(character.isalpha() for character in found.text)
            if found.nano > 0 and (found.whole is None or (has_unit and found.whole < 2**20)):
                del amounts[_MEMORY]


@dataclass(frozen=True, slots=True)
class _Node:
    """What upstream remembers of the cards: the QoS that the node reports, and the running pods' marks."""

    reported: dict[int, str]
    marks: Sequence[tuple[Mark, ...]]

    @classmethod
    def of(cls, case: Case) -> _Node:
        """From the case alone, before the new pod."""
        entry, _, _ = corpus.situation(case, registry())
        told: list[dict[str, Any]] = json.loads(case["node"]["metadata"]["annotations"][metax.CARDS_KEY])
        return cls(
            {at: each.get("qosPolicy", "") for at, each in enumerate(told)},
            [used.marks for used in entry.state.usage],
        )

    def quality_as_reported(self, candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        """The pod's own containers have changed the card's QoS already; otherwise the report counts."""
        if candidate.position in ask.held or not candidate.used.slots:
            return None
        position = candidate.position
        told = (Tenant("", self.reported[position]),)
        return metax.quality_fits(candidate._replace(used=candidate.used._replace(marks=told)), ask)

    def lags(self) -> bool:
        """Whether a report contradicts the pods on a card."""
        return any(
            isinstance(mark, Tenant) and mark.app_class != metax.ONLINE and mark.qos != self.reported[at]
            for at, marks in enumerate(self.marks)
            for mark in marks
        )

    def before(self, candidate: Candidate) -> Candidate:
        """The card with the marks of running pods only."""
        return candidate._replace(used=candidate.used._replace(marks=self.marks[candidate.position]))

    def class_as_running(self, candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        """The classes of running pods, not of the pod's own containers."""
        return metax.class_fits(self.before(candidate), ask)

    def best_as_running(self, candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate]:
        """The choice that does not see the pod's own containers."""
        back = {each.position: each for each in candidates}
        return [back[each.position] for each in metax.best([self.before(each) for each in candidates], ask)]


def _shared(node: _Node, *, reported: bool, running: bool) -> Registry:
    checks: tuple[Check, ...] = (
        node.class_as_running if running else metax.class_fits,
        node.quality_as_reported if reported else metax.quality_fits,
    )
    select = node.best_as_running if running else metax.best
    return _with(
        metax.SHARED, replace(metax.SHARED, fitting=replace(metax.SHARED.fitting, early_checks=checks, select=select))
    )


def _needs(reported: bool, running: bool) -> Callable[[Case, Answer], bool]:
    """Upstream's answer comes with both defects, and not without this one."""

    def holds(case: Case, ours: Answer) -> bool:
        node = _Node.of(case)
        if reported and not node.lags():
            return False
        return _answers_with(case, _shared(node, reported=True, running=True)) and not _answers_with(
            case, _shared(node, reported=not reported, running=not running)
        )

    return holds


RULES = (
    Rule(
        name="metax-containers-may-have-different-cards",
        reason="HAMi wants all MetaX devices of a pod to be the same card. As a card goes to one container, no pod "
        "with two containers that want one can start. We give each its own.",
        aspects=_PLACEMENT,
        holds=_one_card_per_pod,
        vendors=("metax-gpu",),
        examples=("metax-gpu-048", "metax-gpu-061", "metax-gpu-103"),
    ),
    Rule(
        name="metax-little-memory-is-not-the-whole-card",
        reason="HAMi reads a fraction as no amount, and a bare multiple of 1000 (which the API server writes with a k) "
        "as bytes; both are no memory to it, and the pod gets the whole card. We deny fractions and count GiB.",
        aspects=_PLACEMENT | {"admission"},
        holds=_memory_of_nothing,
        vendors=("metax-sgpu",),
        examples=("metax-sgpu-063", "metax-sgpu-102", "metax-sgpu-199"),
    ),
    Rule(
        name="metax-quality-is-that-of-the-pods",
        reason="HAMi goes by the QoS that the node last reported, and corrects it from a memory that a restart clears. "
        "We go by the pods on the card.",
        aspects=_PLACEMENT,
        holds=_needs(reported=True, running=False),
        vendors=("metax-sgpu",),
    ),
    Rule(
        name="metax-containers-of-one-pod-share-their-class",
        reason="HAMi does not see the class of the pod's own earlier containers, so a second online container may not "
        "join the first, though a second online pod may.",
        aspects=_PLACEMENT,
        holds=_needs(reported=False, running=True),
        vendors=("metax-sgpu",),
    ),
)
