"""Allocations of the real Volcano 1.14.1 put right in both modes, and what comes of the same without us.

The cases are those of ``trials.md`` V14 and V19. Nodes have no kubelet, so what counts is what the API server says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from signal import SIGKILL
from typing import Final

import pytest

from tests.cluster.agents import CORES, Numbers
from tests.cluster.allocator import MARKER, Allocator
from tests.cluster.api import ApiError
from tests.cluster.card_nodes import WHOLE, Card, Pool
from tests.cluster.cases import MEMBERS, Case, seconds_to_bound, submit_waiting, under_load
from tests.cluster.churn import Churn, kills
from tests.cluster.holding import Holding
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import binding, container
from tests.cluster.slices import gpu, pods
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

AT_ONCE: Final = 5
ROUNDS: Final = 4
USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
PROMISED: Final = "hami_allocator_assumptions"
EXPIRED: Final = "hami_allocator_assumptions_expired_total"


@pytest.fixture(scope="module", params=["extender", "webhook"])
def allocator(volcano: Volcano, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    with Allocator(volcano, request.param) as server:
        yield server


@pytest.fixture
def pool(control_plane: ControlPlane) -> Iterator[Pool]:
    with Pool(control_plane) as made:
        yield made


@pytest.fixture
def case(control_plane: ControlPlane, pool: Pool, namespace: str) -> Case:
    return Case(control_plane, pool, namespace)


def expired_so_far(allocator: Allocator) -> float:
    """How many promises have ended by time, once there is none left of what was killed before."""
    replica = allocator.replicas[0]
    wait_until(lambda: not replica.metric(PROMISED), "nothing is promised", 120)
    return replica.metric(EXPIRED)


def test_every_member_of_a_gang_that_had_to_wait_has_its_own_nodes_cards(
    allocator: Allocator, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    with ExitStack() as stack:
        pools = [stack.enter_context(Pool(control_plane)) for _ in range(AT_ONCE)]
        for pool in pools:
            pool.add(MEMBERS)
        ended = expired_so_far(allocator)
        most = 0.0
        for round_ in range(ROUNDS):
            gangs = [(Case(control_plane, pool, namespace), f"gang-{at}-{round_}") for at, pool in enumerate(pools)]
            for case, name in gangs:
                submit_waiting(case, name)
            most = max(most, seconds_to_bound(gangs, heal=allocator.mode == "webhook"))
            for pool in pools:
                assert not pool.faults()
                assert sorted(map(len, pool.by_card().values())) == [1] * MEMBERS
            control_plane.clear_namespace(namespace)
    if allocator.mode == "extender":
        # Of a session that Volcano leaves without giving back, the next one finds nothing in its way.
        assert allocator.replicas[0].metric(EXPIRED) == ended
    what = f"gang that had to wait, room to bound, {allocator.mode}, the longest of {AT_ONCE * ROUNDS}"
    numbers.add(what, f"{most:.1f} s", "<= 2 s" if allocator.mode == "extender" else "")


def test_a_gang_that_waits_for_a_pod_that_is_ending_is_bound_when_that_has_ended(
    allocator: Allocator, case: Case, pool: Pool, control_plane: ControlPlane, numbers: Numbers
) -> None:
    """Its cards are not anybody's before, and no reservation of the sessions meanwhile has to end by time."""
    pool.add(MEMBERS)
    ended = expired_so_far(allocator)
    submit_waiting(case, "gang")
    holder = f"{pods(case.namespace)}/gang-holder"
    control_plane.api.delete(holder, grace=600)
    try:
        assert control_plane.api.get(holder)["metadata"]["deletionTimestamp"]
        time.sleep(3)  # a dozen sessions
        took = seconds_to_bound([(case, "gang")], heal=allocator.mode == "webhook")
    finally:
        case.remove("gang-holder")  # no other process ends it
    assert not pool.faults()
    if allocator.mode == "extender":
        assert allocator.replicas[0].metric(EXPIRED) == ended
    what = f"gang that waited for a pod that was ending, from its end to bound, {allocator.mode}"
    numbers.add(what, f"{took:.1f} s", "<= 2 s" if allocator.mode == "extender" else "")


def test_a_scheduler_that_has_just_started_binds_nobody_without_cards(
    allocator: Allocator, case: Case, pool: Pool
) -> None:
    """Without a node event Volcano 1.14.1 does not know of any card then."""
    pool.add(2)
    allocator.volcano.scheduler.restart(SIGKILL)
    names = [f"p{at}" for at in range(9)]
    for name in names:
        case.submit(name)
    case.wait_bound(*names)
    assert not pool.faults()


def test_a_pod_that_fits_no_card_holds_nobody_back(allocator: Allocator, case: Case, pool: Pool) -> None:
    """In mode ``extender`` the pod's message has the numbers; in mode ``webhook`` Volcano refuses it without a reason.

    Enqueue admission has room for all three, and the first goes on counting there.
    """
    pool.add(cards=4)
    case.submit("too-large", gpu(memory=WHOLE + 1))
    if allocator.mode == "extender":
        assert f"largest free {WHOLE:,}" in case.wait_told("too-large", f"asked {WHOLE + 1:,} MiB")
    for name in ("fits", "fits-too"):
        case.submit(name, gpu(memory=WHOLE))
    case.wait_bound("fits", "fits-too")
    assert not case.node_of("too-large")
    assert not pool.faults()


@pytest.mark.parametrize("pause", [0.5, 0.0], ids=["one by one", "at once"])
def test_ten_tenths_are_on_one_card(allocator: Allocator, case: Case, pool: Pool, pause: float) -> None:
    """Volcano alone puts five there (``trials.md`` V4)."""
    pool.add()
    names = [f"p{at}" for at in range(10)]
    for name in names:
        case.submit(name, gpu(memory=WHOLE // 10))
        time.sleep(pause)
    case.wait_bound(*names)
    assert not pool.faults()
    assert list(map(len, pool.by_card().values())) == [10]


def test_what_is_left_is_given_to_the_last_byte_and_no_more(allocator: Allocator, case: Case, pool: Pool) -> None:
    """Enqueue admission has room for both, because it adds up the free parts of all cards."""
    pool.add(3)
    for name in ("a", "b", "c"):
        case.submit(name, gpu(memory=30000))
    case.wait_bound("a", "b", "c")
    case.submit("one-more", gpu(memory=WHOLE - 30000 + 1))
    case.submit("exact", gpu(memory=WHOLE - 30000))
    case.wait_bound("exact")
    time.sleep(1)
    assert not case.node_of("one-more")
    assert not pool.faults()


def test_an_unhealthy_card_is_not_given(allocator: Allocator, case: Case, pool: Pool) -> None:
    (node,) = pool.add(cards=2)
    well, ill = pool.cards[node]
    pool.register(node, [well, replace(ill, healthy=False)])
    names = [f"p{at}" for at in range(3)]
    for name in names:
        case.submit(name)
    case.wait_bound(*names)
    assert {uuid for name in names for uuid, _, _ in case.allocated(name)} == {well.uuid}


def test_lists_of_uuids_are_obeyed(allocator: Allocator, case: Case, pool: Pool) -> None:
    (node,) = pool.add(cards=3)
    wanted = pool.cards[node][1].uuid
    case.submit("chosen", annotations={USE_UUID: wanted})
    case.submit("nowhere", annotations={USE_UUID: "GPU-that-nobody-has"})
    case.wait_bound("chosen")
    assert [uuid for uuid, _, _ in case.allocated("chosen")] == [wanted]
    time.sleep(1)
    assert not case.node_of("nowhere")


def test_cores_alone_get_a_card(allocator: Allocator, case: Case, pool: Pool) -> None:
    pool.add()
    case.submit("cores", container(limits={CORES: 30}))
    case.wait_bound("cores")
    assert [cores for _, _, cores in case.allocated("cores")] == [30]


@pytest.mark.parametrize("allocator", ["extender"], indirect=True)
def test_a_node_without_a_register_brings_nobody_down(allocator: Allocator, case: Case, pool: Pool) -> None:
    pool.put(f"{pool.name}-bare", [Card("GPU-0")], annotations={})
    pid = allocator.volcano.scheduler.pid
    case.submit("waits")
    case.wait_told("waits", "regist")
    pool.add()
    case.wait_bound("waits")
    assert allocator.volcano.scheduler.running
    assert allocator.volcano.scheduler.pid == pid
    assert not pool.faults()


@pytest.mark.parametrize("allocator", ["webhook"], indirect=True)
def test_where_volcano_reads_the_register_itself_a_node_without_one_ends_the_scheduler(
    allocator: Allocator, case: Case, pool: Pool
) -> None:
    """As the table in the product's README says; when the register is there, what was waiting is bound."""
    (node,) = pool.add()
    pool.put(node_without := f"{pool.name}-bare", [Card("GPU-0")], annotations={})
    case.submit("ends-it", nodeSelector={"kubernetes.io/hostname": node_without})
    wait_until(lambda: not allocator.volcano.scheduler.running, "the scheduler has died", 60)
    case.remove("ends-it")
    pool.register(node_without, [Card("GPU-of-the-late-register")])
    allocator.volcano.scheduler.start()
    case.submit("next", nodeSelector={"kubernetes.io/hostname": node})
    case.wait_bound("next")
    assert not pool.faults()


def test_an_init_container_that_needs_more_than_the_app_counts(allocator: Allocator, case: Case, pool: Pool) -> None:
    """Volcano looks at the app alone, so in mode ``webhook`` its node may be the wrong one, which is then refused."""
    small, large = f"{pool.name}-small", f"{pool.name}-large"
    pool.put(small, [Card("GPU-small", memory=20480)])
    pool.put(large, [Card(f"GPU-large-{at}") for at in range(4)])
    case.submit("huge", init=[gpu("prepare", memory=60000, then="true")])
    told = "asked 60,000 MiB" if allocator.mode == "extender" else "denied the request"
    case.wait_told("huge", told)
    assert not case.node_of("huge")
    case.remove("huge")
    if allocator.mode == "extender":
        case.submit("fits", init=[gpu("prepare", memory=30000, then="true")])
        case.wait_bound("fits")
        assert case.node_of("fits") == large


def test_a_server_that_is_killed_under_load_loses_no_allocation(allocator: Allocator, case: Case, pool: Pool) -> None:
    pool.add(2, cards=4)

    def kill_twice() -> None:
        for _ in range(2):
            time.sleep(0.7)
            allocator.replicas[0].component.restart(SIGKILL)
            allocator.wait_active()

    names = under_load(case, kill_twice)
    case.wait_bound(*names, timeout=120)
    assert not pool.faults()


def test_a_scheduler_that_is_killed_under_load_gets_no_card_given_twice(
    allocator: Allocator, case: Case, pool: Pool
) -> None:
    pool.add(2, cards=4)
    names = under_load(case, lambda: allocator.volcano.restart_scheduler(SIGKILL))
    case.wait_bound(*names, timeout=120)
    assert not pool.faults()


def test_an_api_server_that_goes_away_under_load_costs_nothing_but_time(
    allocator: Allocator, control_plane: ControlPlane, case: Case, pool: Pool
) -> None:
    pool.add(2, cards=4)
    names = under_load(case, control_plane.api_server.restart)
    case.wait_bound(*names, timeout=180)
    assert not pool.faults()


def test_bindings_that_fail_after_the_answer_hold_nothing_for_ever(
    allocator: Allocator, control_plane: ControlPlane, case: Case, pool: Pool, namespace: str
) -> None:
    """Wrong UID, a scheduling gate, bound already: the server is not notified, so its reservation expires."""
    (node,) = pool.add()
    gated = {"schedulingGates": [{"name": "test/gate"}]}
    case.submit("gated", gpu(memory=WHOLE), **gated)
    marked = case.see("gated")["metadata"].get("annotations", {})
    assert MARKER in marked
    for uid in ("", "00000000-0000-0000-0000-000000000000"):
        body = binding("gated", node, annotations=marked, uid=uid)
        with pytest.raises(ApiError) as refused:
            control_plane.api.create(f"{pods(namespace)}/gated/binding", body)
        assert refused.value.status in {403, 404, 409}, refused.value.body
    case.submit("next", gpu(memory=WHOLE))
    case.wait_bound("next", timeout=120)
    with pytest.raises(ApiError) as refused:
        control_plane.api.create(f"{pods(namespace)}/next/binding", binding("next", node))
    assert refused.value.status == 409, refused.value.body
    assert not pool.faults()


def test_a_pod_that_is_deleted_between_the_answer_and_the_binding_holds_nothing(
    allocator: Allocator, control_plane: ControlPlane, case: Case, pool: Pool, namespace: str
) -> None:
    """The watch shows its end; nothing has to expire."""
    pool.add()
    ended = allocator.replicas[0].metric(EXPIRED)
    with Holding(control_plane, namespace) as holding:
        case.submit("short-lived", gpu(memory=WHOLE))
        wait_until(holding.came.is_set, "its Binding waits", 30)
        assert allocator.replicas[0].metric(PROMISED, state="answered") == 1
        case.remove("short-lived")
        holding.let_go()
        wait_until(lambda: not allocator.replicas[0].metric(PROMISED), "nothing is promised", 30)
    case.submit("next", gpu(memory=WHOLE))
    case.wait_bound("next")
    assert allocator.replicas[0].metric(EXPIRED) == ended
    assert not pool.faults()


def test_whoever_is_killed_no_card_is_given_twice(
    allocator: Allocator, case: Case, pool: Pool, numbers: Numbers
) -> None:
    """The pods are marked by their templates, because the webhook does not see those that are created while it is down.

    Volcano keeps devices of pods that it could not bind until their node changes. Only an extender overrules its cache,
    so in mode ``webhook`` the nodes are written now and then. The long form is
    ``make pace ARGS='binds-extender binds-webhook binds-none'``.
    """
    pool.add(4, cards=2)
    case.annotations = {MARKER: allocator.mode}
    heal = allocator.mode == "webhook"
    tally = Churn(case, pool, acts=kills(allocator), every=25, seed=6, heal=heal).run(100)
    assert not tally.faults, tally.faults
    numbers.add(f"wrong allocations among {len(tally.bound)} under {tally.acts} restarts, {allocator.mode}", "0", "0")
