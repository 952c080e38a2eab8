"""A plan of a scenario held against what the real Volcano did: sets, stages, cards, and what explains differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from hami_plugins.engine.apply import removed
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import Device, Instance
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import DeviceId
from hami_plugins.plan import PodPlan
from hami_plugins.vendors.volcano_releases import TRIED
from hami_plugins.wire import volcano
from tests.golden.scenario_plans import STAGES, Scenario, during, is_inside, named, plain_key

AGREES, EXPLAINED, UNEXPLAINED = "agrees", "explained", "unexplained"

GENERAL: Final = frozenset({"fresh-scheduler", "counted-twice", "stays-inqueue"})
"""Rules that are about nearly every pod, so that they explain no fault by themselves."""


@dataclass
class Judgement:
    """What comes of one scenario: where the plan differs from Volcano, with what explains it, or without."""

    scenario: Scenario
    explained: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    impossible: dict[str, list[str]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``agrees``, ``explained`` or ``unexplained``."""
        return UNEXPLAINED if self.unexplained else EXPLAINED if self.explained else AGREES

    def differs(self, what: str, pods: Iterable[str] = (), *, excuse: str = "") -> None:
        """Note a difference, which ``excuse`` explains, or a rule that is about one of the pods.

        Only faults of Volcano are explained by rules, and cards. Where it is at fault with one pod, others of the same
        difference follow from that.
        """
        said = self.scenario.said
        told = [text for pod in pods for rule, text in said.get(pod, {}).items() if rule not in GENERAL]
        words = excuse or "; ".join(dict.fromkeys(told))
        (self.explained if words else self.unexplained).append(f"{what}: {words}" if words else what)

    def document(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        it = self.scenario
        expect = it.expect
        return {
            "name": it.name,
            "title": expect["title"],
            "kind": expect["kind"],
            "verdict": self.verdict,
            "placed": {"volcano": expect["placed"], "plan": {pod: each.node for pod, each in it.placed.items()}},
            "pending": {"volcano": sorted(expect["pending"]), "plan": sorted(it.pending)},
            "rejected": {"volcano": sorted(expect["rejected"]), "plan": sorted(it.rejected)},
            "victims": {"volcano": expect["victims"], "plan": it.victims},
            "jobs": it.jobs,
            "stages": {
                pod: {"volcano": expect["pending_stage"].get(pod), "plan": each.stage.value, "why": reason(each)}
                for pod, each in sorted(it.pending.items())
            },
            "devices": {
                pod: {
                    "volcano": expect["devices"].get(pod),
                    "plan": _cards(it.placed[pod]) if pod in it.placed else None,
                    "possible": pod not in self.impossible,
                    "why": self.impossible.get(pod, []),
                }
                for pod in sorted({*expect["devices"], *it.placed})
            },
            "volcanoDoes": [{"rule": rule, "pods": pods, "words": words} for rule, words, pods in sentences(it)],
            "explained": self.explained,
            "unexplained": self.unexplained,
        }


def reason(plan: PodPlan) -> str:
    return plan.why or plan.words


def sentences(it: Scenario) -> Iterator[tuple[str, str, list[str]]]:
    """Each sentence once, with the pods that it is about."""
    found: dict[tuple[str, str], list[str]] = {}
    for pod, said in it.said.items():
        for rule, words in said.items():
            found.setdefault((rule, words), []).append(pod)
    for (rule, words), pods in found.items():
        yield rule, words, pods


def _cards(placed: Placed) -> list[list[str]]:
    """The cards of each container that has some, as ``expect.yaml`` writes them."""
    return [
        [f"{_card(share.device, share.mark)}:{share.memory}:{share.cores}" for share in container.shares]
        for container in placed.containers
        if container.shares
    ]


def _card(device: str, mark: object) -> str:
    return f"{device}[{mark.profile}]" if isinstance(mark, Instance) else device


def judged(it: Scenario) -> Judgement:
    """The plan of a scenario against what Volcano did."""
    found = Judgement(it)
    _judge_sets(found)
    _judge_victims(found)
    _judge_stages(found)
    _judge_cards(found)
    if it.expect["kind"] == "fault":
        listed = [(rule, text) for rule, text, _ in sentences(it) if rule != "fresh-scheduler"]
        told = [text for rule, text in listed if rule not in GENERAL] or [text for _, text in listed]
        if told:
            words = "; ".join(told)
            found.explained.append(f"what Volcano {TRIED} does otherwise: {words}")
        else:
            found.unexplained.append(f"a fault of Volcano {TRIED}, and no rule says what it does")
    return found


def _judge_sets(found: Judgement) -> None:
    """Which pods are placed, which wait, and what is refused."""
    it, expect = found.scenario, found.scenario.expect
    theirs = {
        "placed": set(expect["placed"]),
        "pending": set(expect["pending"]),
        "refused": {plain_key(key) for key in expect["rejected"]} & _objects(it),
    }
    ours = {"placed": set(it.placed), "pending": set(it.pending), "refused": set(it.rejected)}
    for what, expected in theirs.items():
        if ours[what] == expected:
            continue
        odd = sorted(ours[what] ^ expected)
        said = f"{what} differ in {', '.join(odd)}"
        pods = [name for name in odd if name in it.by_pod]
        found.differs(said, _at_fault(it, pods), excuse=_excuse(it, ours[what], expected))
    for job, about in (expect.get("jobs") or {}).items():
        ours_made, theirs_made = it.jobs.get(job, 0), about["pods_created"]
        if ours_made != theirs_made:
            pods = [named(each.pod) for each in it.plan.pods if each.unit.endswith(f"/{job}")]
            excuse = "" if expect["stable"] else "only the counts are fixed, and they vary with chance"
            found.differs(f"job {job} has {ours_made} pods, not {theirs_made}", _at_fault(it, pods), excuse=excuse)


def _judge_victims(found: Judgement) -> None:
    """Who is evicted: exactly those, from those nodes."""
    it = found.scenario
    if it.victims != it.expect["victims"]:
        found.unexplained.append(f"evicted are {_evicted(it.victims)}, not {_evicted(it.expect['victims'])}")


def _evicted(victims: dict[str, str]) -> str:
    return ", ".join(f"{pod} of {node}" for pod, node in sorted(victims.items())) or "none"


def _at_fault(it: Scenario, pods: Iterable[str]) -> list[str]:
    """The pods of whose difference a rule may be the reason; a set that follows from Volcano's rules is to be met."""
    return list(pods) if it.expect["kind"] == "fault" else []


def _objects(it: Scenario) -> set[str]:
    """What a plan can refuse at all: pods and Jobs, not queues or groups."""
    units = {plain_key(unit.name) for unit in it.plan.units}
    return units | it.mistaken | {plain_key(f"pod/{each.pod.full_name}") for each in it.plan.pods}


def _excuse(it: Scenario, ours: set[str], theirs: set[str]) -> str:
    """Why sets may differ: nothing is fixed, only counts are, or another of equal pods of one workload is left out."""
    expect = it.expect
    if not expect["stable"] and not expect["stable_counts"]:
        return "nothing is fixed: Volcano's own runs differ"
    if not expect["stable"] and _families(ours) == _families(theirs):
        return "only the counts are fixed, and they are met"
    if _alike(it, ours) == _alike(it, theirs):
        return "another of equal pods of one workload"
    return ""


def _families(pods: Iterable[str]) -> Counter[str]:
    """How many pods there are of each name without its numbers."""
    return Counter(re.sub(r"\d+", "", pod) for pod in pods)


def _alike(it: Scenario, pods: Iterable[str]) -> Counter[tuple[str, str]]:
    """The number of pods of each workload with equal requests; an unknown name is like no other."""
    return Counter(
        (pod, "")
        if (plan := it.by_pod.get(pod)) is None
        else (plan.unit, f"{plan.intake.demand.devices} {plan.intake.demand.constraints.requests}")
        for pod in pods
    )


def _judge_stages(found: Judgement) -> None:
    """How far the pods get that wait in both."""
    it = found.scenario
    for pod, stage in it.expect["pending_stage"].items():
        plan = it.pending.get(pod)
        if plan is None or _stops_alike(plan, stage):
            continue
        agree = stage == "enqueue" and pod not in (it.expect.get("held_although_room") or [])
        excuse = "the gate and the cards agree: it would not fit either" if agree else ""
        if not it.expect["stable"]:
            excuse = excuse or "who is stopped where is chance among equals"
        found.differs(
            f"{pod} stops at {stage} in Volcano and at {plan.stage} here", _at_fault(it, [pod]), excuse=excuse
        )


def _stops_alike(plan: PodPlan, stage: str) -> bool:
    return stage == "allocate" if is_inside(plan) else plan.stage in STAGES.get(stage, frozenset())


def _judge_cards(found: Judgement) -> None:
    """Whether the cards that Volcano and we give out can be had together."""
    it = found.scenario
    theirs = _Cards(it)
    for pod, containers in it.expect["devices"].items():
        wrong = theirs.wrong(pod, containers)
        if wrong:
            found.impossible[pod] = wrong
            found.differs(f"Volcano's cards of {pod}: {'; '.join(wrong)}", [pod])
    for entry in it.plan.after.nodes:
        for name, device, used in zip(entry.ids, entry.state.shape.devices, entry.state.usage, strict=True):
            if used.memory > device.memory or used.cores > device.cores or used.slots > device.slots:
                found.unexplained.append(f"the plan gives more of {name} on {entry.name} than it has")
    if it.expect["kind"] != "fault" and it.expect["stable_devices"] and not during(it.expect):
        for pod, placed in it.placed.items():
            cards = [each for each in it.expect["devices"].get(pod, []) if each]
            if it.expect["placed"].get(pod) == placed.node and _cards(placed) != cards:
                found.differs(f"{pod} has {_cards(placed)}, not {cards}", excuse=_other_card(placed, cards))


def _other_card(placed: Placed, cards: list[list[str]]) -> str:
    """Another card of the same node, with the same amounts, will do."""
    amounts = [[each.split(":", 1)[1] for each in container] for container in _cards(placed)]
    wanted = [[each.split(":", 1)[1] for each in container] for container in cards]
    return "another card of the node; it fits" if amounts == wanted else ""


class _Cards:
    """What Volcano gave out, counted card by card on top of what ran before."""

    def __init__(self, it: Scenario) -> None:
        self._it = it
        victims = it.expect["victims"]
        # Volcano gives the cards of a pod away as soon as it is being deleted.
        left = removed(it.plan.before, attrgetter("terminating"))
        self._before: ClusterSnapshot = removed(
            left, lambda record: record.full_name.removeprefix("default/") in victims
        )
        self._memory: Counter[str] = Counter()
        self._cores: Counter[str] = Counter()
        self._slots: Counter[str] = Counter()
        self._named: Counter[str] = Counter()
        for entry in self._before.nodes:
            for name, used in zip(entry.ids, entry.state.usage, strict=True):
                key = f"{entry.name} {name}"
                self._memory[key], self._cores[key], self._slots[key] = used.memory, used.cores, used.slots

    def wrong(self, pod: str, containers: list[list[str]]) -> list[str]:
        """Why a pod cannot have these cards; nothing when it can."""
        node = self._it.expect["placed"].get(pod)
        entry = None if node is None else self._before.node(node)
        if entry is None:
            return [f"its node {node} is not in the listing"]
        return [each for cards in containers for card in cards for each in self._card(entry, card)]

    def _card(self, entry: NodeEntry, text: str) -> Iterator[str]:
        name, memory, cores = text.rsplit(":", 2)
        slot = volcano.decode_slot("expect.yaml", name)
        uuid = name if slot is None else slot.device
        if uuid not in entry.ids:
            yield f"{uuid} is not on {entry.name}"
            return
        device = entry.state.shape.devices[entry.ids.index(DeviceId(uuid))]
        key = f"{entry.name} {uuid}"
        if slot is not None:
            self._named[name] += 1
            if self._named[name] > 1:
                yield f"{name} is given {self._named[name]} times"
            return
        self._memory[key] += int(memory)
        self._cores[key] += int(cores)
        self._slots[key] += 1
        yield from self._over(key, uuid, device)

    def _over(self, key: str, uuid: str, device: Device) -> Iterator[str]:
        sums = ((self._memory, device.memory, "MiB"), (self._cores, device.cores, "cores"))
        for given, most, unit in (*sums, (self._slots, device.slots, "slots")):
            if given[key] > most:
                yield f"{given[key]} of {most} {unit} of {uuid} are given"
        if not device.healthy:
            yield f"{uuid} is unhealthy"
