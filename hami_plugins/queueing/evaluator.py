"""One pod of a plan: read, decided, and put into a plan's words."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from hami_plugins.engine import node_filters, quota, replicas
from hami_plugins.engine.alike import Sets, with_given
from hami_plugins.engine.annotate import annotations_of, labels_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, created, take_in
from hami_plugins.engine.node_filters import Barred, Noted
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import UNREGISTERED, FilterReason, Placed, Refused, event_of
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.verdicts import NoFit
from hami_plugins.queueing import schedulers
from hami_plugins.queueing.stages import PodPlan, Stage

DEVICE_SHARING: Final = "hami-vgpuDeviceSharing error"
"""All that Volcano says on a pod of a node whose cards will not do."""

_NO_CARDS: Final = {UNREGISTERED.words: "Insufficient gpu devices"}
"""Koordinator's word for a node that publishes no cards."""

_PODS: Final = {"Too many pods": "Insufficient pods"}
"""Volcano's word for a node that has its number of pods, by kube-scheduler's."""


class PodEvaluator:
    """Reads and decides pods.

    ``now_ns`` is the time that goes into annotations (Unix nanoseconds), ``moment`` when pods begin (Unix seconds).
    """

    def __init__(self, registry: Registry, rules: Rules, decider: Decider, *, now_ns: int, moment: float) -> None:
        self.registry = registry
        self.rules = rules
        self._decider = decider
        self._now_ns = now_ns
        self._moment = moment
        self._read: dict[Hashable, PodInfo] = {}
        self._elsewhere: dict[Hashable, tuple[Pod, str]] = {}

    def read(self, pod: Pod) -> PodInfo:
        """What the webhook and the pod's own words make of it, no quota of HAMi's in the way. Replicas share it."""
        key = replicas.key_of(pod)
        known = self._read.get(key)
        if known is not None:
            return replicas.intake_of(pod, known)
        found = created(take_in(pod, self.registry, self.rules, written=bool(pod.uid)))
        if replicas.are_shared(found):
            self._read[key] = found
        return found

    def left_alone(self, pod: Pod) -> str:
        """Why the pod's scheduler does not look at the devices that it asks for; empty where it does."""
        key = replicas.key_of(pod)
        known = self._elsewhere.get(key)
        if known is None:
            # The pod is kept, because its parts are known by their identity.
            known = self._elsewhere[key] = pod, schedulers.left_alone(pod, self.registry, self.rules)
        return known[1]

    def read_within_quota(self, snapshot: ClusterSnapshot, pod: Pod) -> PodInfo:
        """The same with what HAMi's quota leaves its namespace."""
        limits = snapshot.quotas.get(pod.namespace)
        if limits is None:
            return self.read(pod)
        used = quota.used_by(snapshot, pod.namespace, self.registry)
        left = dict(quota.headroom(limits, used, self.registry))
        return created(take_in(pod, self.registry, self.rules, left, written=bool(pod.uid)))

    def refused(self, snapshot: ClusterSnapshot, unit: str, intake: PodInfo) -> PodPlan:
        """The plan of a pod that never gets to a decision, because of what it says itself."""
        admitted = intake.admission.allowed or intake.admission.unusable is not None
        stage = Stage.REQUEST if admitted else Stage.ADMISSION
        return PodPlan(unit=unit, intake=intake, stage=stage, before=snapshot, why=intake.refusal, words=intake.words)

    def barred(self, nodes: Noted, pod: Pod) -> Barred:
        """The nodes that vendors keep a pod from whatever is free there."""
        return node_filters.barred(nodes, pod, self.registry, self._moment)

    def given(self, sets: Sets, plan: PodPlan, placed: Placed) -> Sets:
        """The sets of devices of a gang with what one more member was given."""
        entry = plan.before.nodes[plan.before.position[placed.node]]
        return with_given(sets, plan.intake.demand.devices, placed, entry, self.registry)

    def decided(self, snapshot: ClusterSnapshot, unit: str, intake: PodInfo) -> PodPlan:
        """The plan of a pod that may go to the nodes."""
        decision = self._decider.decide(snapshot, intake.demand, intake.policy)
        if isinstance(decision, Refused):
            spell = _unsaid if _only_beside(intake, decision) else _SPELLED[intake.dialect]
            return PodPlan(
                unit=unit,
                intake=intake,
                stage=Stage.UNKNOWN if decision.unknown else Stage.NODES,
                before=snapshot,
                decision=decision,
                words="" if decision.unknown else spell(decision),
            )
        entry = snapshot.nodes[snapshot.position[decision.node]]
        written = annotations_of(intake.pod, decision, entry, self.registry, now_ns=self._now_ns)
        return PodPlan(
            unit=unit,
            intake=intake,
            stage=Stage.PLACED,
            before=snapshot,
            decision=decision,
            annotations=written,
            labels=labels_of(written),
        )


def _only_beside(intake: PodInfo, refused: Refused) -> bool:
    """Whether Volcano has nothing against a pod that is refused here: it looks at application containers only, and
    those were not reached on any node."""
    kinds = [each.kind for each in intake.demand.devices.containers]
    found = [why for _, why in refused.by_node]
    beside = (isinstance(why, NoFit) and kinds[why.container] is not ContainerKind.APP for why in found)
    return intake.dialect is Dialect.VOLCANO and bool(found) and all(beside)


def _unsaid(_refused: Refused) -> str:
    """Of a refusal that is ours alone."""
    return ""


def _hami_words(refused: Refused) -> str:
    """What HAMi's filter answers: the reason itself where all nodes give the same, else how many give each."""
    counted = refused.counted()
    if len(counted) == 1:
        return counted[0][0]
    return "; ".join(f"{count} nodes {words}" for words, count in counted)


def _volcano_words(refused: Refused) -> str:
    """Volcano's text on the pod, which never says why a node's cards will not do."""
    counts: dict[str, int] = {}
    for _, why in refused.by_node:
        words = _PODS.get(why.words, event_of(why)) if isinstance(why, FilterReason) else DEVICE_SHARING
        counts[words] = counts.get(words, 0) + 1
    total = len(refused.by_node)
    reasons = ", ".join(sorted(f"{count} {words}" for words, count in counts.items()))
    return f"0/{total} nodes are unavailable: {reasons}."


def _koordinator_words(refused: Refused) -> str:
    """kube-scheduler's text, which Koordinator's scheduler has from it; one node without the label ends it for all."""
    counts: dict[str, int] = {}
    for _, why in refused.by_node:
        words = event_of(why)
        words = _NO_CARDS.get(words, words)
        if words.startswith("GPUIsolationProvider"):
            return f'running "DeviceShare" filter plugin: {words}'
        counts[words] = counts.get(words, 0) + 1
    reasons = ", ".join(sorted(f"{count} {words}" for words, count in counts.items()))
    return f"0/{len(refused.by_node)} nodes are available: {reasons}."


_SPELLED: Final = {
    Dialect.HAMI: _hami_words,
    Dialect.VOLCANO: _volcano_words,
    Dialect.KOORDINATOR: _koordinator_words,
}
