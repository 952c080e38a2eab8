"""The kubelet's calls in any order, with crashes of either side at any moment.

After every step: no two pods that run hold one slot or more of a card than it has, no container runs with another's
slice, and what a container was given never changes.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import IDS, LEFT, container, pod

CARDS = ("GPU-a", "GPU-b")
MEMORY = 40960
AMOUNTS = st.sampled_from([1000, 1000, 13000, 30000, 40960])
SHARES = st.tuples(st.sampled_from(CARDS), AMOUNTS)


class Shape(NamedTuple):
    """A pod that Volcano may have allocated: the cards of each container, and whether it has an init container."""

    name: str
    segments: list[list[tuple[str, int]]]
    with_init: bool


SEGMENTS = st.lists(SHARES, min_size=1, max_size=2, unique_by=lambda share: share[0])
PODS = st.builds(Shape, st.sampled_from("abcd"), st.lists(SEGMENTS, min_size=1, max_size=2), st.booleans())


class Running(NamedTuple):
    """A container that the runtime has created, with the ids that the kubelet gave it then."""

    slots: frozenset[str]
    env: Mapping[str, str]


class Kubelets(RuleBasedStateMachine):
    """One node, pods that come and go, a kubelet and an agent that crash."""

    def __init__(self) -> None:
        super().__init__()
        self.directory: Path | None = None
        self.running: dict[tuple[str, str], Running] = {}
        self.given: dict[tuple[str, str], Mapping[str, str]] = {}
        self.allocated: dict[str, dict[str, list[tuple[str, int]]]] = {}
        self.names: dict[str, list[str]] = {}
        self.before: bytes | None = None
        self.made = 0

    def teardown(self) -> None:
        if self.directory is not None:
            shutil.rmtree(self.directory)

    @initialize()
    def a_node_is_made(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.node = Node(self.directory, slots=3)

    @rule(shape=PODS, killed=st.booleans())
    def a_pod_is_admitted(self, shape: Shape, killed: bool) -> None:
        raw = self._bound(shape)
        if raw is not None:
            self.node.kubelet.admit(raw, killed_in_last=killed)

    @precondition(lambda self: self.node.kubelet.entries)
    @rule(shape=PODS, data=st.data())
    def a_pod_is_given_ids_that_another_holds(self, shape: Shape, data: st.DataObject) -> None:
        kubelet = self.node.kubelet
        held = sorted({slot for entry in kubelet.entries.values() for slot in entry.device_ids})
        raw = self._bound(shape)
        if raw is not None:
            usual = kubelet.offered
            kubelet.offered = tuple(data.draw(st.permutations(held)))
            kubelet.handed_out_anyway = set(held)
            kubelet.admit(raw)
            kubelet.offered, kubelet.handed_out_anyway = usual, set()
            if data.draw(st.booleans()):
                self._start_some(data)

    @precondition(lambda self: self.node.kubelet.pods)
    @rule(data=st.data())
    def a_pod_that_lost_its_ids_is_admitted_again(self, data: st.DataObject) -> None:
        raw = self.node.kubelet.pods[data.draw(st.sampled_from(sorted(self.node.kubelet.pods)))]
        if self.node.kubelet.admit(raw):
            self._stopped(raw["metadata"]["uid"])

    @precondition(lambda self: self.node.kubelet.entries)
    @rule(data=st.data())
    def containers_start(self, data: st.DataObject) -> None:
        self._start_some(data)

    def _start_some(self, data: st.DataObject) -> None:
        for uid, name in data.draw(st.permutations(sorted(self.node.kubelet.entries)))[:5]:
            self._start(uid, name)

    def _start(self, uid: str, name: str) -> None:
        key = (uid, name)
        if self.node.kubelet.start(uid, name):
            return
        env = self.node.given(uid, name)
        if env is None:
            return
        assert self.given.setdefault(key, env) == env, "what a container was given has changed"
        self.running[key] = Running(self.node.kubelet.entries[key].device_ids, env)

    @precondition(lambda self: self._served())
    @rule(data=st.data())
    def the_allocation_of_a_served_pod_is_rewritten(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(self._served()))
        raw = copy.deepcopy(dict(self.node.pods.stored[uid]))
        written = raw["metadata"]["annotations"]
        for key in (IDS, LEFT):
            written[key] = written[key].translate(str.maketrans("ab", "ba"))
        self.node.pods.put(raw)
        for name in self.allocated[uid]:
            if (uid, name) in self.node.kubelet.entries:
                self._start(uid, name)

    def _served(self) -> list[str]:
        """Pods whose containers all have what they were given."""
        return [
            uid for uid in sorted(self.node.pods.stored) if all((uid, name) in self.given for name in self.names[uid])
        ]

    @precondition(lambda self: self.node.kubelet.pods)
    @rule(data=st.data(), at_once=st.booleans())
    def a_pod_ends(self, data: st.DataObject, at_once: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.node.kubelet.pods)))
        self.node.kubelet.forget(uid)
        self._stopped(uid)
        if at_once:
            self.node.pods.delete(uid)

    @rule()
    def the_api_server_hears_of_all_that_ended(self) -> None:
        for uid in [raw["metadata"]["uid"] for raw in self.node.pods.all()]:
            if uid not in self.node.kubelet.pods:
                self.node.pods.delete(uid)

    @rule()
    def the_agent_is_killed(self) -> None:
        self.node.restart_agent()

    @precondition(lambda self: self.running)
    @rule(name=st.sampled_from("abcd"), data=st.data())
    def a_new_agent_is_asked_for_a_card_in_use(self, name: str, data: st.DataObject) -> None:
        uid, container_name = data.draw(st.sampled_from(sorted(self.running)))
        taken, _ = self.allocated[uid][container_name][0]
        self.node.restart_agent()
        raw = self._bound(Shape(name, [[(taken, MEMORY)]], with_init=False))
        if raw is not None and not self.node.kubelet.admit(raw):
            self._start(raw["metadata"]["uid"], "c0")

    @rule(rolled_back=st.booleans())
    def the_kubelet_is_killed(self, rolled_back: bool) -> None:
        self.node.kubelet.restart(self.before if rolled_back else None)

    @rule()
    def remains_are_removed(self) -> None:
        self.node.leftovers.collect()

    @rule()
    def time_passes(self) -> None:
        self.node.now += 20

    @invariant()
    def no_two_pods_hold_one_slot(self) -> None:
        holders: dict[str, str] = {}
        for (uid, _), running in self.running.items():
            for slot in running.slots:
                assert holders.setdefault(slot, uid) == uid, f"{slot} is held twice"

    @invariant()
    def no_card_is_promised_twice(self) -> None:
        booked: dict[str, int] = defaultdict(int)
        for uid, name in self.running:
            if name != "init":
                for card, memory in self.allocated[uid][name]:
                    booked[card] += memory
        assert all(memory <= MEMORY for memory in booked.values()), booked

    @invariant()
    def every_container_has_its_own_slice(self) -> None:
        for (uid, name), running in self.running.items():
            wanted = self.allocated[uid][name]
            assert running.env["NVIDIA_VISIBLE_DEVICES"] == ",".join(card for card, _ in wanted)
            limits = [text for key, text in sorted(running.env.items()) if "MEMORY_LIMIT" in key]
            assert limits == [f"{memory}m" for _, memory in wanted]
            assert running.env["CUDA_DEVICE_MEMORY_SHARED_CACHE"].startswith("/tmp/vgpu/")  # noqa: S108

    def _bound(self, shape: Shape) -> Mapping[str, Any] | None:
        """A pod of that shape, bound to the node; none while there is one of that name."""
        if any(raw["metadata"]["name"] == shape.name for raw in self.node.pods.all()):
            return None
        self.made += 1
        uid = f"uid-{shape.name}-{self.made}"
        ids = ";".join("".join(f"{card},NVIDIA,{memory},0:" for card, memory in segment) for segment in shape.segments)
        containers = [container(f"c{at}", count=len(segment)) for at, segment in enumerate(shape.segments)]
        init = [container("init", count=1)] if shape.with_init else []
        self.allocated[uid] = {f"c{at}": segment for at, segment in enumerate(shape.segments)}
        self.names[uid] = [*self.allocated[uid], *(["init"] if shape.with_init else [])]
        self.allocated[uid]["init"] = shape.segments[0][:1]
        if self.node.kubelet.file.exists():
            self.before = self.node.kubelet.file.read_bytes()
        return self.node.create(pod(*containers, init=init, name=shape.name, uid=uid, ids=ids))

    def _stopped(self, uid: str) -> None:
        self.running = {key: found for key, found in self.running.items() if key[0] != uid}


TestKubelets: Any = Kubelets.TestCase
