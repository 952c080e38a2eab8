"""What holds after every step of any history: events late and twice, Bindings that fail, the cache made anew."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hami_plugins.allocations.answers import AllocationSource, DeclineCode, Declined, PodAllocation
from hami_plugins.allocations.cache import UNKNOWN_NODE, AllocationCache
from hami_plugins.allocations.requests import compared, excess
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.holdings import InconsistencyKind, flaws_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from tests.machines import MACHINES, SPECS, Machine
from tests.unit.allocations.objects import a_node, a_pod, asking, bound, register

Raw = dict[str, Any]

VOLCANO = [machine for machine in MACHINES if machine.vendor == "Volcano-vGPU"]
REGISTRY = Registry(SPECS)
ALLOCATIONS = {
    key for spec in SPECS for key in (spec.keys.allocated, spec.keys.to_allocate, spec.keys.more, *spec.keys.extra)
}
LATEST = 20
"""Seconds until the watch shows what happened, at the latest."""
CARRIED_OUT = 60
"""Seconds in which the API server carries a Binding out, or never."""

KINDS = ["app", "idle", "init", "sidecar"]

picks = st.integers(0, 2**16)


@dataclass
class Belief:
    """What the cache should take a pod to hold on a node that it has not been seen on."""

    allocations: tuple[ContainerAllocation, ...]
    until: float
    answered: bool
    made: float
    job: str


@dataclass
class Flight:
    """A Binding that was answered and may still be carried out."""

    uid: str
    node: str
    written: dict[str, str]
    since: float


@dataclass
class Event:
    """Something that the watch has yet to show: the object as it was then, ``None`` for one that is gone."""

    kind: str
    name: str
    raw: Raw | None
    at: float


@dataclass
class Cluster:
    """The truth, and what has been shown of it."""

    nodes: dict[str, Raw] = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    as_bound: dict[str, Raw] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    shown_nodes: dict[str, Raw] = field(default_factory=dict)
    shown_pods: dict[str, Raw] = field(default_factory=dict)
    shown_bound: dict[str, Raw] = field(default_factory=dict)
    answered: dict[str, tuple[ContainerAllocation, ...]] = field(default_factory=dict)


class Histories(RuleBasedStateMachine):
    """The cluster, the cache that follows it, and by plain rules what that cache should believe."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.made = 0
        self.cluster = Cluster()
        self.machines: dict[str, Machine] = {}
        self.first: dict[str, Raw] = {}
        self.beliefs: dict[str, dict[str, Belief]] = {}
        self.gone: set[str] = set()
        self.flights: list[Flight] = []
        self.hangs_since: float | None = None
        self.builder = NodeBuilder(REGISTRY)
        self.reader = RecordReader(REGISTRY)
        self.cache = AllocationCache(Decider(REGISTRY))

    # Nodes

    @initialize(machines=st.lists(st.sampled_from([*VOLCANO * 8, *MACHINES]), min_size=1, max_size=3))
    def begin(self, machines: list[Machine]) -> None:
        for machine in machines:
            name = f"node-{len(self.machines)}"
            self.machines[name] = machine
            self.first[name] = machine.node(name)
            self.cluster.nodes[name] = machine.node(name)
            self.event("Node", name, self.cluster.nodes[name])
        self.show_all()

    @rule(pick=picks, change=st.sampled_from(["sick", "lost", "renamed", "cut", "as before", "leave"]))
    def node_changes(self, pick: int, change: str) -> None:
        name = sorted(self.first)[pick % len(self.first)]
        raw = copy.deepcopy(self.first[name])
        held = raw["metadata"]["annotations"]
        for key in [key for key in held if key.endswith("register")]:
            held[key] = changed(held[key], change, pick)
        if change == "leave":
            self.cluster.nodes.pop(name, None)
            self.event("Node", name, None)
        else:
            self.cluster.nodes[name] = raw
            self.event("Node", name, raw)

    @precondition(lambda self: any(self.beliefs.values()))
    @rule(pick=picks)
    def node_of_a_reservation_changes(self, pick: int) -> None:
        """All of its cards fall sick, and the watch shows it at once."""
        names = sorted({name for held in self.beliefs.values() for name in held})
        name = names[pick % len(names)]
        raw = copy.deepcopy(self.first[name])
        held = raw["metadata"]["annotations"]
        for key in [key for key in held if key.endswith("register")]:
            held[key] = held[key].replace("true", "false")
        self.cluster.nodes[name] = raw
        self.event("Node", name, raw)
        for event in [event for event in self.cluster.events if event.name == name]:
            self.show_event(event)

    # Pods

    @rule(pick=picks, ask=picks, words=picks, kinds=st.lists(st.sampled_from(KINDS), max_size=2))
    def pod_is_made(self, pick: int, ask: int, words: int, kinds: list[str]) -> None:
        machine = self.machines[sorted(self.machines)[pick % len(self.machines)]]
        self.made += 1
        uid = f"uid-{self.made}"
        containers: dict[str, list[Raw]] = {"initContainers": [], "containers": []}
        for at, kind in enumerate([*kinds, "app"]):
            limits = {key: str(each) for key, each in machine.asks[(ask + at) % len(machine.asks)].items()}
            container: Raw = {"name": f"c{at}", **({} if kind == "idle" else {"resources": {"limits": limits}})}
            if kind == "sidecar":
                container["restartPolicy"] = "Always"
            containers["initContainers" if kind in ("init", "sidecar") else "containers"].append(container)
        # Half of the pods have the name of an earlier one.
        name = f"pod-{self.made // 2}"
        annotations = dict(machine.words[words % len(machine.words)])
        volcano = {"schedulerName": "volcano"} if machine.vendor.startswith("Volcano") else {}
        self.cluster.pods[uid] = {
            "metadata": {"name": name, "namespace": "team", "uid": uid, "annotations": annotations},
            "spec": {**containers, **volcano},
            "status": {"phase": "Pending"},
        }
        self.event("Pod", uid, self.cluster.pods[uid])

    @precondition(lambda self: self.cluster.pods)
    @rule(pick=picks, end=st.sampled_from(["deleted", "finished"]))
    def pod_ends(self, pick: int, end: str) -> None:
        uid = self.some_pod(pick)
        if end == "deleted":
            del self.cluster.pods[uid]
            self.event("Pod", uid, None)
        else:
            self.cluster.pods[uid] = {**self.cluster.pods[uid], "status": {"phase": "Succeeded"}}
            self.event("Pod", uid, self.cluster.pods[uid])

    # Scheduler calls

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks, node=picks, job=st.sampled_from(["", "train"]))
    def reserve(self, pod: int, node: int, job: str = "") -> None:
        uid, name = self.some_pod(pod), self.some_node(node)
        intake = asking(self.cluster.pods[uid], REGISTRY)
        said = self.cache.reserve(NodeName(name), intake, self.now, job=job)
        self.judge(said, intake, name)
        if isinstance(said, PodAllocation):
            self.believe(uid, name, said, answered=False, job=job)

    @precondition(lambda self: any(self.beliefs.values()))
    @rule(pick=picks)
    def look_again(self, pick: int) -> None:
        """What is only reserved ends, for the pod and for those of its job that came with it or later."""
        uid = sorted(uid for uid, held in self.beliefs.items() if held)[pick % sum(map(bool, self.beliefs.values()))]
        mine = [belief for belief in self.beliefs[uid].values() if not belief.answered]
        self.cache.look_again(PodUid(uid))
        for other, held in self.beliefs.items():
            for name, belief in list(held.items()):
                joined = any(each.job and each.job == belief.job and belief.made >= each.made for each in mine)
                if not belief.answered and (other == uid or joined):
                    del held[name]

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks)
    def ask(self, pod: int) -> None:
        """Every node, as a scheduler does."""
        intake = asking(self.cluster.pods[self.some_pod(pod)], REGISTRY)
        for name in self.first:
            entry = self.rebuilt(name, without=intake.pod.uid)
            said = self.cache.answer(NodeName(name), intake)
            anew = entry and Decider(REGISTRY).answer(entry, PodDemand(intake.demand.devices), intake.policy)
            assert said == (UNKNOWN_NODE if anew is None else anew)

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks)
    def release(self, pod: int) -> None:
        uid = self.some_pod(pod)
        held = self.beliefs.get(uid, {})
        waiting = [name for name, belief in held.items() if not belief.answered]
        assert self.cache.release(PodUid(uid)) == bool(waiting)
        for name in waiting:
            del held[name]

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks, node=picks, stale=st.booleans(), dry=st.sampled_from([False, False, False, True]))
    def bind(self, pod: int, node: int, stale: bool, dry: bool) -> None:
        uid, name = self.some_pod(pod), self.some_node(node)
        raw = self.cluster.pods[uid]
        intake = asking(raw, REGISTRY)
        carried = raw["metadata"]["annotations"]
        if stale:
            carried = next((flight.written for flight in self.flights if flight.node == name), carried)
        said = self.cache.allocate(NodeName(name), intake, self.now, carried=carried, dry=dry)
        self.judge(said, intake, name, carried)
        if isinstance(said, PodAllocation) and not dry:
            self.fly(said, uid, name)

    @precondition(lambda self: any(self.beliefs.values()))
    @rule(pick=picks, dry=st.booleans())
    def bind_what_is_reserved(self, pick: int, dry: bool) -> None:
        """Unless something is wrong with it by now, it is just that."""
        waiting = [(uid, name) for uid, held in self.beliefs.items() for name in held if uid in self.cluster.pods]
        if not waiting:
            return
        uid, name = waiting[pick % len(waiting)]
        belief = self.beliefs[uid][name]
        said = self.cache.allocate(NodeName(name), asking(self.cluster.pods[uid], REGISTRY), self.now, dry=dry)
        self.judge(said, asking(self.cluster.pods[uid], REGISTRY), name)
        entry = self.rebuilt(name)
        sound = entry is not None and not flaws_of(next(each for each in entry.pods if each.uid == uid), entry)
        if isinstance(said, PodAllocation) and said.source is not AllocationSource.NOTHING:
            assert (said.source is AllocationSource.RESERVED) == sound
        if sound:
            assert isinstance(said, PodAllocation)
            assert said.containers == belief.allocations
        if isinstance(said, PodAllocation) and not dry:
            self.fly(said, uid, name)

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks, node=picks)
    def a_try_is_rolled_back(self, pod: int, node: int) -> None:
        """A pod whose Binding may be on its way is placed again, and that comes to nothing."""
        self.bind(pod, node, stale=False, dry=False)
        self.reserve(pod, node)
        self.release(pod)

    @precondition(lambda self: self.flights)
    @rule(pick=picks, well=st.sampled_from([True, True, True, False]))
    def binding_ends(self, pick: int, well: bool) -> None:
        flight = self.flights.pop(pick % len(self.flights))
        raw = self.cluster.pods.get(flight.uid)
        if well and raw is not None and not raw["spec"].get("nodeName"):
            self.put_on(flight.uid, flight.node, flight.written)
            self.cluster.ours.add(flight.uid)

    @precondition(lambda self: self.cluster.pods)
    @rule(pod=picks, node=picks, other=picks)
    def somebody_else_binds(self, pod: int, node: int, other: int) -> None:
        """Without ids, or with those of any pod."""
        uid, name = self.some_pod(pod), self.some_node(node)
        theirs = self.cluster.pods[self.some_pod(other)]["metadata"]["annotations"]
        like = {key: text for key, text in theirs.items() if key in ALLOCATIONS}
        if not self.cluster.pods[uid]["spec"].get("nodeName"):
            self.put_on(uid, name, like)

    @precondition(lambda self: self.cluster.pods)
    @rule(pick=picks, node=picks, other=picks, how=st.sampled_from(["removed", "like another", "cut", "put back"]))
    def somebody_writes_on_a_bound_pod(self, pick: int, node: int, other: int, how: str) -> None:
        """Whatever allocation is on it then, it runs on the cards that it was bound with."""
        uid = self.some_pod(pick)
        if uid not in self.cluster.as_bound:
            self.bind(pick, node, stale=False, dry=False)
            for at in [at for at, flight in enumerate(self.flights) if flight.uid == uid][:1]:
                self.binding_ends(at, well=True)
        if uid not in self.cluster.as_bound:
            return
        raw = copy.deepcopy(self.cluster.pods[uid])
        held = raw["metadata"]["annotations"]
        if how == "removed":
            raw["metadata"]["annotations"] = {key: text for key, text in held.items() if key not in ALLOCATIONS}
        elif how == "like another":
            theirs = self.cluster.pods[self.some_pod(other)]["metadata"]["annotations"]
            held |= {key: text for key, text in theirs.items() if key in ALLOCATIONS}
        elif how == "cut":
            held |= {key: text[: len(text) // 2] for key, text in held.items() if key in ALLOCATIONS}
        else:
            held |= self.cluster.as_bound[uid]["metadata"]["annotations"]
        self.cluster.pods[uid] = raw
        self.event("Pod", uid, raw)
        for event in [event for event in self.cluster.events if event.name == uid]:
            self.show_event(event)

    # Watch events

    @precondition(lambda self: self.cluster.events)
    @rule(pick=picks)
    def show(self, pick: int) -> None:
        """Any event, except that those of one object come in their order."""
        event = self.cluster.events[pick % len(self.cluster.events)]
        self.show_event(next(each for each in self.cluster.events if each.name == event.name))

    @precondition(lambda self: self.cluster.shown_pods)
    @rule(pick=picks)
    def show_again(self, pick: int) -> None:
        before, changes = list(self.cache.snapshot().nodes), self.cache.changes
        uid = sorted(self.cluster.shown_pods)[pick % len(self.cluster.shown_pods)]
        if uid not in self.gone:
            self.cache.see_pod(objects.pod(self.cluster.shown_pods[uid]), self.now)
        for name in self.cluster.shown_nodes:
            self.cache.see_node(objects.node_object(self.cluster.shown_nodes[name]))
        assert all(one is other for one, other in zip(before, self.cache.snapshot().nodes, strict=True))
        assert self.cache.changes == changes

    @rule()
    def watch_hangs(self) -> None:
        """From now on nothing comes by itself, whatever happens and however long it takes."""
        self.show_all()
        self.hangs_since = self.now

    @precondition(lambda self: self.hangs_since is not None)
    @rule()
    def watch_goes_on(self) -> None:
        self.hangs_since = None
        self.show_all()

    @rule(seconds=st.sampled_from([1, 10, 31, 100]))
    def time_goes_on(self, seconds: int) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + 10, until)
            self.flights = [flight for flight in self.flights if flight.since + CARRIED_OUT > self.now]
            late = [event for event in self.cluster.events if event.at + LATEST <= self.now]
            for event in late if self.hangs_since is None else ():
                self.show_event(event)
        shown = self.now if self.hangs_since is None else self.hangs_since
        ended = self.cache.expire(self.now, shown=shown)
        due = [
            (uid, name)
            for uid, held in self.beliefs.items()
            for name, belief in held.items()
            if belief.until <= (shown if belief.answered else self.now)
        ]
        assert sorted((each.record.uid, each.node) for each in ended) == sorted(due)
        for uid, name in due:
            del self.beliefs[uid][name]

    @precondition(lambda self: any(self.beliefs.values()))
    @rule()
    def bindings_that_failed_are_looked_up(self) -> None:
        """Whatever the watch has shown, a pod that has no node by now will never get one by an old Binding."""
        found = self.cache.overdue(self.now, after=CARRIED_OUT)
        late = [
            (uid, name)
            for uid, held in self.beliefs.items()
            for name, belief in held.items()
            if belief.answered and belief.until - 90 + CARRIED_OUT <= self.now
        ]
        assert sorted((each.record.uid, each.node) for each in found) == sorted(late)
        for each in found:
            raw = self.cluster.pods.get(each.record.uid)
            if raw is not None and not raw["spec"].get("nodeName"):
                assert self.cache.fail(each)
                del self.beliefs[each.record.uid][each.node]

    @rule()
    def restart(self) -> None:
        """Bindings that were answered are carried out before we list the pods; what was reserved is forgotten."""
        while self.flights:
            self.binding_ends(0, well=True)
        self.cache = AllocationCache(Decider(REGISTRY))
        self.hangs_since = None
        self.cluster.events.clear()
        self.cluster.shown_nodes, self.cluster.shown_pods, self.cluster.shown_bound = {}, {}, {}
        self.cluster.answered.clear()
        self.beliefs.clear()
        # Only the pods' current annotations are known.
        for uid, raw in self.cluster.pods.items():
            if (
                uid in self.cluster.as_bound
                and self.record(raw).allocations != self.record(self.cluster.as_bound[uid]).allocations
            ):
                self.cluster.ours.discard(uid)
        self.gone.clear()
        for name, raw in self.cluster.nodes.items():
            self.show_event(Event("Node", name, raw, self.now))
        for uid, raw in self.cluster.pods.items():
            self.show_event(Event("Pod", uid, raw, self.now))

    # What has to hold

    @invariant()
    def usage_is_that_of_a_rebuild(self) -> None:
        for entry in self.cache.snapshot().nodes:
            anew = self.rebuilt(entry.name)
            assert anew is not None
            assert anew.state == entry.state
            assert anew.ids == entry.ids
        assert [entry.name for entry in self.cache.snapshot().nodes] == sorted(self.cluster.shown_nodes)

    @invariant()
    def no_two_pods_of_ours_hold_one_slice(self) -> None:
        for name, raw in self.first.items():
            records = [
                self.record(self.cluster.as_bound[uid])
                for uid, pod in self.cluster.pods.items()
                if uid in self.cluster.ours
                and pod["spec"]["nodeName"] == name
                and pod["status"]["phase"] != "Succeeded"
            ]
            entry = with_pods(self.bare(raw), records)
            for record in records:
                # A card may have left the node meanwhile; what runs on it goes on.
                assert {flaw.kind for flaw in flaws_of(record, entry)} <= {InconsistencyKind.STRANGER}, name

    # Reports

    def judge(self, said: PodAllocation | Declined, intake: PodInfo, name: str, carried: Raw | None = None) -> None:
        """An answer is right by a decision on a node that was built anew."""
        uid = intake.pod.uid
        demand = PodDemand(intake.demand.devices)
        entry = self.rebuilt(name, without=uid)
        fits = entry is not None and isinstance(Decider(REGISTRY).answer(entry, demand, intake.policy), Fit)
        if isinstance(said, Declined):
            seen = self.cluster.shown_pods.get(uid)
            if said.code is DeclineCode.BOUND:
                assert seen is not None
                assert seen["spec"]["nodeName"]
            elif said.code is DeclineCode.GONE:
                assert uid in self.gone
            elif said.code is DeclineCode.REQUEST:
                assert intake.refusal
            else:
                assert not fits, said
            return
        assert entry is not None
        believed = self.beliefs.get(uid, {}).get(name)
        if said.source is AllocationSource.RESERVED:
            assert believed is not None
            assert believed.allocations == said.containers
        elif said.source is AllocationSource.CARRIED:
            assert carried is not None
        else:
            assert fits
        record = PodRecord(namespace="", name="asking", uid=uid, allocations=said.containers)
        full = with_pods(entry, (*entry.pods, record))
        assert not flaws_of(record, full)
        for asked, got in zip(demand.devices.containers, said.containers, strict=True):
            assert sum(request.count for request in asked.requests) == len(got.shares)

    def fly(self, said: PodAllocation, uid: str, name: str) -> None:
        """The Binding is answered and on its way."""
        pod = asking(self.cluster.pods[uid], REGISTRY).pod
        self.flights.append(Flight(uid, name, self.cache.annotations(said, pod, now_ns=int(self.now * 1e9)), self.now))
        self.believe(uid, name, said, answered=True)

    def believe(self, uid: str, name: str, said: PodAllocation, *, answered: bool, job: str = "") -> None:
        held = self.beliefs.setdefault(uid, {})
        before = held.get(name)
        self.beliefs[uid] = {other: belief for other, belief in held.items() if belief.answered}
        until = self.now + (90 if answered else 15)
        if before is not None and before.answered and not answered:
            until, answered = before.until, True
        self.beliefs[uid][name] = Belief(said.containers, until, answered, self.now, job)

    def rebuilt(self, name: str, without: str = "") -> NodeEntry | None:
        """The node from what has been shown and what should be believed."""
        raw = self.cluster.shown_nodes.get(name)
        if raw is None:
            return None
        records = [
            self.counted(uid, pod)
            for uid, pod in self.cluster.shown_bound.items()
            if pod["spec"].get("nodeName") == name and uid not in self.gone
        ]
        records += [
            PodRecord(namespace="", name="", uid=PodUid(uid), allocations=held[name].allocations)
            for uid, held in self.beliefs.items()
            if name in held
        ]
        bare = self.bare(raw)
        return with_pods(bare, (settled(record, bare) for record in records if record.uid != without))

    def counted(self, uid: str, raw: Raw) -> PodRecord:
        """What a bound pod holds; one that came with more than it requests holds what its Binding was answered with."""
        record, answered = self.record(raw), self.cluster.answered.get(uid)
        return record if answered is None else replace(record, allocations=answered, unlocated=())

    def is_larger(self, raw: Raw) -> bool:
        pod, record = objects.pod(raw), self.record(raw)
        entry = self.cache.snapshot().node(NodeName(pod.node or ""))
        devices = {} if entry is None else dict(zip(entry.ids, entry.state.shape.devices, strict=True))
        return bool(excess(compared(pod, record, REGISTRY), record, devices.get))

    def bare(self, raw: Raw) -> NodeEntry:
        return self.builder.entry(objects.node_object(raw), NodeFacts())

    def record(self, raw: Raw) -> PodRecord:
        return self.reader.record(objects.pod(raw))[0]

    def some_pod(self, pick: int) -> str:
        """Mostly one of the newest, so that things happen to the same pod."""
        pods = list(self.cluster.pods)
        pods = pods[-3:] if pick % 4 else pods
        return pods[pick // 4 % len(pods)]

    def some_node(self, pick: int) -> str:
        return sorted(self.first)[pick % len(self.first)]

    def put_on(self, uid: str, node: str, annotations: dict[str, str]) -> None:
        raw = copy.deepcopy(self.cluster.pods[uid])
        raw["spec"]["nodeName"] = node
        raw["metadata"]["annotations"] |= annotations
        self.cluster.pods[uid] = self.cluster.as_bound[uid] = raw
        self.event("Pod", uid, raw)

    def event(self, kind: str, name: str, raw: Raw | None) -> None:
        self.cluster.events.append(Event(kind, name, raw, self.now))

    def show_all(self) -> None:
        for event in list(self.cluster.events):
            self.show_event(event)

    def show_event(self, event: Event) -> None:
        self.cluster.events = [each for each in self.cluster.events if each is not event]
        if event.kind == "Node":
            self.show_node(event)
            return
        if event.raw is None:
            self.cache.forget_pod(PodUid(event.name), self.now)
        else:
            self.cache.see_pod(objects.pod(event.raw), self.now)
            self.cluster.shown_pods[event.name] = event.raw
            self.show_bound(event.name, event.raw)
        ended = event.raw is None or event.raw["status"]["phase"] == "Succeeded"
        if ended:
            self.gone.add(event.name)
        if ended or (event.raw is not None and event.raw["spec"].get("nodeName")):
            self.beliefs.pop(event.name, None)

    def show_bound(self, uid: str, raw: Raw) -> None:
        """The first allocation that has been shown on a node is what counts."""
        before = self.cluster.shown_bound.get(uid)
        if raw["spec"].get("nodeName") and not (
            before and any(allocation.shares for allocation in self.record(before).allocations)
        ):
            self.cluster.shown_bound[uid] = raw
            believed = self.beliefs.get(uid, {}).get(raw["spec"]["nodeName"])
            if believed is not None and believed.answered and self.is_larger(raw):
                self.cluster.answered[uid] = believed.allocations
            else:
                self.cluster.answered.pop(uid, None)

    def show_node(self, event: Event) -> None:
        if event.raw is None:
            self.cache.forget_node(NodeName(event.name))
            self.cluster.shown_nodes.pop(event.name, None)
        else:
            self.cache.see_node(objects.node_object(event.raw))
            self.cluster.shown_nodes[event.name] = event.raw


def changed(text: str, change: str, pick: int) -> str:
    """A register in which a card is sick or missing, or that lost its end."""
    if text.startswith("["):
        cards = json.loads(text)
        if change == "sick":
            cards[pick % len(cards)]["health"] = False
        elif change == "renamed":
            cards[pick % len(cards)]["id"] += "-new"
        elif change == "lost":
            del cards[pick % len(cards)]
        text = json.dumps(cards)
    else:
        parts = text.split(":")[:-1]
        at = pick % len(parts)
        if change == "sick":
            parts[at] = parts[at].replace("true", "false")
        elif change == "renamed":
            parts[at] = f"new-{parts[at]}"
        elif change == "lost":
            del parts[at]
        text = "".join(f"{part}:" for part in parts)
    return text[: len(text) // 2] if change == "cut" else text


@given(random=st.randoms(use_true_random=False), seed=picks)
def test_it_does_not_matter_which_of_two_objects_is_shown_first(random: Random, seed: int) -> None:
    events: dict[str, list[Raw | None]] = {}
    for at in range(3):
        name = f"n{at}"
        whole, half = a_node(name), a_node(name, register(f"GPU-{name}-0", memory=20_000))
        events[name] = random.choice([[whole], [half, whole], [whole, None], [whole, None, half]])
    for at in range(6):
        name = f"n{seed % (at + 2) % 3}"
        held = bound(a_pod(f"p{at}"), name, f"GPU-{name}-0,NVIDIA,{1_000 * at},0:")
        events[f"uid-p{at}"] = random.choice([[held], [held, held], [a_pod(f"p{at}"), held], [held, None]])

    def shown(order: list[str]) -> list[Any]:
        cache, left = AllocationCache(Decider(REGISTRY)), {name: list(events[name]) for name in events}
        for name in order:
            match left[name].pop(0), name.startswith("uid"):
                case None, True:
                    cache.forget_pod(PodUid(name), 0)
                case None, False:
                    cache.forget_node(NodeName(name))
                case raw, True:
                    cache.see_pod(objects.pod(raw), 0)
                case raw, False:
                    cache.see_node(objects.node_object(raw))
        known = [(entry.name, entry.ids, entry.state, entry.requested) for entry in cache.snapshot().nodes]
        return [*known, cache.statistics(), sorted(found.text for found in cache.findings())]

    order = [name for name, raws in events.items() for _ in raws]
    assert shown(random.sample(order, len(order))) == shown(order)


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=50)
