"""No device is allocated twice, whatever order pods are bound, deleted, forgotten and found again in.

The machine is the API server: what it has carried out is the truth, of which the allocator hears later, or after
a restart.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule

from hami_plugins.errors import KubeError
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from tests.unit.neuron_topology.server.cluster import TRN1, Cluster, a_node, a_pod, said

KINDS = {"n1": TRN1, "n2": TRN1, "n3": "inf2.48xlarge"}
REQUEST = 60.0
"""Seconds that the API server may carry out a Binding after the answer."""

asks = st.one_of(
    st.sampled_from([1, 2, 4, 8, 16]).map(lambda count: {"devices": count}),
    st.sampled_from([1, 2, 3, 4]).map(lambda count: {"cores": count}),
)


def nodes() -> list[dict[str, Any]]:
    return [a_node(name, kind) for name, kind in KINDS.items()]


class Histories(RuleBasedStateMachine):
    """``bound`` is the API server's state, ``told`` its pending events, ``open`` are Bindings under way."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(*nodes())
        self.made: dict[str, dict[str, Any]] = {}
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.open: list[tuple[str, str, dict[str, str], float]] = []
        self.count = 0

    @rule(target=pods, ask=asks, group=st.sampled_from(["", "", "train"]))
    def pod_waits(self, ask: dict[str, int], group: str) -> str:
        return self.pod_is_made(ask, group)

    def pod_is_made(self, ask: dict[str, int], group: str) -> str:
        self.count += 1
        name = f"p{self.count}"
        pod = a_pod(name, **ask, annotations={GROUP_KEY: group} if group else {})  # type: ignore[arg-type]
        self.made[name] = pod
        self.cluster.server["x", name] = pod
        self.told.append(("modified", pod))
        return name

    @rule(target=pods, ask=asks, node=st.sampled_from(sorted(KINDS)), told=st.booleans())
    def pod_comes(self, ask: dict[str, int], node: str, *, told: bool) -> str:
        return self.pod_comes_and_is_bound(ask, node, told=told)

    def pod_comes_and_is_bound(self, ask: dict[str, int], node: str, *, told: bool) -> str:
        """All of it at once, as it mostly goes; the watch may lag behind."""
        name = self.pod_is_made(ask, "")
        self.binding_comes(name, node)
        if self.open and self.open[-1][0] == name:
            self.binding_ends(len(self.open) - 1, carried=True)
        if told:
            self.watch_tells(len(self.told))
        return name

    @rule(target=pods, ask=asks, other=asks, node=st.sampled_from(sorted(KINDS)), seconds=st.sampled_from([20.0, 59.0]))
    def binding_is_slow(self, ask: dict[str, int], other: dict[str, int], node: str, seconds: float) -> Any:
        """Another pod comes to the node between the answer and what the API server makes of it."""
        slow = self.pod_is_made(ask, "")
        self.binding_comes(slow, node)
        self.watch_tells(len(self.told))
        self.time_passes(seconds)
        quick = self.pod_comes_and_is_bound(other, node, told=True)
        for at, each in enumerate(self.open):
            if each[0] == slow:
                self.binding_ends(at, carried=True)
                break
        return multiple(slow, quick)

    @rule(many=st.integers(1, 4))
    def watch_goes_on(self, many: int) -> None:
        self.watch_tells(many)

    def watch_tells(self, many: int) -> None:
        for kind, pod in self.told[:many]:
            self.cluster.shows(pod, kind)
        del self.told[:many]

    @rule(name=pods, node=st.sampled_from(sorted(KINDS)))
    def session_reserves(self, name: str, node: str) -> None:
        if name in self.made:
            self.cluster.prioritize(self.made[name], *KINDS)
            self.cluster.allocate(self.made[name], node)

    @rule(name=pods)
    def session_gives_up(self, name: str) -> None:
        if name in self.made:
            self.cluster.deallocate(self.made[name])

    @rule(name=pods, node=st.sampled_from(sorted(KINDS)))
    def scheduler_binds(self, name: str, node: str) -> None:
        self.binding_comes(name, node)

    def binding_comes(self, name: str, node: str) -> None:
        pod = self.made.get(name)
        if pod is not None and "nodeName" not in pod["spec"]:
            written = said(self.cluster.bind(pod, node))
            if written.get(IDS_KEY):
                self.open.append((name, node, written, self.cluster.time))

    @rule(name=pods, node=st.sampled_from(sorted(KINDS)), carried=st.booleans(), heard=st.booleans())
    def extender_binds(self, name: str, node: str, *, carried: bool, heard: bool) -> None:
        self.bound_by_extender(name, node, carried=carried, heard=heard)

    @rule(target=pods, ask=asks, other=asks, node=st.sampled_from(sorted(KINDS)))
    def extender_binds_again(self, ask: dict[str, int], other: dict[str, int], node: str) -> Any:
        """The answer is lost, the second try is refused, and another pod comes before the watch shows the first."""
        first = self.pod_is_made(ask, "")
        for _ in range(2):
            self.bound_by_extender(first, node, carried=True, heard=False)
        return multiple(first, self.pod_comes_and_is_bound(other, node, told=False))

    def bound_by_extender(self, name: str, node: str, *, carried: bool, heard: bool) -> None:
        """kube-scheduler has its extender bind, which may not hear what the API server made of it."""
        pod = self.made.get(name)
        if pod is None:
            return
        bound = "nodeName" in pod["spec"]
        self.cluster.fails = None
        if bound:
            self.cluster.fails = KubeError("is already assigned to a node", status=409)
        elif not heard:
            self.cluster.fails = KubeError("timed out")
        elif not carried:
            self.cluster.fails = KubeError("refused by a webhook", status=403)
        self.cluster.posted.clear()
        self.cluster.bind_by_extender(pod, node)
        if carried and not bound and self.cluster.posted:
            ((_, body),) = self.cluster.posted
            self.open.append((name, node, body["metadata"]["annotations"], self.cluster.time))
            self.binding_ends(len(self.open) - 1, carried=True)

    @precondition(lambda self: self.open)
    @rule(at=st.integers(0, 9), carried=st.booleans())
    def api_server_ends_one(self, at: int, *, carried: bool) -> None:
        self.binding_ends(at, carried=carried)

    def binding_ends(self, at: int, *, carried: bool) -> None:
        name, node, written, since = self.open.pop(at % len(self.open))
        pod = self.made.get(name)
        late = self.cluster.time > since + REQUEST
        if pod is None or "nodeName" in pod["spec"] or late or not carried:
            return
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **written}}
        self.made[name] = shown = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}
        self.cluster.server["x", name] = shown
        self.told.append(("modified", shown))

    @rule(name=pods)
    def pod_is_deleted(self, name: str) -> None:
        pod = self.made.pop(name, None)
        if pod is not None:
            del self.cluster.server["x", name]
            self.told.append(("deleted", pod))

    @rule(seconds=st.sampled_from([5.0, 20.0, 50.0]))
    def nothing_happens(self, seconds: float) -> None:
        self.time_passes(seconds)

    def time_passes(self, seconds: float) -> None:
        self.cluster.time += seconds
        shown = self.cluster.time if not self.told else self.cluster.time - 1000.0
        self.cluster.cache.expire(shown)

    @rule()
    def server_starts_again(self) -> None:
        """Its lease ends first, and with it every request that it has answered."""
        time = self.cluster.time
        self.cluster = Cluster(*nodes())
        self.cluster.time = time
        self.told.clear()
        self.open.clear()
        for name, pod in self.made.items():
            self.cluster.server["x", name] = pod
            self.cluster.shows(pod, "added")

    @invariant()
    def no_core_is_held_twice(self) -> None:
        holders: dict[tuple[str, int], str] = {}
        for name, pod in self.made.items():
            node = pod["spec"].get("nodeName")
            if node is None:
                continue
            notes = pod["metadata"]["annotations"]
            each = INSTANCE_TYPES[KINDS[node]].logical_cores()
            numbers = [int(number) for number in notes[IDS_KEY].split(",")]
            cores = (
                numbers if notes.get(KIND_KEY) else [number * each + core for number in numbers for core in range(each)]
            )
            for core in cores:
                other = holders.setdefault((node, core), name)
                assert other == name, f"core {core} of {node} is held by {other} and {name}"


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=40)
