"""What Volcano's actions ``preempt`` and ``reclaim`` are answered, call by call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.kept_room import keep_again
from hami_plugins.allocator.volcano_planner import VolcanoPlanner
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import a_node
from tests.unit.volcano_vgpu.allocation.sessions import Sessions, high, low, member

FITS, MAY_BE_MADE_TO, NEVER = 0, 2, 3


def shown(cluster: Sessions, *pods: Json) -> tuple[Json, ...]:
    for pod in pods:
        cluster.shows(pod)
    return pods


def test_a_node_where_a_plan_puts_the_pod_may_be_made_to_fit_and_no_other() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, *_ = shown(cluster, high(), low("cheap", "n1-0"), low("dear", "n2-0", priority=500))
    assert cluster.asks(waiting, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}
    assert cluster.ranks(waiting, "n1", "n2") == ["n1", "n2"]


def test_where_no_pod_may_leave_no_node_may_be_made_to_fit() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low(priority=1000))
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    assert cluster.may_evict(waiting, running) == []


def test_a_job_for_which_nobody_can_leave_is_looked_at_again_after_a_second() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low(priority=1000))
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    cluster.shows(running, "deleted")
    shown(cluster, low("other"))
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    cluster.time += 1.0
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}


def test_a_node_with_room_fits() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, _ = shown(cluster, high(), low())
    assert cluster.asks(waiting, "n2") == {"n2": FITS}


def test_only_planned_pods_may_be_given_up() -> None:
    cluster = Sessions(a_node("n1", cards=2), a_node("n2"))
    waiting, small, large, far = shown(
        cluster, high(), low("a", "n1-0"), low("b", "n1-1", 35_000), low("c", "n2-0", priority=500)
    )
    cluster.asks(waiting, "n1", "n2")
    assert cluster.may_evict(waiting, small, large) in (["a"], ["b"])
    assert cluster.may_evict(waiting, far) == []


@pytest.mark.parametrize("verb", ["preemptable", "reclaimable"])
def test_a_call_that_cannot_be_read_lets_nobody_go(verb: str) -> None:
    cluster = Sessions()
    for body in (b"", b"{}", b'{"evictor": 3}', b"[" * 5000):
        assert json.loads(getattr(cluster.extender, verb)(body)) == {"status": 1, "victims": []}
    assert cluster.counted(verb, "unreadable") == 4


def tried(cluster: Sessions, waiting: Json, *victims: Json, node: str = "n1") -> str:
    """A session gives up pods and puts another in their place; the answer to that."""
    cluster.asks(waiting, node)
    cluster.may_evict(waiting, *victims)
    cluster.gives_up(*victims)
    return cluster.pipelines(waiting, node)


def test_a_pod_is_put_in_the_place_of_those_that_were_given_up_and_its_room_is_kept_from_others() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    other = high("other", 10_000)
    assert cluster.asks(other, "n1") == {"n1": FITS}
    assert tried(cluster, waiting, running) == ""
    assert cluster.asks(other, "n1") != {"n1": FITS}
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.evictor.written == {"high": "n1"}
    cluster.deletes(running)
    cluster.shows(running, "deleted")
    assert cluster.asks(other, "n1") == {"n1": FITS}
    assert cluster.asks(high("mid", 30_000), "n1") != {"n1": FITS}
    assert cluster.asks(waiting, "n1") == {"n1": FITS}


def test_what_is_taken_back_is_free_again() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    cluster.takes_back(waiting, "n1")
    cluster.spares(running)
    assert cluster.asks(high("other", 10_000), "n1") == {"n1": FITS}
    cluster.closes()
    assert cluster.evictor.asked == []


def test_a_pod_that_runs_on_after_all_leaves_no_room_for_another() -> None:
    cluster = Sessions(a_node("n1"), mode=PreemptionMode.SCHEDULER)
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    cluster.takes_back(waiting, "n1")
    cluster.spares(running)
    assert "largest free 10,960 MiB" in cluster.pipelines(waiting, "n1")


def test_without_those_that_leave_the_pod_is_refused_with_numbers() -> None:
    cluster = Sessions(a_node("n1"), mode=PreemptionMode.SCHEDULER)
    waiting, running = shown(cluster, high(), low())
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, running)
    assert "largest free 10,960 MiB" in cluster.pipelines(waiting, "n1")
    cluster.closes()
    assert cluster.cache.nominations() == ()


def test_where_sums_suffice_the_server_evicts_for_a_pod_that_it_may_evict_for() -> None:
    cluster = Sessions(a_node("n1", cards=2))
    waiting, first, second = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    (chosen,) = cluster.may_evict(waiting, first, second)
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.closes()
    assert cluster.evictor.asked == [(["high"], [chosen])]


@pytest.mark.parametrize(
    "settings", [{"mode": PreemptionMode.SCHEDULER}, {"classes": ("another",)}], ids=["mode", "class"]
)
def test_where_sums_suffice_nobody_is_evicted_for_another_pod(settings: dict[str, Any]) -> None:
    cluster = Sessions(a_node("n1", cards=2), **settings)
    waiting, first, second = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, first, second)
    assert cluster.pipelines(waiting, "n1")
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.cache.nominations() == ()


@pytest.mark.parametrize(
    "settings",
    [{}, {"classes": ("another",)}, {"mode": PreemptionMode.SCHEDULER}],
    ids=["evicts", "another class", "scheduler"],
)
def test_a_planned_pod_stays_where_another_job_of_the_session_has_made_room_enough(settings: dict[str, Any]) -> None:
    """The plan for the second was made before Volcano gave up a larger pod for the first."""
    cluster = Sessions(a_node("n1", cards=2), **settings)
    first, second, large, small, _ = shown(
        cluster,
        high("first", 30_000),
        high("second", 5_000, priority=500),
        low("large", "n1-0", 38_000, priority=200),
        low("small", "n1-1", 5_000),
        low("fixed", "n1-1", 33_000, priority=5_000),
    )
    for waiting in (first, second):
        assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
    assert cluster.may_evict(first, large, small) == ["large"]
    cluster.gives_up(large)
    assert cluster.pipelines(first, "n1") == ""
    assert cluster.may_evict(second, small) == ["small"]
    assert cluster.pipelines(second, "n1") == ""
    cluster.closes()
    assert cluster.evictor.asked == []
    assert [each.record.name for each in cluster.cache.nominations()] == ["first", "second"]


def of_class(pod: Json, name: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "priorityClassName": name}}


def test_a_pod_with_room_kept_for_it_has_no_other_pod_evicted() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, running, other = shown(cluster, high(), low(), low("other", "n2-0", priority=500))
    assert tried(cluster, waiting, running) == ""
    cluster.closes()
    for _ in range(3):
        assert cluster.asks(waiting, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}
        assert cluster.ranks(waiting, "n1", "n2")[0] == "n1"
        assert cluster.may_evict(waiting, running) == []
        assert cluster.may_evict(waiting, other, verb="reclaimable") == []
        assert cluster.pipelines(waiting, "n1") == ""
        assert cluster.pipelines(waiting, "n2")
        cluster.closes()
    assert cluster.evictor.asked == []


def gang(cluster: Sessions, *, members: int = 4, memory: int = 20_000) -> list[Json]:
    cluster.group("train", members)
    return list(shown(cluster, *(high(f"m{at}", memory, group="train") for at in range(members))))


def four_nodes() -> tuple[Sessions, list[Json], dict[str, Json]]:
    """Four cards with a pod each, and a gang of four, two of which fit on a card."""
    nodes = [f"n{at}" for at in range(4)]
    cluster = Sessions(*map(a_node, nodes))
    running = {node: low(f"low-{node}", f"{node}-0") for node in nodes}
    shown(cluster, *running.values())
    return cluster, gang(cluster), running


def places(cluster: Sessions, pod: Json, *nodes: str) -> list[str]:
    return [node for node, code in cluster.asks(pod, *nodes).items() if code == MAY_BE_MADE_TO]


def test_a_gang_is_planned_for_as_a_whole() -> None:
    cluster, members, running = four_nodes()
    planned = places(cluster, members[0], *running)
    assert len(planned) == 2
    for at, node in enumerate((planned[0], planned[0], planned[1], planned[1])):
        assert places(cluster, members[at], *running) == planned
        assert cluster.ranks(members[at], *planned)[0] == node
        victims = [running[node]] if at % 2 == 0 else []
        assert cluster.may_evict(members[at], *victims) == [f"low-{node}" for _ in victims]
        cluster.gives_up(*victims)
        assert cluster.pipelines(members[at], node) == ""
    cluster.closes()
    assert cluster.evictor.asked == []
    assert sorted(cluster.evictor.written) == ["m0", "m1", "m2", "m3"]


def test_of_a_gang_no_member_is_placed_alone() -> None:
    """The second phase of the action preempt, which calls about no pod."""
    cluster, members, running = four_nodes()
    planned = places(cluster, members[0], *running)
    for each in members:
        assert cluster.may_evict(each) == []
        assert cluster.pipelines(each, planned[0])
    cluster.closes()
    assert cluster.evictor.asked == []


def test_a_gang_of_which_only_some_are_placed_leaves_nothing_behind() -> None:
    cluster = Sessions(a_node("n1", cards=2), a_node("n2", cards=2))
    shown(cluster, *(pods := [low(f"low-{at}", f"n{at // 2 + 1}-{at % 2}", 30_000) for at in range(4)]))
    members = gang(cluster, memory=38_000)
    cluster.asks(members[0], "n1", "n2")
    cluster.may_evict(members[0], *pods[:2])
    assert cluster.pipelines(members[0], "n1") == ""
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.cache.nominations() == ()


def test_a_gang_for_which_too_little_room_can_be_made_is_not_planned_for() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    shown(cluster, low("a", "n1-0"), low("b", "n2-0", priority=1000))
    members = gang(cluster, members=2, memory=38_000)
    assert cluster.asks(members[0], "n1", "n2") == {"n1": NEVER, "n2": NEVER}


def test_a_gang_that_has_not_been_created_as_a_whole_is_not_planned_for() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    shown(cluster, low("a", "n1-0"), low("b", "n2-0"))
    members = gang(cluster, members=2, memory=38_000)
    cluster.shows(members[1], "deleted")
    assert cluster.asks(members[0], "n1", "n2") == {"n1": NEVER, "n2": NEVER}


def test_of_a_gang_with_members_that_run_only_the_rest_is_planned_for() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    shown(cluster, low("a", "n1-0"), low("b", "n2-0"))
    members = gang(cluster, members=2, memory=9_000)
    shown(cluster, low("m1", "n1-0", 9_000, priority=1000, group="train"))
    waiting, *_ = shown(cluster, high("m0", 38_000, group="train"))
    assert len(members) == 2
    assert len(places(cluster, waiting, "n1", "n2")) == 1


def test_members_find_room_that_is_kept_for_each_other() -> None:
    """Volcano applies the answer for one of them to all that are alike, and puts them now here and now there."""
    cluster, members, running = four_nodes()
    planned = places(cluster, members[0], *running)
    for at, node in enumerate((planned[0], planned[0], planned[1], planned[1])):
        places(cluster, members[at], *running)
        victims = [running[node]] if at % 2 == 0 else []
        cluster.may_evict(members[at], *victims)
        cluster.gives_up(*victims)
        cluster.pipelines(members[at], node)
    cluster.closes()
    for each in members:
        assert places(cluster, each, *running) == planned
        assert cluster.pipelines(each, planned[1]) == ""
    for node in planned:
        cluster.shows(running[node], "deleted")
    for each, node in zip(members, (planned[1], planned[0], planned[1], planned[0]), strict=True):
        assert cluster.asks(each, node) == {node: FITS}
        assert cluster.event("allocate", each, node, job="x/train") == ""


def test_what_a_session_that_died_had_accepted_is_free_and_planned_for_anew() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
    assert cluster.cache.nominations() == ()
    assert tried(cluster, waiting, running) == ""
    cluster.closes()
    assert len(cluster.cache.nominations()) == 1


def test_a_node_that_volcano_does_not_use_for_reasons_of_its_own_is_planned_around() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, cheap, _ = shown(cluster, high(), low("cheap", "n1-0"), low("dear", "n2-0", priority=500))
    for _ in range(3):
        assert cluster.asks(waiting, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}
        cluster.may_evict(waiting, cheap)
        cluster.closes()
    assert cluster.asks(waiting, "n1", "n2") == {"n1": NEVER, "n2": MAY_BE_MADE_TO}


def test_where_sessions_do_not_say_that_they_end_a_plan_lasts_some_seconds() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, cheap, _ = shown(cluster, high(), low("cheap", "n1-0"), low("dear", "n2-0", priority=500))
    assert places(cluster, waiting, "n1", "n2") == ["n1"]
    cluster.shows(cheap, "deleted")
    shown(cluster, low("new", "n1-0", priority=900))
    assert places(cluster, waiting, "n1", "n2") == ["n1"]
    cluster.time += 5.0
    assert places(cluster, waiting, "n1", "n2") == ["n2"]


def test_a_pod_that_never_preempts_has_nobody_evicted() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    waiting = {**waiting, "spec": {**waiting["spec"], "preemptionPolicy": "Never"}}
    cluster.shows(waiting)
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    assert cluster.may_evict(waiting, running) == []


def test_a_pod_whose_budget_allows_no_eviction_stays() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, *_ = shown(cluster, high(), low("a", "n1-0"), low("b", "n2-0", priority=500))
    labels = {"matchLabels": {"app": "a"}}
    cluster.shows({**low("a", "n1-0"), "metadata": {**low("a", "n1-0")["metadata"], "labels": {"app": "a"}}})
    budget = {
        "metadata": {"namespace": "x", "name": "keep", "uid": "b"},
        "spec": {"selector": labels},
        "status": {"disruptionsAllowed": 0, "observedGeneration": 1},
    }
    cluster.budgets.budget_changed(ObjectChange("added", budget, "b"))
    assert places(cluster, waiting, "n1", "n2") == ["n2"]


def test_a_nodes_taint_keeps_a_plan_away() -> None:
    tainted = a_node("n1")
    tainted["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    cluster = Sessions(tainted, a_node("n2"))
    waiting, *_ = shown(cluster, high(), low("a", "n1-0"), low("b", "n2-0", priority=500))
    assert places(cluster, waiting, "n1", "n2") == ["n2"]


def queues(cluster: Sessions, **deserved: str) -> None:
    for name, memory in deserved.items():
        spec = {"weight": 1, "reclaimable": True, "deserved": {"volcano.sh/vgpu-memory": memory}}
        body = {"metadata": {"name": name, "uid": name}, "spec": spec, "status": {"state": "Open"}}
        cluster.objects.queue_changed(ObjectChange("added", body, name))


@pytest.mark.parametrize(("owned", "code"), [("20000", MAY_BE_MADE_TO), ("40000", NEVER)])
def test_a_queue_gives_back_what_it_holds_beyond_its_share_and_no_more(owned: str, code: int) -> None:
    node = a_node("n1")
    node["status"] = {"allocatable": {"volcano.sh/vgpu-memory": "40960", "volcano.sh/vgpu-number": "10"}}
    cluster = Sessions(node)
    queues(cluster, qa=owned, qb="20960")
    cluster.group("podgroup-low", 1, queue="qa")
    cluster.group("podgroup-high", 1, queue="qb")
    waiting, running = shown(cluster, high(priority=100), low(priority=100))
    assert cluster.asks(waiting, "n1") == {"n1": code}
    assert cluster.may_evict(waiting, running, verb="reclaimable") == (["low"] if code == MAY_BE_MADE_TO else [])


def of_two_queues(mode: PreemptionMode) -> tuple[Sessions, Json, Json, Json]:
    """One card is free when a pod of the same queue and one of another queue leave; either's leaving mends the sums."""
    node = a_node("n1", cards=2)
    node["status"] = {"allocatable": {"volcano.sh/vgpu-memory": "81920", "volcano.sh/vgpu-number": "20"}}
    cluster = Sessions(node, mode=mode)
    queues(cluster, mine="81920", theirs="1000")
    for name, queue in (("high", "mine"), ("same", "mine"), ("other", "theirs"), ("stays", "theirs")):
        cluster.group(f"podgroup-{name}", 1, queue=queue)
    same, other = low("same", memory=15_000), low("other", memory=15_000, priority=5_000)
    stays = low("stays", "n1-1", 30_000)
    stays["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    waiting, *running = shown(cluster, high(memory=36_000), same, other, stays)
    return cluster, waiting, running[0], running[1]


@pytest.mark.parametrize("verb", ["preemptable", "reclaimable"])
def test_a_pod_of_its_own_queue_and_one_of_another_leave_together_where_sums_suffice_without_one(verb: str) -> None:
    """Each of Volcano's actions knows one of them; the server evicts the other one."""
    cluster, waiting, same, other = of_two_queues(PreemptionMode.FULL)
    known, rest = (same, other) if verb == "preemptable" else (other, same)
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
    assert cluster.may_evict(waiting, known, verb=verb) == [known["metadata"]["name"]]
    cluster.gives_up(known)
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.closes()
    assert cluster.evictor.asked == [(["high"], [rest["metadata"]["name"]])]


def test_where_the_server_evicts_nobody_pods_of_two_queues_do_not_leave_together() -> None:
    cluster, waiting, same, _ = of_two_queues(PreemptionMode.SCHEDULER)
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, same)
    cluster.gives_up(same)
    assert cluster.pipelines(waiting, "n1")
    cluster.takes_back(waiting, "n1")
    cluster.spares(same)
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.cache.nominations() == ()


def fragmented(**settings: Any) -> tuple[Sessions, Json, list[str]]:
    """A node whose sums suffice for a pod while no card has room; who may be given up there."""
    cluster = Sessions(a_node("n1", cards=2), **settings)
    waiting, first, second = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    return cluster, waiting, cluster.may_evict(waiting, first, second)


def test_more_evictions_than_are_allowed_are_not_made() -> None:
    cluster, waiting, _ = fragmented()
    cluster.evictor.most = 0
    assert "preemption.atOnce" in cluster.pipelines(waiting, "n1")
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.cache.nominations() == ()


def test_evictions_that_the_api_server_would_refuse_are_not_begun_and_not_tried_for_half_a_minute() -> None:
    cluster, waiting, chosen = fragmented()
    cluster.evictor.why = "no pods are evicted for this pod now: budget keep"
    assert "budget keep" in cluster.pipelines(waiting, "n1")
    assert cluster.evictor.dry_runs == chosen
    cluster.takes_back(waiting, "n1")
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    cluster.closes()
    assert cluster.evictor.asked == []
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    cluster.evictor.why = ""
    cluster.time += 29.0
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    assert "budget keep" in cluster.pipelines(waiting, "n1")
    cluster.time += 1.0
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}


def test_the_api_server_is_asked_once_for_a_plan() -> None:
    cluster, waiting, chosen = fragmented()
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.takes_back(waiting, "n1")
    assert cluster.pipelines(waiting, "n1") == ""
    assert cluster.evictor.dry_runs == chosen


def test_neither_the_api_server_nor_our_limits_have_a_say_in_what_volcano_evicts() -> None:
    cluster = Sessions(a_node("n1"))
    cluster.evictor.most = 0
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    assert cluster.evictor.dry_runs == []


def test_a_gang_leaves_as_a_whole_only_where_the_server_evicts_the_rest() -> None:
    for mode, code in ((PreemptionMode.FULL, MAY_BE_MADE_TO), (PreemptionMode.SCHEDULER, NEVER)):
        cluster = Sessions(a_node("n1"), a_node("n2"), mode=mode)
        cluster.group("small", 2)
        pods = [low(f"small-{at}", f"n{at + 1}-0", 38_000, group="small") for at in (0, 1)]
        waiting, *_ = shown(cluster, high(), *pods)
        assert code in cluster.asks(waiting, "n1", "n2").values()
        assert (MAY_BE_MADE_TO in cluster.asks(waiting, "n1", "n2").values()) == (code == MAY_BE_MADE_TO)


def test_volcano_does_not_evict_a_whole_gang_even_if_other_pods_leave_with_it() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"), mode=PreemptionMode.SCHEDULER)
    cluster.group("small", 2)
    pods = (
        low("single", "n1-0", 10_000),
        low("s0", "n1-0", 25_000, group="small"),
        low("s1", "n2-0", 38_000, priority=500, group="small"),
        low("fixed", "n2-0", 2_000, priority=1000),
    )
    waiting, *_ = shown(cluster, high(memory=40_000), *pods)
    assert cluster.asks(waiting, "n1", "n2") == {"n1": NEVER, "n2": NEVER}


def test_pods_may_leave_for_one_of_a_volcano_with_another_scheduler_name() -> None:
    cluster = Sessions(a_node("n1"))
    named = high()
    waiting, _ = shown(cluster, {**named, "spec": {**named["spec"], "schedulerName": "batch"}}, low())
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}


def test_a_session_that_died_after_it_had_evicted_leaves_the_room_kept() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    cluster.deletes(running)
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
    assert [each.record.name for each in cluster.cache.nominations()] == ["high"]
    assert cluster.asks(high("other", 30_000), "n1") == {"n1": NEVER}


def test_what_a_dead_session_reserved_makes_no_other_pod_leave() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, _, abandoned = shown(cluster, high(), low(), high("abandoned", 38_000, priority=1))
    assert cluster.event("allocate", abandoned, "n2") == ""
    cluster.time += 3.0
    assert cluster.asks(waiting, "n1", "n2") == {"n1": NEVER, "n2": MAY_BE_MADE_TO}


def nominated(pod: Json, node: str) -> Json:
    return {**pod, "status": {**pod["status"], "nominatedNodeName": node}}


def test_a_new_leader_keeps_the_room_of_pods_that_name_their_node() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    running = low()
    waiting, other = nominated(high(), "n1"), nominated(high("stranger"), "n2")
    stranger = {**other, "spec": {**other["spec"], "schedulerName": "default-scheduler"}}
    shown(cluster, waiting, stranger)
    cluster.deletes(running)
    keep_again(cluster.cache, volcano=False)
    assert kept_nodes(cluster) == {"stranger": "n2"}
    keep_again(cluster.cache, volcano=True)
    assert kept_nodes(cluster) == {"high": "n1", "stranger": "n2"}
    cluster.shows(running, "deleted")
    assert cluster.asks(high("other", 30_000), "n1") != {"n1": FITS}
    assert cluster.asks(waiting, "n1") == {"n1": FITS}


def test_room_from_which_all_have_left_is_kept_again_for_a_minute() -> None:
    cluster = Sessions(a_node("n1"))
    shown(cluster, nominated(high(), "n1"))
    keep_again(cluster.cache, volcano=True)
    assert [each.until for each in cluster.cache.nominations()] == [60.0]


def test_a_new_leader_keeps_the_room_of_ending_pods_for_the_pod_that_matters_most() -> None:
    """Killed between the eviction and the write of the node, the leader before has left no name."""
    cluster = Sessions(a_node("n1"), a_node("n2"))
    never, mid = high("never", priority=2000), high("mid", 5_000, priority=500)
    shown(cluster, {**never, "spec": {**never["spec"], "preemptionPolicy": "Never"}}, mid, low("stays", "n2-0"))
    shown(cluster, high("first", 38_000), high("second", 38_000))
    cluster.deletes(low())
    keep_again(cluster.cache, volcano=True)
    assert [(each.record.name, each.until) for each in cluster.cache.nominations()] == [("first", 60.0)]
    assert kept_nodes(cluster) == {"first": "n1"}
    assert cluster.asks(mid, "n1") != {"n1": FITS}


def test_a_new_leader_keeps_no_room_in_the_way_of_a_pod_for_which_more_have_to_leave() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    shown(cluster, high("high", 38_000), high("mid", 5_000, priority=500), low("stays", memory=20_000))
    cluster.deletes(low("leaves", memory=20_000))
    keep_again(cluster.cache, volcano=True)
    assert kept_nodes(cluster) == {}


def test_a_new_leader_keeps_no_room_for_others_where_a_pod_names_the_node() -> None:
    cluster = Sessions(a_node("n1"))
    shown(cluster, nominated(high("named", 38_000), "n1"), high("other", 5_000), low("stays", memory=20_000))
    cluster.deletes(low("leaves", memory=20_000))
    keep_again(cluster.cache, volcano=True)
    assert kept_nodes(cluster) == {}


def test_a_new_leader_keeps_the_room_of_a_pod_whose_node_its_scheduler_has_emptied() -> None:
    """kube-scheduler does so where a Binding fails, as when the leader before was killed."""
    cluster = Sessions(a_node("n1"))
    pod = high()
    notes = {**pod["metadata"].get("annotations", {}), "hami-plugins.io/nominated-node": "n1"}
    shown(cluster, {**pod, "metadata": {**pod["metadata"], "annotations": notes}})
    keep_again(cluster.cache, volcano=True)
    assert kept_nodes(cluster) == {"high": "n1"}


@pytest.mark.parametrize("node", ["n1", "n9"])
def test_a_new_leader_keeps_no_room_that_there_is_not(node: str) -> None:
    cluster = Sessions(a_node("n1"))
    shown(cluster, nominated(high(), node), low())
    keep_again(cluster.cache, volcano=True)
    assert cluster.cache.nominations() == ()


def test_members_that_are_alone_are_refused_with_the_reason() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    shown(cluster, low("b", "n2-0", priority=1000))
    members = gang(cluster, members=2, memory=38_000)
    assert cluster.asks(members[0], "n1") == {"n1": FITS}
    refused = cluster.pipelines(members[0], "n1")
    assert "no room is kept for a pod that cannot start: no pod on 2 nodes may be evicted for it" in refused
    assert cluster.asks(high("other", 38_000), "n1") == {"n1": FITS}


def kept_nodes(cluster: Sessions) -> dict[str, str]:
    return {each.record.name: each.node for each in cluster.cache.nominations()}


def test_a_new_leader_keeps_room_for_all_of_a_gang_although_only_some_name_their_node() -> None:
    """The others had not been written when the leader before was killed."""
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("train", 4)
    pods = [high(f"m{at}", group="train") for at in range(4)]
    shown(cluster, nominated(pods[0], "n1"), pods[1], nominated(pods[2], "n2"), pods[3], high("alone"))
    for name, card in (("a", "n1-0"), ("b", "n2-0")):
        cluster.deletes(low(name, card))
    keep_again(cluster.cache, volcano=True)
    found = kept_nodes(cluster)
    assert found.keys() == {"m0", "m1", "m2", "m3"}
    assert sorted(found.values()) == ["n1", "n1", "n2", "n2"]


def test_while_a_gang_lacks_room_no_node_is_out_of_the_question_for_members_that_have_some() -> None:
    """Volcano applies the answer for one pod to all pods of its task."""
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("train", 2)
    first, second = nominated(high("m0", 38_000, group="train"), "n1"), high("m1", 38_000, group="train")
    shown(cluster, first, second, low("b", "n2-0"))
    cluster.deletes(low("a", "n1-0"))
    keep_again(cluster.cache, volcano=True)
    assert kept_nodes(cluster) == {"m0": "n1"}
    assert cluster.asks(first, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": MAY_BE_MADE_TO}
    assert cluster.asks(second, "n1", "n2") == {"n1": NEVER, "n2": MAY_BE_MADE_TO}
    cluster.shows(second, "deleted")
    assert cluster.asks(first, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}


def test_room_is_kept_as_long_as_a_scheduler_asks_for_the_pod() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    cluster.closes()
    cluster.shows(running, "deleted")
    assert cluster.cache.expire_nominations() == ()
    for _ in range(3):
        cluster.time += 50.0
        assert cluster.asks(waiting, "n1") == {"n1": FITS}
        assert cluster.cache.expire_nominations() == ()
    cluster.time += 60.0
    assert [each.record.name for each in cluster.cache.expire_nominations()] == ["high"]


def test_a_session_that_uses_a_node_ends_the_count_of_those_that_did_not() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, cheap, _ = shown(cluster, high(), low("cheap", "n1-0"), low("dear", "n2-0", priority=500))
    for _ in range(2):
        cluster.asks(waiting, "n1", "n2")
        cluster.may_evict(waiting, cheap)
        cluster.closes()
    assert tried(cluster, waiting, cheap) == ""
    cluster.closes()
    cluster.cache.withdraw(cluster.cache.nominations()[0].record.uid)
    for _ in range(3):
        assert cluster.asks(waiting, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}
        cluster.may_evict(waiting, cheap)
        cluster.closes()
    assert cluster.asks(waiting, "n1", "n2") == {"n1": NEVER, "n2": MAY_BE_MADE_TO}


def test_a_node_that_no_plan_names_is_not_one_that_volcano_does_not_use() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, cheap, dear = shown(cluster, high(), low("cheap", "n1-0"), low("dear", "n2-0", priority=500))
    for _ in range(3):
        assert places(cluster, waiting, "n1", "n2") == ["n1"]
        assert cluster.may_evict(waiting, dear) == []
        assert cluster.may_evict(waiting) == []
        cluster.closes()
    cluster.shows(cheap, "deleted")
    shown(cluster, low("fixed", "n1-0", priority=1000))
    assert places(cluster, waiting, "n1", "n2") == ["n2"]


def test_where_no_other_node_can_help_a_node_that_was_not_used_is_tried_again() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    for _ in range(3):
        assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
        cluster.may_evict(waiting, running)
        cluster.closes()
    assert cluster.asks(waiting, "n1") == {"n1": NEVER}
    cluster.time += 1.0
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}


def test_only_pods_that_still_run_are_evicted_by_the_server() -> None:
    cluster, waiting, (chosen,) = fragmented()
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.shows(low(chosen, {"a": "n1-0", "b": "n1-1"}[chosen]), "deleted")
    cluster.closes()
    assert cluster.evictor.asked == []


def test_a_task_minimum_is_planned_for() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("train", 1, minTaskMember={"ps": 1, "worker": 1})
    worker, server = (
        member(high(name, 38_000), "train", 1000, **{"volcano.sh/task-spec": task})
        for name, task in (("w0", "worker"), ("ps0", "ps"))
    )
    shown(cluster, worker, server, low("a", "n1-0"), low("b", "n2-0"))
    assert cluster.asks(worker, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": MAY_BE_MADE_TO}


def test_searches_take_at_most_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.time = 1_000.0
    first, second, *_ = shown(cluster, high(), high("second"), low("a", "n1-0"), low("b", "n2-0"))
    plan = VolcanoPlanner.plan

    def slow(self: VolcanoPlanner, *arguments: Any, **options: Any) -> Any:
        cluster.time += 0.4
        return plan(self, *arguments, **options)

    monkeypatch.setattr(VolcanoPlanner, "plan", slow)
    assert len(places(cluster, first, "n1", "n2")) == 1
    assert places(cluster, second, "n1", "n2") == []
    cluster.time += 0.39
    assert places(cluster, second, "n1", "n2") == []
    cluster.time += 0.01
    assert len(places(cluster, second, "n1", "n2")) == 1


def test_no_search_is_made_where_no_pod_may_have_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Sessions(a_node("n1"))
    equal, running = shown(cluster, high(priority=100), low())
    monkeypatch.setattr(VictimSearch, "find", lambda *_, **__: pytest.fail("searched"))
    assert cluster.asks(equal, "n1") == {"n1": NEVER}
    monkeypatch.undo()
    cluster.deletes(running)
    cluster.time += 1.0
    assert cluster.asks(equal, "n1") == {"n1": MAY_BE_MADE_TO}


def test_a_pod_that_fits_may_be_put_beside_others_that_leave_for_reasons_of_volcanos() -> None:
    """CPU of another pod, say: its devices are kept all the same."""
    cluster = Sessions(a_node("n1"))
    (waiting,) = shown(cluster, high())
    assert cluster.pipelines(waiting, "n1") == ""
    assert cluster.asks(high("other", 30_000), "n1") != {"n1": FITS}


def test_so_may_one_that_never_preempts() -> None:
    cluster = Sessions(a_node("n1"))
    waiting = high()
    shown(cluster, {**waiting, "spec": {**waiting["spec"], "preemptionPolicy": "Never"}})
    assert cluster.pipelines(waiting, "n1") == ""
    assert cluster.asks(high("other", 30_000), "n1") != {"n1": FITS}


@pytest.mark.parametrize("mode", [PreemptionMode.FULL, PreemptionMode.SCHEDULER])
def test_evictions_that_volcano_died_before_are_made_by_the_server(mode: PreemptionMode) -> None:
    cluster = Sessions(a_node("n1"), mode=mode, classes=("urgent",))
    waiting, running = shown(cluster, of_class(high(), "urgent"), low())
    assert tried(cluster, waiting, running) == ""
    cluster.closes()
    cluster.time += 2.9
    cluster.closes()
    assert cluster.evictor.asked == []
    cluster.time += 0.1
    cluster.closes()
    cluster.closes()
    assert cluster.evictor.asked == ([(["high"], ["low"])] if mode is PreemptionMode.FULL else [])


@pytest.mark.parametrize("what", ["evicted", "withdrawn"])
def test_evictions_that_were_made_or_are_not_needed_any_more_are_not_made_again(what: str) -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    assert tried(cluster, waiting, running) == ""
    cluster.closes()
    if what == "evicted":
        cluster.deletes(running)
    else:
        cluster.shows(waiting, "deleted")
    cluster.time += 3.0
    cluster.closes()
    assert cluster.evictor.asked == []


def test_a_gang_that_has_begun_to_leave_leaves_as_a_whole_even_if_the_pod_starts_earlier() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("small", 2)
    pods = {f"n{at + 1}": low(f"small-{at}", f"n{at + 1}-0", group="small") for at in (0, 1)}
    waiting, *_ = shown(cluster, high(), *pods.values())
    (node,) = places(cluster, waiting, "n1", "n2")
    (rest,) = (pod for at, pod in pods.items() if at != node)
    cluster.may_evict(waiting, pods[node])
    cluster.gives_up(pods[node])
    assert cluster.pipelines(waiting, node) == ""
    assert cluster.evictor.dry_runs == [rest["metadata"]["name"]]
    cluster.closes()
    assert cluster.evictor.victims == [rest["metadata"]["name"]]
    assert cluster.evictor.finishes
    cluster, waiting, _ = fragmented()
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.closes()
    assert not cluster.evictor.finishes
