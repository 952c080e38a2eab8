"""The evictor when evictions are refused, when pods change meanwhile, and the number of its evictions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from hami_plugins.allocator import evictor
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics, EvictionMetrics
from hami_plugins.allocator.preemption import preemption
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.errors import KubeError
from hami_plugins.kube.events import EventRecorder
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import EvictedPod
from tests import raw_objects
from tests.unit.allocator.products import product, settings
from tests.waiting import wait_for

Raw = dict[str, Any]
N1 = NodeName("n1")


@dataclass(slots=True)
class ScriptedApi:
    """An API server that refuses what ``refuse`` says, and notes what it was asked."""

    refuse: Callable[[str, bool], KubeError | None] = lambda _name, _dry: None
    evictions: list[tuple[str, bool]] = field(default_factory=list)
    patches: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    grace: int = 30

    def create(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if path.endswith("/events"):
            self.events.append(body)
            return body
        name, dry = body["metadata"]["name"], "dryRun" in body["deleteOptions"]
        if (error := self.refuse(name, dry)) is not None:
            raise error
        self.evictions.append((name, dry))
        return body

    def merge_patch(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.patches.append((path, body))
        return body

    def read(self, _namespace: str, _name: str) -> Mapping[str, Any]:
        return {"metadata": {}, "spec": {"terminationGracePeriodSeconds": self.grace}}

    @property
    def real(self) -> list[str]:
        return [name for name, dry in self.evictions if not dry]

    def reasons(self, pod: str) -> list[str]:
        return [each["reason"] for each in self.events if each["involvedObject"]["name"] == pod]


class Site:
    """A node of two cards with 40,960 MiB, and the evictor of a leader."""

    def __init__(self, api: ScriptedApi, **told: Any) -> None:
        self.api, self.now = api, 1_000.0
        self.cache = LockedAllocationCache(
            product(found=settings(vendors=["NVIDIA"])), keep=90.0, clock=lambda: self.now
        )
        cards = raw_objects.registered_cards("GPU-0", "GPU-1")
        notes = {"hami.io/node-nvidia-register": json.dumps(cards)}
        node = {"metadata": {"name": "n1", "annotations": notes}, "status": {}}
        self.cache.node_changed(ObjectChange("added", node, "uid-n1"))
        values = PreemptionSettings.model_validate({"mode": "full", "priorityClasses": ["*"], **told})
        events: Any = EventRecorder(api, "allocator", "host")  # type: ignore[arg-type]
        made = preemption(
            values,
            api,  # type: ignore[arg-type]
            self.cache,
            read=api.read,
            events=events,
            metrics=EvictionMetrics(AllocatorMetrics().metrics),
        )
        assert made is not None
        assert made.evictor is not None
        self.events, self.evictor, self.objects = events, made.evictor, made.objects
        self.evictor._clock = lambda: self.now  # noqa: SLF001 - times of a test pass when it says so

    def running(
        self, name: str, card: str, memory: int = 30_000, priority: int = 0, group: str = "", **metadata: Any
    ) -> None:
        notes = {"hami.io/vgpu-devices-allocated": f"{card},NVIDIA,{memory},0:;", "hami.io/vgpu-node": "n1"}
        notes |= {"scheduling.k8s.io/group-name": group} if group else {}
        raw = a_pod(name, memory, priority)
        raw["metadata"] |= {"annotations": notes, **metadata}
        raw["spec"]["nodeName"] = "n1"
        self.see(raw | {"status": {"phase": "Running"}})

    def gang(self, name: str, minimum: int) -> None:
        """A PodGroup of which so many pods are needed."""
        body = {"metadata": {"namespace": "team", "name": name, "uid": name}, "spec": {"minMember": minimum}}
        self.objects.group_changed(ObjectChange("added", body, name))

    def waiting(self, name: str = "high", memory: int = 20_000, priority: int = 100) -> None:
        self.see(a_pod(name, memory, priority))

    def see(self, raw: Raw) -> None:
        self.cache.pod_changed(ObjectChange("modified", raw, raw["metadata"]["uid"]))

    def gone(self, name: str) -> None:
        self.cache.pod_changed(ObjectChange("deleted", None, f"uid-{name}"))

    def refused(self, name: str = "high") -> None:
        seen = self.cache.seen("team", name)
        assert seen is not None
        assert seen.intake is not None
        self.evictor.refused(seen.intake, (N1,))

    @property
    def kept(self) -> list[str]:
        return [each.record.name for each in self.cache.nominations()]


def a_pod(name: str, memory: int, priority: int) -> Raw:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    metadata = {"namespace": "team", "uid": f"uid-{name}"}
    return raw_objects.pod(name, asks, metadata=metadata, phase="Pending", priority=priority)


@contextmanager
def site(api: ScriptedApi | None = None, **told: Any) -> Iterator[Site]:
    made = Site(api or ScriptedApi(), **told)
    made.events.start()
    made.evictor.start()
    try:
        yield made
    finally:
        made.evictor.stop()
        made.events.stop()


def two_low(made: Site) -> None:
    made.running("a", "GPU-0")
    made.running("b", "GPU-1", priority=5)
    made.waiting()


def settled() -> None:
    """Long enough for the evictor to have done something, if it was going to."""
    time.sleep(0.3)


def too_many(_name: str, dry: bool, *, only_dry: bool = False) -> KubeError | None:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return KubeError(message, status=429) if dry or not only_dry else None


def test_the_room_is_kept_and_written_before_anybody_is_evicted() -> None:
    order: list[str] = []
    api = ScriptedApi()

    def note(name: str, dry: bool) -> None:
        order.append(f"{'dry ' if dry else ''}{name} kept={made.kept} written={len(api.patches)}")

    api.refuse = note
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: api.real == ["a"])
    assert order == ["dry a kept=['high'] written=0", "a kept=['high'] written=1"]
    path, body = api.patches[0]
    assert path == "/api/v1/namespaces/team/pods/high/status"
    assert body == {
        "metadata": {"uid": "uid-high", "annotations": {"hami-plugins.io/nominated-node": "n1"}},
        "status": {"nominatedNodeName": "n1"},
    }


def test_an_eviction_that_a_dry_run_refuses_is_not_made_and_the_room_is_free_again() -> None:
    api = ScriptedApi(refuse=too_many)
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: api.reasons("high"))
        wait_for(lambda: made.kept == [])
        assert api.reasons("high") == ["PreemptionNotPossible"]
        assert "refuses to evict team/a: Cannot evict pod as it would violate" in api.events[0]["message"]
        api.refuse = lambda _name, _dry: None
        made.refused()
        settled()
        assert api.evictions == [], "it is tried again half a minute later"
        made.now += 31.0
        made.refused()
        wait_for(lambda: api.real == ["a"])


def test_an_eviction_that_is_refused_after_its_dry_run_is_made_later_while_the_room_is_kept() -> None:
    api = ScriptedApi(refuse=lambda name, dry: None if dry else too_many(name, dry))
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: made.kept == ["high"])
        settled()
        assert made.kept == ["high"]
        api.refuse = lambda _name, _dry: None
        wait_for(lambda: api.real == ["a"])


def test_what_was_not_evicted_yet_is_spared_when_the_waiting_pod_is_deleted() -> None:
    api = ScriptedApi(refuse=lambda name, dry: None if dry else too_many(name, dry))
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: made.kept == ["high"])
        made.gone("high")
        api.refuse = lambda _name, _dry: None
        made.evictor._due.set()  # noqa: SLF001 - it would look by itself in two seconds
        settled()
        assert api.real == []


@pytest.mark.parametrize("status", [404, 409])
def test_a_victim_that_is_gone_or_made_again_meanwhile_needs_no_eviction(status: int) -> None:
    api = ScriptedApi(refuse=lambda _name, _dry: KubeError("gone", status=status))
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: made.kept == ["high"])
        wait_for(lambda: "Preempting" in api.reasons("high"))


def test_a_pod_that_fits_by_now_has_nobody_evicted() -> None:
    with site() as made:
        two_low(made)
        made.gone("a")
        made.refused()
        settled()
        assert (made.api.evictions, made.kept) == ([], [])


def test_no_more_are_evicted_in_an_hour_than_is_set() -> None:
    with site(perHour=1, atOnce=5) as made:
        two_low(made)
        made.waiting("more", 40_000)
        made.refused()
        wait_for(lambda: made.api.real == ["a"])
        made.gone("a")
        made.refused("more")
        settled()
        assert made.api.real == ["a"]
        made.now += 3_600.0
        wait_for(lambda: made.api.real == ["a", "b"])


def test_no_more_leave_at_a_time_than_is_set_but_a_set_that_leaves_alone() -> None:
    with site(atOnce=2) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: made.api.real == ["a"])
        wait_for(lambda: not made.evictor.allows(2))
        assert made.evictor.allows(1), "one leaves, so one more may"
        made.gone("a")
        assert made.evictor.allows(3), "what has to leave together leaves where no other pod does"


def test_of_too_many_pods_that_wait_the_one_that_waits_longest_has_to_be_refused_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evictor, "WAITING", 2)
    monkeypatch.setattr(evictor, "RETRIED", 0)
    made = Site(ScriptedApi())
    two_low(made)
    for name in ("first", "second", "third"):
        made.waiting(name, 40_000)
        made.refused(name)
    made.evictor.start()
    wait_for(lambda: sorted(made.kept) == ["second", "third"])
    settled()
    made.evictor.stop()
    assert made.api.reasons("first") == []


def test_of_pods_that_wait_the_most_important_is_first() -> None:
    with site(perHour=1) as made:
        made.evictor.stop()
        second = Site(made.api, perHour=1)
        two_low(second)
        second.waiting("top", 40_000, 1_000)
        second.refused("high")
        second.refused("top")
        second.evictor.start()
        wait_for(lambda: second.kept == ["top"])
        second.evictor.stop()


def test_the_room_lasts_as_long_as_the_longest_grace_period_and_two_minutes() -> None:
    with site(ScriptedApi(grace=3_600)) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: made.kept == ["high"])
        assert made.cache.nominations()[0].until == 1_000.0 + 3_600.0 + 120.0


def test_a_pod_that_the_watch_shows_later_than_the_scheduler_asks_is_not_forgotten() -> None:
    with site() as made:
        two_low(made)
        raw = a_pod("late", 40_000, 200)
        made.evictor.refused(made.cache.intake(raw), (N1,))
        settled()
        made.see(raw)

        def later() -> bool:
            made.now += 0.2
            made.evictor._due.set()  # noqa: SLF001 - time passes
            return made.kept == ["late"]

        wait_for(later)


def test_a_new_leader_has_pods_tried_again_that_waited_for_the_last_one() -> None:
    """One of them had its room reserved, and no pod was evicted yet; the turn of the others had not come."""
    made, retried = Site(ScriptedApi(), priorityClasses=["urgent"]), list[str]()
    two_low(made)
    for name, more in (("begun", {}), ("urgent", {"priorityClassName": "urgent"}), ("plain", {})):
        raw = a_pod(name, 40_000, 100)
        raw["spec"] |= more
        made.see(raw | {"status": {"phase": "Pending", **({"nominatedNodeName": "n1"} if name == "begun" else {})}})
    made.evictor.start(lambda intake: retried.append(intake.pod.name))
    wait_for(lambda: len(retried) == 2)
    settled()
    made.evictor.stop()
    assert sorted(retried) == ["begun", "urgent"]
    assert (made.api.evictions, made.kept) == ([], [])


def test_a_victim_is_told_when_it_is_evicted_and_not_before() -> None:
    api = ScriptedApi(refuse=lambda name, dry: None if dry else too_many(name, dry))
    with site(api) as made:
        two_low(made)
        made.refused()
        wait_for(lambda: api.reasons("high") == ["Preempting"])
        settled()
        assert api.reasons("a") == []
        api.refuse = lambda _name, _dry: None
        wait_for(lambda: api.reasons("a") == ["Preempted"])


@pytest.mark.parametrize("finish", [True, False])
def test_the_rest_of_a_gang_leaves_although_the_pod_has_started(finish: bool) -> None:
    api = ScriptedApi()
    with site(api) as made:
        two_low(made)
        seen = made.cache.seen("team", "high")
        assert seen is not None
        assert seen.intake is not None
        victims = [EvictedPod(record, N1) for record in made.cache.records([N1]).values() if record.name == "a"]
        made.evictor.evict([(seen.intake.pod, N1)], victims, finish=finish)
        wait_for(lambda: api.patches)
        settled()
        assert api.real == (["a"] if finish else [])


def gang_beside_another(made: Site, least: int, priority: int) -> None:
    """A gang of two on one card, a single pod of this priority on the other, and a pod that was refused."""
    made.gang("train", least)
    made.running("train-0", "GPU-0", group="train")
    made.running("train-1", "GPU-0", memory=5_000, group="train")
    made.running("other", "GPU-1", priority=priority)
    made.waiting()
    made.refused()


@pytest.mark.parametrize(("priority", "leave"), [(0, ["other"]), (5, ["train-0", "train-1"])])
def test_a_gang_of_volcanos_leaves_as_a_whole_or_not_at_all(priority: int, leave: list[str]) -> None:
    """Fewer pods are better than a gang, but a lower priority comes first."""
    with site() as made:
        gang_beside_another(made, 2, priority)
        wait_for(lambda: sorted(made.api.real) == leave)


def test_a_gang_that_has_begun_to_leave_leaves_as_a_whole_also_when_the_pod_has_started() -> None:
    stuck = True
    api = ScriptedApi(refuse=lambda name, dry: too_many(name, dry) if stuck and name == "train-1" and not dry else None)
    with site(api) as made:
        gang_beside_another(made, 2, 5)
        wait_for(lambda: api.real == ["train-0"])
        made.cache.withdraw(PodUid("uid-high"))
        stuck = False
        wait_for(lambda: api.real == ["train-0", "train-1"])


def test_a_gang_with_members_to_spare_loses_one() -> None:
    with site() as made:
        gang_beside_another(made, 1, 5)
        wait_for(lambda: made.api.real == ["train-0"])


def test_nobody_is_evicted_before_the_pod_groups_of_running_pods_are_listed() -> None:
    unlisted = True
    with site() as made:
        made.objects.groups_from(lambda: unlisted)
        made.running("train-0", "GPU-0", group="train")
        made.running("b", "GPU-1", priority=5)
        made.waiting()
        made.refused()
        wait_for(lambda: made.api.reasons("high") == ["PreemptionNotPossible"])
        assert "has not listed the PodGroups of running pods yet" in made.api.events[0]["message"]
        assert made.api.evictions == []
        unlisted = False
        made.now += 3.0
        made.evictor.evict((), ())  # wakes it
        wait_for(lambda: made.api.real == ["train-0"])


def test_where_no_pod_names_a_pod_group_none_has_to_be_listed() -> None:
    """A server may not be allowed to list them."""
    with site() as made:
        made.objects.groups_from(lambda: True)
        two_low(made)
        made.refused()
        wait_for(lambda: made.api.real == ["a"])
