"""How long gangs wait until all of them have nodes, and which begin in part."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import PodUid
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.gangs.gangs import Gangs
from neuron_topology.server.gang_metrics import GangMetrics
from neuron_topology.server.gang_starts import GangStarts, GangState

MADE = 1_000
PATIENCE = 30.0
"""The seconds that a gang may be partly there before that counts as a start in part."""


@dataclass
class Watch:
    """The watches' events with their times, and the reports about them."""

    time: float = MADE + 10.0
    waits: list[float] = field(default_factory=list)
    partial: int = 0

    def __post_init__(self) -> None:
        self.starts = GangStarts(now=lambda: self.time, admitted=self.waits.append, partly=self._partly)

    def group(self, least: int = 2, made: int | None = MADE) -> None:
        self.starts.group_seen(PodGroup(namespace="x", name="g", min_member=least, made_at=made))

    def pods(self, *names: str, waits: bool = False, group: str = "g", after: float = 0.0) -> None:
        self.time += after
        for name in names:
            pod = Pod(namespace="x", name=name, uid=PodUid(name), annotations={GROUP_KEY: group} if group else {})
            self.starts.pod_seen(pod, None, waits=waits)

    def gone(self, *names: str) -> None:
        for name in names:
            self.starts.pod_gone(PodUid(name))

    @property
    def states(self) -> dict[GangState, int]:
        return dict(self.starts.states())

    def _partly(self) -> None:
        self.partial += 1


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_gang_waits_from_its_group_to_the_node_of_the_last_pod_that_it_needs(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", "c", waits=True)
    assert watch.states == {GangState.WAITING: 1}
    watch.pods("a", after=20)
    assert (watch.waits, watch.states) == ([], {GangState.PARTIAL: 1})
    watch.pods("b", after=1)
    assert (watch.waits, watch.states) == ([31.0], {GangState.COMPLETE: 1})
    watch.pods("c", "c", after=100)
    assert (watch.waits, watch.partial) == ([31.0], 0)


def test_it_does_not_matter_whether_group_or_pods_are_seen_first(watch: Watch) -> None:
    watch.pods("a", "b", waits=True)
    assert watch.states == {}
    watch.group()
    watch.pods("a", "b", after=5)
    assert watch.waits == [15.0]


def test_a_group_of_unknown_age_waits_since_its_first_pod(watch: Watch) -> None:
    watch.group(made=None)
    watch.pods("a", "b", waits=True, after=90)
    watch.pods("a", "b", after=7)
    assert watch.waits == [7.0]


def test_a_gang_that_starts_again_waits_since_its_new_pods(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", waits=True)
    watch.pods("a", "b")
    watch.gone("a", "b")
    assert watch.states == {}
    watch.pods("a2", "b2", waits=True, after=500)
    watch.pods("a2", "b2", after=3)
    assert watch.waits == [10.0, 3.0]


def test_pods_that_have_nodes_long_before_the_others_are_a_partial_start_once(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", waits=True)
    watch.pods("a")
    watch.time += PATIENCE
    assert (watch.states, watch.partial) == ({GangState.PARTIAL: 1}, 0)
    watch.time += 1
    assert (watch.states, watch.partial) == ({GangState.PARTIAL: 1}, 1)
    watch.pods("b", after=5)
    assert (watch.states, watch.partial) == ({GangState.COMPLETE: 1}, 1)


def test_a_partial_start_that_ended_before_anybody_looked_is_counted(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", waits=True)
    watch.pods("a")
    watch.pods("b", after=PATIENCE + 1)
    assert (watch.partial, watch.waits) == (1, [PATIENCE + 11])


def test_what_was_there_at_the_first_look_is_no_start_of_a_gang(watch: Watch) -> None:
    watch.pods("a", "b")
    watch.group()
    assert (watch.states, watch.waits) == ({GangState.COMPLETE: 1}, [])


def test_the_rest_of_a_gang_that_was_partly_there_at_the_first_look_still_counts(watch: Watch) -> None:
    watch.group()
    watch.pods("a")
    watch.pods("b", waits=True)
    watch.time += PATIENCE + 1
    assert (watch.states, watch.partial) == ({GangState.PARTIAL: 1}, 0)
    watch.pods("b")
    assert (watch.waits, watch.partial) == ([PATIENCE + 11], 0)


def test_members_that_ask_for_no_devices_keep_no_gang_incomplete(watch: Watch) -> None:
    watch.group(least=3)
    watch.pods("a", "b", waits=True)
    watch.pods("a", "b", after=4)
    assert (watch.states, watch.waits) == ({}, [])
    watch.time += PATIENCE + 1
    assert (watch.states, watch.waits, watch.partial) == ({GangState.COMPLETE: 1}, [14.0], 0)


def test_pods_alone_and_groups_of_one_are_no_gangs(watch: Watch) -> None:
    watch.group(least=1)
    watch.pods("a", "b", waits=True)
    watch.pods("c", waits=True, group="")
    watch.pods("d", waits=True, group="other")
    watch.pods("a", "b", "c", "d")
    assert (watch.states, watch.waits) == ({}, [])


def test_a_pod_may_change_its_gang(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", waits=True, group="other")
    watch.pods("a", "b", waits=True)
    watch.pods("a", "b")
    assert watch.waits == [10.0]


def test_a_gang_is_forgotten_when_its_group_and_its_pods_are_gone(watch: Watch) -> None:
    watch.group()
    watch.pods("a", "b", waits=True)
    watch.starts.group_gone("x", "g")
    assert watch.states == {}
    watch.gone("a", "b", "never-seen")
    watch.group()
    watch.pods("a", "b", waits=True, after=600)
    watch.pods("a", "b")
    watch.gone("a", "b")
    watch.starts.group_gone("x", "g")
    assert (watch.waits, watch.states) == ([610.0], {})


def test_the_planner_fills_the_same_members() -> None:
    watch = Watch()
    gangs = Gangs(now=lambda: watch.time, members=watch.starts)
    gangs.group_seen(PodGroup(namespace="x", name="g", min_member=2, made_at=MADE))
    for name in "ab":
        gangs.pod_seen(Pod(namespace="x", name=name, uid=PodUid(name), annotations={GROUP_KEY: "g"}), None)
    assert watch.states == {GangState.COMPLETE: 1}
    gangs.pod_gone(PodUid("a"))
    gangs.pod_gone(PodUid("b"))
    gangs.group_gone("x", "g")
    assert watch.states == {}


def test_prometheus_reads_waits_partial_starts_and_states() -> None:
    metrics = Metrics("neuron_allocator")
    time = [MADE + 50.0]
    told = GangMetrics(metrics, now=lambda: time[0])
    assert {sample.labels["state"]: sample.value for sample in told.family().samples} == dict.fromkeys(GangState, 0)
    followed = told.followed()
    followed.group_seen(PodGroup(namespace="x", name="g", min_member=2, made_at=MADE))
    for name in "ab":
        followed.pod_seen(_pod(name), None, waits=True)
    followed.pod_seen(_pod("a"), None, waits=False)
    time[0] += PATIENCE + 1
    followed.pod_seen(_pod("b"), None, waits=False)
    assert {sample.labels["state"]: sample.value for sample in told.family().samples}[GangState.COMPLETE] == 1
    assert metrics.value("gang_admission_seconds_sum") == 50 + PATIENCE + 1
    assert metrics.value("gang_partial_starts_total") == 1
    told.followed()
    assert metrics.value("gang_partial_starts_total") == 1


def _pod(name: str) -> Pod:
    return Pod(namespace="x", name=name, uid=PodUid(name), annotations={GROUP_KEY: "g"})
