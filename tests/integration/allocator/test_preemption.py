"""Pods are evicted for a pod of higher priority under kube-scheduler: the right ones, and none in vain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.cli import main
from hami_plugins.sandbox.apiserver import Fault, Refuse
from tests.integration.allocator.hami_pods import a_holder, a_node, a_pod, bind, call, hami, notes_of
from tests.integration.allocator.sites import Site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

Raw = dict[str, Any]
FULL = {"mode": "full", "priorityClasses": ["*"]}
SETTLED = 0.6


@contextmanager
def cluster(folder: Path, *holders: Raw, cards: int = 2, nodes: int = 1, **told: Any) -> Iterator[tuple[Site, Client]]:
    """Nodes of cards with 40,960 MiB; the holders run."""
    made = [a_node(f"n{at}", cards=cards) for at in range(1, nodes + 1)]
    with hami(folder, *made, preemption=FULL | told) as (place, client):
        place.put(*holders)
        wait_for(lambda: place.value(client, "holders") == len(holders))
        yield place, client


def low(name: str, card: str, memory: int = 30_000, priority: int = 0, **spec: Any) -> Raw:
    """A pod that runs and has so much of a card, whose name has that of its node."""
    made = a_holder(name, card.split("-")[1], card, memory)
    made["spec"] |= {"priority": priority, **spec}
    return made


def two_cards() -> tuple[Raw, Raw]:
    """10,960 MiB are free on each of two cards: their sum would do for 20,000."""
    return low("a", "GPU-n1-0"), low("b", "GPU-n1-1", priority=5)


def high(place: Site, name: str = "high", memory: int = 20_000, priority: int = 100) -> Raw:
    return created(place, a_pod(name, memory, priority=priority))


def created(place: Site, raw: Raw) -> Raw:
    """A new pod that the server has seen: a preempt call for one that it has not seen names no victims."""
    (made,) = place.create(raw)
    wait_for(lambda: place.value(place.clients[-1], "pods") == len(place.server.objects("pods")))
    return made


def filtered(client: Client, pod: Raw, *nodes: str) -> list[str]:
    return list(call(client, "filter", Pod=pod, NodeNames=nodes or ["n1"])["NodeNames"] or ())


def ending(place: Site) -> set[str]:
    pods = place.server.objects("pods")
    return {each["metadata"]["name"] for each in pods if "deletionTimestamp" in each["metadata"]}


def nominated(place: Site, name: str = "high") -> str:
    status = place.server.get("pods", name, "default").get("status") or {}
    return str(status.get("nominatedNodeName", ""))


def told(place: Site, pod: str) -> dict[str, str]:
    events = place.server.objects("events")
    return {each["reason"]: each["message"] for each in events if each["involvedObject"]["name"] == pod}


def end(place: Site, name: str) -> None:
    place.server.delete("pods", name, "default", grace=0)


def test_the_pod_of_lowest_priority_leaves_where_the_sums_suffice_and_no_card_has_room(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards()) as (place, client):
        pod, other = high(place), high(place, "other", 5_000, 50)
        assert filtered(client, pod) == []
        wait_for(lambda: ending(place) == {"a"})
        assert nominated(place) == "n1"
        wait_for(lambda: "Preempted" in told(place, "a") and "Preempting" in told(place, "high"))
        assert told(place, "a")["Preempted"] == (
            "evicted for pod default/high (priority 100, this pod 0), which gets GPU-n1-0 (20,000 MiB) on node n1"
        )
        assert told(place, "high")["Preempting"] == (
            "evicts default/a (priority 0, node n1); GPU-n1-0 (20,000 MiB) on node n1 is kept for this pod until they "
            "have ended"
        )
        wait_for(lambda: place.value(client, "evictions_total", outcome="evicted") == 1)
        assert filtered(client, pod) == []
        assert bind(client, pod, "n1") != ""
        assert filtered(client, other) == ["n1"], "there is room besides what is kept"
        end(place, "a")
        wait_for(lambda: filtered(client, pod) == ["n1"])
        assert filtered(client, high(place, "greedy", 25_000, 0)) == [], "the room is kept for another pod"
        assert bind(client, pod, "n1") == ""
        wait_for(lambda: place.value(client, "assumptions", state="nominated") == 0)
        assert notes_of(place.server.get("pods", "high", "default"))["hami.io/vgpu-devices-allocated"] == (
            "GPU-n1-0,NVIDIA,20000,0:;"
        )


def test_explain_reads_from_the_cluster_who_took_the_place_of_an_evicted_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path, *two_cards()) as (place, client):
        kubeconfig = str(place.server.kubeconfig(tmp_path / "kubeconfig"))
        assert filtered(client, high(place)) == []
        wait_for(lambda: ending(place) == {"a"} and "Preempted" in told(place, "a"))
        assert main(["explain", "pod", "default/a", "--kubeconfig", kubeconfig]) == 0
        assert "its place goes to default/high" in capsys.readouterr().out
        end(place, "a")
        assert main(["explain", "pod", "default/a", "--kubeconfig", kubeconfig]) == 2
        said = capsys.readouterr().err
    assert "no pod default/a in this cluster; event of its eviction: evicted for pod default/high" in said
    assert "its place goes to default/high" in said


def test_a_caller_who_may_not_read_events_gets_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(tmp_path, *two_cards()) as (place, _client):
        place.server.faults.add(Fault(action=Refuse(403), resource="events", times=None))
        kubeconfig = str(place.server.kubeconfig(tmp_path / "kubeconfig"))
        assert main(["explain", "pod", "default/a", "--kubeconfig", kubeconfig]) == 0
    assert "default/a: running on n1" in capsys.readouterr().out


def test_nobody_is_evicted_for_a_pod_that_is_not_opted_in_or_may_not_preempt(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards(), priorityClasses=["urgent"], namespaces=["default"]) as (place, client):
        plain = high(place, "plain")
        (never,) = place.create(
            a_pod("never", 20_000, priority=100, priorityClassName="urgent", preemptionPolicy="Never")
        )
        for pod in (plain, never):
            assert filtered(client, pod) == []
        time.sleep(SETTLED)
        assert ending(place) == set()
        (urgent,) = place.create(a_pod("urgent", 20_000, priority=100, priorityClassName="urgent"))
        assert filtered(client, urgent) == []
        wait_for(lambda: ending(place) == {"a"})


def test_equal_priority_and_marked_pods_stay_and_the_pod_is_told_why(tmp_path: Path) -> None:
    kept = low("kept", "GPU-n1-1")
    kept["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    with cluster(tmp_path, low("equal", "GPU-n1-0", priority=100), kept) as (place, client):
        assert filtered(client, high(place)) == []
        wait_for(lambda: "PreemptionNotPossible" in told(place, "high"))
        text = told(place, "high")["PreemptionNotPossible"]
        assert ending(place) == set()
    assert "may not evict default/equal: its priority 100 is not below 100" in text
    assert 'may not evict default/kept: volcano.sh/preemptable is "false"' in text


def test_a_dry_run_says_who_would_leave_and_nobody_does(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards(), dryRun=True) as (place, client):
        assert filtered(client, high(place)) == []
        wait_for(lambda: "PreemptionDryRun" in told(place, "high"))
        assert told(place, "high")["PreemptionDryRun"] == (
            "would evict default/a (priority 0, node n1) (preemption.dryRun is set)"
        )
        assert ending(place) == set()
        assert nominated(place) == ""


def test_a_second_pod_waits_for_room_that_is_left_of_the_first_ones_victim(tmp_path: Path) -> None:
    """The card of the victim has room for both: no other pod is evicted for the second."""
    with cluster(tmp_path, *two_cards()) as (place, client):
        assert filtered(client, high(place, "one", 20_000)) == []
        wait_for(lambda: ending(place) == {"a"})
        assert filtered(client, high(place, "two", 20_000)) == []
        wait_for(lambda: place.value(client, "assumptions", state="nominated") == 2)
        time.sleep(SETTLED)
        assert ending(place) == {"a"}


def test_of_two_pods_that_need_a_card_each_takes_another_victim(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards()) as (place, client):
        for name in ("one", "two"):
            assert filtered(client, high(place, name, 40_000)) == []
        wait_for(lambda: ending(place) == {"a", "b"})
        assert place.value(client, "assumptions", state="nominated") == 2


def test_a_pod_that_is_deleted_gives_the_room_back(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards()) as (place, client):
        assert filtered(client, high(place)) == []
        wait_for(lambda: ending(place) == {"a"})
        end(place, "high")
        wait_for(lambda: place.value(client, "assumptions", state="nominated") == 0)
        end(place, "a")
        other = high(place, "other", 40_000)
        wait_for(lambda: filtered(client, other) == ["n1"])


def test_no_more_are_evicted_at_a_time_than_is_set(tmp_path: Path) -> None:
    with cluster(tmp_path, *two_cards(), atOnce=1) as (place, client):
        for name in ("one", "two"):
            assert filtered(client, high(place, name, 40_000)) == []
        wait_for(lambda: len(ending(place)) == 1)
        time.sleep(SETTLED)
        (first,) = ending(place)
        end(place, first)
        wait_for(lambda: ending(place) == {"a", "b"} - {first})


def test_the_next_leader_keeps_the_room_and_carries_on(tmp_path: Path) -> None:
    """The first one died after one of two evictions; another pod of lower priority asks meanwhile."""
    small = [low(name, "GPU-n1-0", 20_000) for name in ("a", "c")]
    with hami(tmp_path, a_node("n1", cards=1), preemption=FULL) as (place, first):
        place.put(*small)
        pod, other = high(place, memory=40_000), high(place, "other", 15_000, 50)
        wait_for(lambda: place.value(first, "holders") == 2)
        status = place.server.get("pods", "high", "default")
        place.put({**status, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        first.server.stop()
        place.server.delete("pods", "a", "default")
        second = place.start("two", vendors=["NVIDIA"], preemption=FULL)
        wait_for(lambda: ending(place) == {"a", "c"})
        assert filtered(second, other) == []
        for name in "ac":
            end(place, name)
        wait_for(lambda: filtered(second, pod) == ["n1"])
        assert filtered(second, other) == []


def test_the_next_leader_evicts_whom_the_last_one_had_chosen_and_has_the_pod_tried_again(tmp_path: Path) -> None:
    """The first one died after it had kept the room; one of two victims has left."""
    with hami(tmp_path, a_node("n1", cards=1), preemption=FULL) as (place, first):
        place.put(low("a", "GPU-n1-0", 30_000))
        pod = high(place, memory=40_000)
        status = place.server.get("pods", "high", "default")
        place.put({**status, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        first.server.stop()
        second = place.start("two", vendors=["NVIDIA"], preemption=FULL)

        def requeued() -> str:
            return notes_of(place.server.get("pods", "high", "default")).get("hami-plugins.io/requeued-at", "")

        before = wait_for(requeued)
        assert filtered(second, pod) == []
        wait_for(lambda: ending(place) == {"a"})
        end(place, "a")
        wait_for(lambda: requeued() != before)
        assert filtered(second, pod) == ["n1"]


def test_a_nomination_without_any_pod_that_ends_evicts_nobody(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), preemption=FULL) as (place, first):
        place.put(*two_cards())
        high(place)
        raw = place.server.get("pods", "high", "default")
        place.put({**raw, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        first.server.stop()
        second = place.start("two", vendors=["NVIDIA"], preemption=FULL)
        wait_for(lambda: place.value(second, "holders") == 2)
        time.sleep(SETTLED)
        assert ending(place) == set()


class TestPreemptCalls:
    """kube-scheduler names victims by node sums; what it is answered is by devices."""

    def asked(self, client: Client, pod: Raw, **candidates: list[str]) -> dict[str, list[str]]:
        named = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in candidates.items()
        }
        reply = call(client, "preempt", Pod=pod, NodeNameToMetaVictims=named, NodeNameToVictims=None)
        return {node: [each["UID"] for each in of["Pods"]] for node, of in reply["NodeNameToMetaVictims"].items()}

    def test_the_victims_are_those_whose_card_the_pod_gets_on_the_cheapest_node(self, tmp_path: Path) -> None:
        holders = [
            low(f"{name}{at}", f"GPU-n{at}-{card}", priority=at) for at in (1, 2) for card, name in enumerate("ab")
        ]
        with cluster(tmp_path, *holders, nodes=2, mode="scheduler") as (place, client):
            uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in place.server.objects("pods")}
            pod = high(place, memory=40_000)
            named = self.asked(client, pod, n1=[uids["a1"], uids["b1"]], n2=[uids["a2"]])
            assert named in ({"n1": [uids["a1"]]}, {"n1": [uids["b1"]]})
            assert self.asked(client, pod, n1=[uids["a1"]], n2=[uids["a2"]]) == {}, "its room is kept already"
            assert ending(place) == set()

    def with_cpu(self, folder: Path) -> Any:
        """One card each: a (no CPU), b and c (one CPU each, dearer); the scheduler counts CPU."""
        cards = (("a", "0", 0, 0), ("b", "1", 5, 1), ("c", "2", 6, 1))
        made = [low(name, f"GPU-n1-{at}", priority=priority) for name, at, priority, _ in cards]
        for raw, (_, _, _, cpu) in zip(made, cards, strict=True):
            raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": str(cpu)} if cpu else {}
        return cluster(folder, *made, cards=3, mode="scheduler")

    def asks(self, place: Site, cpu: str, **spec: Any) -> Raw:
        raw = a_pod("high", 20_000, priority=100, **spec)
        raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
        return created(place, raw)

    def uids(self, place: Site) -> dict[str, str]:
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in place.server.objects("pods")}

    def test_the_named_pods_give_back_as_much_cpu_as_the_schedulers_own(self, tmp_path: Path) -> None:
        with self.with_cpu(tmp_path) as (place, client):
            uid = self.uids(place)
            assert self.asked(client, self.asks(place, "1"), n1=[uid["c"]]) == {"n1": [uid["b"]]}

    def test_what_the_scheduler_has_left_need_not_be_given_back(self, tmp_path: Path) -> None:
        """It names one pod of one CPU for two: one is left."""
        with self.with_cpu(tmp_path) as (place, client):
            uid = self.uids(place)
            assert self.asked(client, self.asks(place, "2"), n1=[uid["c"]]) == {"n1": [uid["b"]]}

    def test_pods_that_are_named_for_a_port_stay_named(self, tmp_path: Path) -> None:
        with self.with_cpu(tmp_path) as (place, client):
            uid = self.uids(place)
            pod = self.asks(place, "1", hostNetwork=True)
            assert self.asked(client, pod, n1=[uid["c"]]) == {"n1": [uid["c"]]}, "its card has room then"

    def test_others_leave_besides_pods_that_stay_named(self, tmp_path: Path) -> None:
        with self.with_cpu(tmp_path) as (place, client):
            uid = self.uids(place)
            raw = a_pod("high", 20_000, priority=100, hostNetwork=True)
            raw["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
            pod = created(place, raw)
            found = self.asked(client, pod, n1=[uid["c"]])
            assert sorted(found["n1"]) == sorted([uid["a"], uid["c"]])

    def test_more_are_named_than_the_scheduler_had_where_devices_need_them(self, tmp_path: Path) -> None:
        small = [low(f"s{at}", "GPU-n1-0", 4_000) for at in range(10)]
        with cluster(tmp_path, *small, cards=1, mode="scheduler") as (place, client):
            uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in place.server.objects("pods")}
            found = self.asked(client, high(place), n1=[uids["s9"]])
            assert len(found["n1"]) == 5
            assert set(found["n1"]) <= set(uids.values())

    def test_pods_without_devices_that_the_scheduler_needs_to_leave_stay_named(self, tmp_path: Path) -> None:
        with cluster(tmp_path, low("a", "GPU-n1-0"), cards=1, mode="scheduler") as (place, client):
            (uid,) = (each["metadata"]["uid"] for each in place.server.objects("pods"))
            assert self.asked(client, high(place), n1=[uid, "uid-of-a-plain-pod"]) == {
                "n1": [uid, "uid-of-a-plain-pod"]
            }
            small = high(place, "small", 1_000)
            assert self.asked(client, small, n1=["uid-of-a-plain-pod"]) == {"n1": ["uid-of-a-plain-pod"]}

    def test_a_node_on_which_no_allowed_pod_makes_room_is_left_out(self, tmp_path: Path) -> None:
        with cluster(tmp_path, low("a", "GPU-n1-0", priority=100), cards=1, mode="scheduler") as (place, client):
            (uid,) = (each["metadata"]["uid"] for each in place.server.objects("pods"))
            assert self.asked(client, high(place), n1=[uid]) == {}

    def test_the_demand_is_the_one_that_the_api_server_has(self, tmp_path: Path) -> None:
        with cluster(tmp_path, low("a", "GPU-n1-0"), cards=1, mode="scheduler") as (place, client):
            (uid,) = (each["metadata"]["uid"] for each in place.server.objects("pods"))
            pod = high(place, priority=0)
            forged = {**pod, "spec": {**pod["spec"], "priority": 1_000}}
            unknown = {**pod, "metadata": {**pod["metadata"], "uid": "uid-forged"}}
            assert self.asked(client, forged, n1=[uid]) == {}
            assert self.asked(client, unknown, n1=[uid]) == {}

    def test_without_preemption_the_schedulers_own_victims_stand(self, tmp_path: Path) -> None:
        with hami(tmp_path, a_node("n1")) as (place, client):
            assert self.asked(client, high(place), n1=["u1"]) == {"n1": ["u1"]}
