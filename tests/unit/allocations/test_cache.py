"""What the cache answers, what it keeps of that, and what ends it."""

from typing import Any

import pytest

from hami_plugins.allocations.answers import AllocationSource, DeclineCode, Declined, PodAllocation, Statistics
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.decisions import UNREGISTERED
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit, NoFit, Reason
from hami_plugins.wire import objects
from tests.unit.allocations.objects import IDS, N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound, register

NOW_NS = 1_790_000_000_000_000_000
LATER = 95.0


@pytest.fixture
def cache() -> AllocationCache:
    """A cache that knows two nodes with one card each."""
    made = AllocationCache(Decider(REGISTRY))
    for name in ("n1", "n2"):
        see_node(made, a_node(name))
    return made


def see_node(cache: AllocationCache, raw: Raw) -> None:
    cache.see_node(objects.node_object(raw))


def see(cache: AllocationCache, raw: Raw, now: float = 0) -> None:
    cache.see_pod(objects.pod(raw), now)


def allocation(cache: AllocationCache, raw: Raw, node: NodeName = N1, now: float = 0, **more: Any) -> PodAllocation:
    """What a Binding is answered with, which must be an allocation."""
    said = cache.allocate(node, asking(raw), now, **more)
    assert isinstance(said, PodAllocation), said
    return said


def declined(cache: AllocationCache, raw: Raw, node: NodeName = N1, now: float = 0, **more: Any) -> Declined:
    """What a Binding is answered with, which must be a refusal."""
    said = cache.allocate(node, asking(raw), now, **more)
    assert isinstance(said, Declined), said
    return said


def reserve(cache: AllocationCache, raw: Raw, node: NodeName = N1, now: float = 0) -> PodAllocation:
    said = cache.reserve(node, asking(raw), now)
    assert isinstance(said, PodAllocation), said
    return said


def cards(said: PodAllocation) -> list[str]:
    return [share.device for share in said.shares()]


def free(cache: AllocationCache, node: NodeName = N1) -> int:
    """The free memory of the node's cards, in MiB."""
    entry = cache.entry(node)
    assert entry is not None
    devices, usage = entry.state.shape.devices, entry.state.usage
    return sum(device.memory - used.memory for device, used in zip(devices, usage, strict=True))


def test_two_pods_at_once_on_the_last_slice_one_gets_it(cache: AllocationCache) -> None:
    allocation(cache, a_pod("a", memory=30_000))

    refused = declined(cache, a_pod("b", memory=30_000))

    assert refused.code is DeclineCode.CARDS
    assert isinstance(refused.refusal, NoFit)
    assert dict(refused.refusal.reasons) == {Reason.MEMORY: 1}


def test_a_refusal_comes_with_asked_largest_and_total(cache: AllocationCache) -> None:
    allocation(cache, a_pod("a", memory=30_000))

    why = declined(cache, a_pod("b", memory=30_000)).why

    assert why is not None
    (reason,) = why.reasons
    assert reason.supply is not None
    assert (reason.supply.largest, reason.supply.total) == (10_960, 10_960)


def test_exactly_what_is_left_is_given_and_not_one_mebibyte_more(cache: AllocationCache) -> None:
    allocation(cache, a_pod("a", memory=30_000))

    declined(cache, a_pod("b", memory=10_961))
    allocation(cache, a_pod("c", memory=10_960))


def test_an_allocation_is_written_with_all_six_keys(cache: AllocationCache) -> None:
    pod = a_pod()

    written = cache.annotations(allocation(cache, pod), asking(pod).pod, now_ns=NOW_NS)

    assert written == {
        "volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,10000,0:",
        "volcano.sh/devices-to-allocate": "GPU-n1-0,NVIDIA,10000,0:",
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": "1790000000",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1790000000",
    }


def test_nothing_is_written_for_a_node_that_went_meanwhile(cache: AllocationCache) -> None:
    said = allocation(cache, a_pod())
    cache.forget_node(N1)

    assert cache.annotations(said, asking(a_pod()).pod, now_ns=NOW_NS) == {}


def test_a_pod_without_devices_gets_nothing_and_nothing_is_kept(cache: AllocationCache) -> None:
    pod = a_pod()
    del pod["spec"]["containers"][0]["resources"]

    said = allocation(cache, pod)

    assert (said.source, list(said.shares())) == (AllocationSource.NOTHING, [])
    assert cache.annotations(said, asking(pod).pod, now_ns=NOW_NS) == {}
    assert cache.assumptions(PodUid("uid-p")) == ()


def test_a_pod_that_asks_for_zero_cards_gets_an_empty_list(cache: AllocationCache) -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": "0"}

    said = allocation(cache, pod)

    assert said.source is AllocationSource.NOTHING
    assert cache.annotations(said, asking(pod).pod, now_ns=NOW_NS)["volcano.sh/vgpu-ids-new"] == ""


def test_a_dry_run_gets_the_same_answer_and_keeps_nothing(cache: AllocationCache) -> None:
    dry = allocation(cache, a_pod(), dry=True)

    assert cache.assumptions(PodUid("uid-p")) == ()
    assert free(cache) == 40_960
    assert allocation(cache, a_pod()).containers == dry.containers


def test_a_dry_run_does_not_end_a_reservation_elsewhere(cache: AllocationCache) -> None:
    reserve(cache, a_pod(), N2)

    allocation(cache, a_pod(), N1, dry=True)

    assert [each.node for each in cache.assumptions(PodUid("uid-p"))] == [N2]


# What is reserved


def test_a_binding_gets_what_was_reserved(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    reserved = reserve(cache, a_pod("p"))
    allocation(cache, a_pod("q"))

    said = allocation(cache, a_pod("p"))

    assert (said.source, said.containers) == (AllocationSource.RESERVED, reserved.containers)


def test_a_reservation_elsewhere_replaces_the_one_before(cache: AllocationCache) -> None:
    reserve(cache, a_pod(), N1)
    reserve(cache, a_pod(), N2)

    assert (free(cache, N1), free(cache, N2)) == (40_960, 30_960)


def test_a_released_reservation_leaves_its_place(cache: AllocationCache) -> None:
    reserve(cache, a_pod())

    assert cache.release(PodUid("uid-p"))
    assert not cache.release(PodUid("uid-p"))
    assert free(cache) == 40_960


def test_what_a_binding_was_answered_with_cannot_be_released(cache: AllocationCache) -> None:
    allocation(cache, a_pod())

    assert not cache.release(PodUid("uid-p"))
    assert free(cache) == 30_960


def test_what_a_binding_was_answered_with_stays_when_the_pod_is_tried_elsewhere(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), N1)
    reserve(cache, a_pod(), N2)
    reserve(cache, a_pod(), N1)

    assert [(each.node, each.answered) for each in cache.assumptions(PodUid("uid-p"))] == [(N1, True)]
    assert (free(cache, N1), free(cache, N2)) == (30_960, 40_960)


def test_a_pod_that_asks_for_something_else_now_is_placed_anew(cache: AllocationCache) -> None:
    reserve(cache, a_pod(memory=10_000))

    said = allocation(cache, a_pod(memory=12_000))

    assert said.source is AllocationSource.PLACED
    assert free(cache) == 28_960


def test_what_a_pod_gives_up_is_free_for_itself(cache: AllocationCache) -> None:
    allocation(cache, a_pod(memory=30_000))

    assert allocation(cache, a_pod(memory=35_000)).source is AllocationSource.PLACED


def test_a_pod_does_not_stand_in_its_own_way(cache: AllocationCache) -> None:
    reserve(cache, a_pod(memory=30_000))

    assert isinstance(cache.answer(N1, asking(a_pod(memory=30_000))), Fit)
    assert isinstance(cache.answer(N1, asking(a_pod("other", memory=30_000))), NoFit)


def test_time_ends_what_nothing_else_ended(cache: AllocationCache) -> None:
    allocation(cache, a_pod("answered"), now=0)
    reserve(cache, a_pod("reserved"), now=80)

    assert cache.expire(89) == ()
    (ended,) = cache.expire(90)
    assert (ended.record.name, ended.answered) == ("answered", True)
    assert free(cache) == 30_960


def test_a_scheduler_that_died_blocks_no_card_for_long(cache: AllocationCache) -> None:
    reserve(cache, a_pod(memory=30_000), now=0)

    assert cache.expire(14) == ()
    (ended,) = cache.expire(15)
    assert (ended.answered, free(cache)) == (False, 40_960)


def test_a_reservation_that_a_binding_was_answered_with_lasts_as_long_as_any_answer(cache: AllocationCache) -> None:
    reserve(cache, a_pod(), now=0)
    allocation(cache, a_pod(), now=10)

    assert cache.expire(99) == ()
    assert len(cache.expire(100)) == 1


def test_who_tries_again_and_again_after_a_binding_that_failed_does_not_hold_cards_for_ever(
    cache: AllocationCache,
) -> None:
    allocation(cache, a_pod(), now=10)
    for second in range(11, 100):
        reserve(cache, a_pod(), now=second)
        cache.release(PodUid("uid-p"))

    assert cache.expire(99) == ()
    assert len(cache.expire(100)) == 1


def test_a_binding_that_is_known_to_have_failed_holds_nothing_any_more(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), now=0)
    reserve(cache, a_pod("reserved"), now=0)
    assert cache.overdue(59, after=60) == ()
    (overdue,) = cache.overdue(60, after=60)
    reserve(cache, a_pod(), now=60)

    assert cache.fail(overdue)
    assert not cache.fail(overdue)
    assert cache.assumptions(PodUid("uid-p")) == ()


def test_a_binding_that_was_answered_again_since_is_not_the_one_that_failed(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), now=0)
    (overdue,) = cache.overdue(60, after=60)
    allocation(cache, a_pod(), now=61)

    assert not cache.fail(overdue)
    assert len(cache.assumptions(PodUid("uid-p"))) == 1


def test_an_answer_ends_only_when_the_watch_has_told_of_all_that_time(cache: AllocationCache) -> None:
    allocation(cache, a_pod("answered"), now=0)
    reserve(cache, a_pod("reserved"), now=0)

    (ended,) = cache.expire(1_000, shown=89)
    assert (ended.record.name, free(cache)) == ("reserved", 30_960)
    assert [each.record.name for each in cache.expire(1_000, shown=90)] == ["answered"]


def test_what_is_asked_for_again_lasts_longer(cache: AllocationCache) -> None:
    reserve(cache, a_pod(), now=0)
    reserve(cache, a_pod(), now=10)

    assert cache.expire(24) == ()


# What a pod carries


def test_ids_that_are_right_are_kept(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    for card in ("GPU-a", "GPU-b"):
        said = allocation(cache, a_pod(card), carried={IDS: f"{card},NVIDIA,10000,0:"})
        assert (said.source, cards(said)) == (AllocationSource.CARRIED, [card])


@pytest.mark.parametrize(
    "ids",
    [
        "GPU-n2-0,NVIDIA,10000,0:",
        "GPU-nobody,NVIDIA,10000,0:",
        "GPU-n1-0,NVIDIA,9999,0:",
        "GPU-n1-0,NVIDIA,10000,1:",
        "GPU-n1-0,NVIDIA,10000,0:GPU-n1-0,NVIDIA,10000,0:",
        "GPU-n1-0,NVIDIA,many,0:",
        "GPU-n1-0[group1-0],NVIDIA,10000,0:",
        ";GPU-n1-0,NVIDIA,10000,0:;",
        "",
    ],
    ids=["other node", "unknown", "less", "cores", "twice", "unreadable", "slot", "containers", "empty"],
)
def test_ids_that_are_wrong_are_replaced(cache: AllocationCache, ids: str) -> None:
    said = allocation(cache, a_pod(), carried={IDS: ids})

    assert (said.source, cards(said)) == (AllocationSource.PLACED, ["GPU-n1-0"])


def test_ids_of_a_card_that_is_full_by_now_are_replaced(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    allocation(cache, a_pod("first", memory=40_000), carried={IDS: "GPU-a,NVIDIA,40000,0:"})

    said = allocation(cache, a_pod("second"), carried={IDS: "GPU-a,NVIDIA,10000,0:"})

    assert (said.source, cards(said)) == (AllocationSource.PLACED, ["GPU-b"])


def test_ids_of_a_sick_card_are_replaced(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", healthy=False) + register("GPU-b")))

    said = allocation(cache, a_pod(), carried={IDS: "GPU-a,NVIDIA,10000,0:"})

    assert cards(said) == ["GPU-b"]


def test_ids_that_the_pod_itself_does_not_want_are_replaced(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    pod = a_pod(annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-b"})

    said = allocation(cache, pod, carried={**pod["metadata"]["annotations"], IDS: "GPU-a,NVIDIA,10000,0:"})

    assert cards(said) == ["GPU-b"]


def test_what_is_reserved_goes_before_what_is_carried(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    (reserved,) = cards(reserve(cache, a_pod()))
    (other,) = {"GPU-a", "GPU-b"} - {reserved}

    said = allocation(cache, a_pod(), carried={IDS: f"{other},NVIDIA,10000,0:"})

    assert cards(said) == [reserved]


# What a watch shows


def test_a_bound_pod_holds_what_it_says_and_not_what_was_assumed(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), N1)

    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,5000,0:"))

    assert cache.assumptions(PodUid("uid-p")) == ()
    assert cache.bound_to(PodUid("uid-p")) == N1
    assert free(cache) == 35_960


def test_a_pod_bound_elsewhere_holds_nothing_here_any_more(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), N1)
    allocation(cache, a_pod(), N2)

    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:"))

    assert (free(cache, N1), free(cache, N2)) == (30_960, 40_960)


def test_both_answers_count_until_the_watch_says_which_was_carried_out(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), N1)
    allocation(cache, a_pod(), N2)

    assert (free(cache, N1), free(cache, N2)) == (30_960, 30_960)


def test_a_pod_that_somebody_bound_without_ids_frees_what_was_assumed(cache: AllocationCache) -> None:
    allocation(cache, a_pod(), N1)

    see(cache, bound(a_pod(), "n1"))

    assert free(cache) == 40_960


@pytest.mark.parametrize(
    "later",
    [
        "GPU-n1-0,NVIDIA,1,0:",
        "GPU-n1-0,NVIDIA,40000,0:",
        "GPU-n2-0,NVIDIA,30000,0:",
        "GPU-n1-0,NVIDIA,30000,0:GPU-n1-0,NVIDIA,1,0:",
        "rubbish",
        "",
        None,
    ],
    ids=["less", "more", "other card", "more containers", "unreadable", "empty", "removed"],
)
def test_whoever_writes_on_a_bound_pod_changes_nothing_of_what_it_holds(
    cache: AllocationCache, later: str | None
) -> None:
    pod = a_pod(memory=30_000)
    allocation(cache, pod)
    see(cache, bound(pod, "n1", "GPU-n1-0,NVIDIA,30000,0:"))

    see(cache, bound(pod, "n1", later))

    assert (free(cache, N1), free(cache, N2)) == (10_960, 40_960)
    assert declined(cache, a_pod("b", memory=30_000)).code is DeclineCode.CARDS


def test_what_a_node_agent_writes_is_no_change_of_the_allocation(cache: AllocationCache) -> None:
    pod = a_pod()
    written = cache.annotations(allocation(cache, pod), asking(pod).pod, now_ns=NOW_NS)
    see(cache, bound({**pod, "metadata": {**pod["metadata"], "annotations": written}}, "n1"))

    served = {**written, "volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ""}
    see(cache, bound({**pod, "metadata": {**pod["metadata"], "annotations": served}}, "n1"))

    assert (free(cache), cache.findings()) == (30_960, ())


def test_a_pod_that_was_bound_without_cards_may_be_given_some_later(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1"))

    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:"))

    assert (free(cache), cache.findings()) == (30_960, ())


def test_a_pod_without_devices_on_a_node_is_nobody_to_the_cache(cache: AllocationCache) -> None:
    pod = bound(a_pod(), "n1")
    del pod["spec"]["containers"][0]["resources"]

    see(cache, pod)

    assert cache.statistics().holders == 0


def test_what_a_pod_carries_before_it_has_a_node_is_no_allocation(cache: AllocationCache) -> None:
    see(cache, a_pod(annotations={IDS: "GPU-n1-0,NVIDIA,10000,0:"}))

    assert free(cache) == 40_960


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_finished_holds_nothing(cache: AllocationCache, phase: str) -> None:
    held = bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:")
    see(cache, held)

    see(cache, {**held, "status": {"phase": phase}})

    assert free(cache) == 40_960


def test_a_terminating_pod_holds_what_it_has_until_it_is_gone(cache: AllocationCache) -> None:
    held = bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:")
    see(cache, {**held, "metadata": {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})

    assert free(cache) == 30_960
    cache.forget_pod(PodUid("uid-p"), 0)
    assert free(cache) == 40_960


def test_an_event_that_says_nothing_new_changes_nothing(cache: AllocationCache) -> None:
    held = bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:")
    see(cache, held)
    before = cache.entry(N1)

    see(cache, {**held, "status": {"phase": "Running", "message": "started"}})
    see_node(cache, a_node("n1"))

    assert cache.entry(N1) is before


def test_an_allocation_that_the_watch_confirms_changes_nothing(cache: AllocationCache) -> None:
    pod = a_pod()
    said = allocation(cache, pod)
    before = cache.entry(N1)

    written = cache.annotations(said, asking(pod).pod, now_ns=NOW_NS)
    see(cache, bound({**pod, "metadata": {**pod["metadata"], "annotations": written}}, "n1"))

    assert cache.entry(N1) is before


# Pods that are gone, new or bound


def test_a_binding_for_a_pod_that_is_gone_is_refused(cache: AllocationCache) -> None:
    see(cache, a_pod())
    cache.forget_pod(PodUid("uid-p"), 0)

    refused = declined(cache, a_pod())

    assert refused.code is DeclineCode.GONE
    assert "team/p (UID uid-p) is gone" in refused.text


def test_a_pod_that_was_created_again_is_another_one(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(uid="old", memory=30_000), "n1", "GPU-n1-0,NVIDIA,30000,0:"))

    assert declined(cache, a_pod(uid="new", memory=30_000)).code is DeclineCode.CARDS
    cache.forget_pod(PodUid("old"), 0)
    assert allocation(cache, a_pod(uid="new", memory=30_000)).uid == "new"


def test_that_a_pod_is_gone_is_remembered_for_a_while(cache: AllocationCache) -> None:
    cache.forget_pod(PodUid("uid-p"), 0)

    cache.expire(LATER)

    allocation(cache, a_pod())


def test_a_pod_that_the_watch_shows_again_is_not_gone(cache: AllocationCache) -> None:
    cache.forget_pod(PodUid("uid-p"), 0)

    see(cache, a_pod())

    allocation(cache, a_pod())


@pytest.mark.parametrize("ids", [None, "GPU-n1-0,NVIDIA,10000,0:"])
def test_a_pod_that_is_bound_gets_nothing_more(cache: AllocationCache, ids: str | None) -> None:
    see(cache, bound(a_pod(), "n1", ids))

    refused = declined(cache, a_pod(), N2)

    assert refused.code is DeclineCode.BOUND
    assert "bound to n1 already" in refused.text


def test_a_pod_without_a_uid_cannot_be_told_from_others(cache: AllocationCache) -> None:
    pod = a_pod()
    pod["metadata"]["uid"] = ""

    assert declined(cache, pod).code is DeclineCode.REQUEST


def test_a_request_that_means_nothing_is_refused_with_its_reason(cache: AllocationCache) -> None:
    refused = declined(cache, a_pod(memory=-5))

    assert refused.code is DeclineCode.REQUEST
    assert "volcano.sh/vgpu-memory" in refused.text


# Nodes and their registers


def test_a_node_that_nobody_knows_takes_nothing(cache: AllocationCache) -> None:
    nowhere = NodeName("nowhere")

    refused = declined(cache, a_pod(), nowhere)

    assert (refused.code, refused.why) == (DeclineCode.NODE, None)
    assert "node nowhere is not known" in refused.text
    answer = cache.answer(nowhere, asking(a_pod()))
    assert not isinstance(answer, Fit)
    assert cache.why_not(nowhere, asking(a_pod()), answer) is None
    assert cache.entry(nowhere) is None


def test_a_node_without_a_register_takes_nothing(cache: AllocationCache) -> None:
    see_node(cache, {"metadata": {"name": "n1", "annotations": {}}})

    refused = declined(cache, a_pod())

    assert (refused.code, refused.refusal) == (DeclineCode.NODE, UNREGISTERED)


def test_a_node_with_half_a_register_says_why_it_takes_nothing(cache: AllocationCache) -> None:
    (problem,) = cache.see_node(objects.node_object(a_node("n1", "GPU-n1-0,10,409")))

    refused = declined(cache, a_pod())

    assert refused.code is DeclineCode.NODE
    assert problem.what in refused.text
    assert "volcano.sh/node-vgpu-register" in refused.text


def test_what_runs_on_a_node_with_half_a_register_counts_when_the_register_is_back(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:"))
    see_node(cache, a_node("n1", "GPU-n1-0,10,409"))
    entry = cache.entry(N1)
    assert entry is not None
    assert [share.device for record in entry.pods for share in record.strangers] == ["GPU-n1-0"]

    see_node(cache, a_node("n1"))

    assert free(cache) == 30_960


def test_a_reservation_on_a_card_that_left_the_node_is_made_anew(cache: AllocationCache) -> None:
    reserve(cache, a_pod())
    see_node(cache, a_node("n1", register("GPU-other")))

    said = allocation(cache, a_pod())

    assert (said.source, cards(said)) == (AllocationSource.PLACED, ["GPU-other"])


def test_a_reservation_on_a_card_that_fell_sick_is_made_anew(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    (card,) = cards(reserve(cache, a_pod()))
    (other,) = {"GPU-a", "GPU-b"} - {card}
    see_node(cache, a_node("n1", register(card, healthy=False) + register(other)))

    said = allocation(cache, a_pod())

    assert (said.source, cards(said)) == (AllocationSource.PLACED, [other])


def test_a_card_that_is_smaller_now_is_given_only_as_far_as_it_goes(cache: AllocationCache) -> None:
    reserve(cache, a_pod(memory=30_000))
    see_node(cache, a_node("n1", register("GPU-n1-0", memory=20_000)))

    assert declined(cache, a_pod(memory=30_000)).code is DeclineCode.CARDS


def test_a_pod_on_a_node_that_is_not_known_yet_counts_once_it_is(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n3", "GPU-n3-0,NVIDIA,10000,0:"))
    assert cache.entry(NodeName("n3")) is None

    see_node(cache, a_node("n3"))

    assert free(cache, NodeName("n3")) == 30_960


def test_pods_outlive_their_node_and_leave_nothing_behind(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,10000,0:"))
    cache.forget_node(N1)
    assert declined(cache, a_pod("q")).code is DeclineCode.NODE

    see_node(cache, a_node("n1"))
    assert free(cache) == 30_960

    cache.forget_node(N1)
    cache.forget_pod(PodUid("uid-p"), 0)
    cache.forget_node(N2)
    cache.forget_node(NodeName("n9"))
    assert cache.statistics() == Statistics(nodes=0, devices=0, holders=0, reservations=0, answered=0)


def test_sizes_are_told(cache: AllocationCache) -> None:
    see_node(cache, a_node("n1", register("GPU-a", "GPU-b")))
    see(cache, bound(a_pod("bound"), "n1", "GPU-a,NVIDIA,10000,0:"))
    reserve(cache, a_pod("reserved"))
    allocation(cache, a_pod("allocated"))

    assert cache.statistics() == Statistics(nodes=2, devices=3, holders=1, reservations=1, answered=1)


def test_a_thousand_questions_of_one_shape_are_one_decision(cache: AllocationCache) -> None:
    for at in range(1_000):
        cache.answer((N1, N2)[at % 2], asking(a_pod(f"p{at}")))

    assert cache.decider.statistics.misses == 1


def test_numbers_of_a_refusal_are_those_of_the_engine(cache: AllocationCache) -> None:
    intake: PodInfo = asking(a_pod(memory=50_000))
    answer = cache.answer(N1, intake)
    assert isinstance(answer, NoFit)

    why = cache.why_not(N1, intake, answer)

    assert why is not None
    assert (why.nodes, why.fitting) == (1, 0)


# What a scheduler asks again


def test_a_node_without_a_register_has_no_numbers_to_show(cache: AllocationCache) -> None:
    assert cache.why_not(N1, asking(a_pod()), UNREGISTERED) is None


def reserve_at(cache: AllocationCache, name: str, now: float, job: str) -> None:
    assert isinstance(cache.reserve(N1, asking(a_pod(name, memory=1_000)), now, job=job), PodAllocation)


def reserved(cache: AllocationCache) -> set[str]:
    """The pods that hold something on n1."""
    entry = cache.entry(N1)
    assert entry is not None
    return {record.uid.removeprefix("uid-") for record in entry.pods}


def test_a_pod_that_is_asked_about_again_gives_up_its_place_and_the_later_places_of_its_job(
    cache: AllocationCache,
) -> None:
    reserve_at(cache, "before", 1, "train")
    for name, job in (("first", "train"), ("at-once", "train"), ("stranger", "other"), ("alone", "")):
        reserve_at(cache, name, 2, job)
    reserve_at(cache, "later", 3, "train")

    cache.look_again(PodUid("uid-first"))

    assert reserved(cache) == {"before", "stranger", "alone"}


def test_a_pod_without_a_job_that_is_asked_about_again_gives_up_only_its_own_place(cache: AllocationCache) -> None:
    for name in ("first", "second"):
        reserve_at(cache, name, 1, "")

    cache.look_again(PodUid("uid-first"))

    assert reserved(cache) == {"second"}


def test_what_bindings_were_answered_with_stays_when_a_pod_of_the_job_is_asked_about_again(
    cache: AllocationCache,
) -> None:
    for name in ("first", "answered"):
        reserve_at(cache, name, 1, "train")
    allocation(cache, a_pod("answered", memory=1_000), now=1)
    reserve_at(cache, "answered", 1, "train")

    cache.look_again(PodUid("uid-answered"))
    assert reserved(cache) == {"first", "answered"}
    cache.look_again(PodUid("uid-first"))

    assert reserved(cache) == {"answered"}


# What is counted and remembered


def test_every_change_of_what_is_held_or_to_be_had_makes_the_number_of_changes_grow(cache: AllocationCache) -> None:
    known = [cache.changes]

    def changed() -> bool:
        known.append(cache.changes)
        return known[-1] > known[-2]

    see_node(cache, a_node("n3"))
    assert changed()
    reserve(cache, a_pod())
    assert changed()
    cache.release(PodUid("uid-p"))
    assert changed()
    see_node(cache, a_node("n3", register("GPU-new")))
    assert changed()
    cache.forget_node(NodeName("n3"))
    assert changed()


def test_a_reservation_that_is_released_leaves_what_a_binding_elsewhere_was_answered_with(
    cache: AllocationCache,
) -> None:
    allocation(cache, a_pod())
    reserve(cache, a_pod(), N2)

    assert cache.release(PodUid("uid-p"))

    assert [each.node for each in cache.assumptions(PodUid("uid-p"))] == ["n1"]
    assert (free(cache), free(cache, N2)) == (30_960, 40_960)


def test_a_pod_that_is_gone_is_forgotten_once_its_time_is_up_and_no_sooner() -> None:
    cache = AllocationCache(Decider(REGISTRY), keep=10)
    see_node(cache, a_node("n1"))
    cache.forget_pod(PodUid("uid-p"), 5)

    cache.expire(14)
    assert declined(cache, a_pod()).code is DeclineCode.GONE
    cache.expire(15)

    allocation(cache, a_pod())
