"""Grants of the real Volcano 1.14.1 put right in both modes, and what comes of the same without us.

The cases are those of ``peers.md`` 7.1 and 8.2. Nodes have no kubelet, so what counts is what the API server says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from signal import SIGKILL
from typing import Any, Final

import pytest

from tests.cluster.agents import CORES, Numbers
from tests.cluster.api import ApiError, Object
from tests.cluster.card_nodes import WHOLE, Card, Pool, devices
from tests.cluster.grants import MARKER, Grants
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import container, pod_spec, task, vcjob
from tests.cluster.slices import IDS, gpu, jobs, pods, volcano_pod
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

AT_ONCE: Final = 5
ROUNDS: Final = 4
MEMBERS: Final = 4
SMALL: Final = 4096
USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"


@pytest.fixture(scope="module", params=["ledger", "guard"])
def grants(volcano: Volcano, request: pytest.FixtureRequest) -> Iterator[Grants]:
    with Grants(volcano, request.param) as server:
        yield server


@pytest.fixture
def pool(control_plane: ControlPlane) -> Iterator[Pool]:
    with Pool(control_plane) as made:
        yield made


class Case:
    """One test's pods, on one pool of nodes."""

    def __init__(self, plane: ControlPlane, pool: Pool, namespace: str) -> None:
        self.plane, self.pool, self.namespace = plane, pool, namespace

    def submit(self, name: str, *containers: Object, **more: Any) -> None:
        """A pod; one card of 4096 MiB where no containers are given."""
        asked = containers or (gpu(memory=SMALL),)
        body = volcano_pod(name, *asked, nodeSelector=dict(self.pool.selector), **more)
        self.plane.api.create(pods(self.namespace), body)

    def submit_gang(self, name: str, *, memory: int, members: int = MEMBERS) -> None:
        spec = pod_spec(gpu(memory=memory), nodeSelector=dict(self.pool.selector), schedulerName="volcano")
        self.plane.api.create(jobs(self.namespace), vcjob(name, task("worker", members, spec)))

    def see(self, name: str) -> Object:
        return self.plane.api.get(f"{pods(self.namespace)}/{name}")

    def node_of(self, name: str) -> str:
        return str(self.see(name)["spec"].get("nodeName") or "")

    def granted(self, name: str) -> list[tuple[str, int, int]]:
        return devices(self.see(name)["metadata"].get("annotations", {}).get(IDS, ""))

    def told(self, name: str) -> str:
        """What the pod is told, in its conditions and its events."""
        conditions = self.see(name)["status"].get("conditions", [])
        texts = [str(each.get("message", "")) for each in conditions]
        return "\n".join([*texts, *self.plane.events(self.namespace, name)])

    def wait_bound(self, *names: str, timeout: float = 60.0) -> None:
        def story() -> str:
            return "\n".join(f"{name}: {self.node_of(name)} {self.told(name)}" for name in names)

        wait_until(lambda: all(map(self.node_of, names)), f"{names} are bound", timeout, show=story)

    def wait_told(self, name: str, text: str) -> str:
        def found() -> str:
            said = self.told(name)
            return said if text in said else ""

        return wait_until(found, f"{name} is told {text!r}", 60, show=lambda: self.told(name))

    def remove(self, name: str) -> None:
        self.plane.api.delete(f"{pods(self.namespace)}/{name}", grace=0)

    def members(self, job: str) -> list[Object]:
        every = self.plane.api.items(pods(self.namespace))
        return [each for each in every if each["metadata"].get("labels", {}).get("volcano.sh/job-name") == job]

    def placed(self, job: str) -> int:
        return sum(bool(each["spec"].get("nodeName")) for each in self.members(job))


@pytest.fixture
def case(control_plane: ControlPlane, pool: Pool, namespace: str) -> Case:
    return Case(control_plane, pool, namespace)


def submit_waiting(case: Case, name: str) -> None:
    """A gang of four for four cards, of which somebody holds one; seen to wait, and tried over several sessions."""
    case.submit(f"{name}-holder", gpu(memory=WHOLE))
    case.wait_bound(f"{name}-holder")
    case.submit_gang(name, memory=30000)
    wait_until(lambda: len(case.members(name)) == MEMBERS, "the gang's pods exist")
    wait_until(
        lambda: any(case.told(each["metadata"]["name"]) for each in case.members(name)),
        "Volcano has tried the gang",
        show=lambda: str(case.members(name)),
    )


def seconds_to_bound(gangs: Sequence[tuple[Case, str]], *, heal: bool) -> float:
    """Makes room for all the gangs at once, and waits until the last member is bound.

    ``heal`` changes the nodes every few seconds, without which Volcano's own ledger may never find the room.
    """
    assert [case.placed(name) for case, name in gangs] == [0] * len(gangs)
    for case, name in gangs:
        case.remove(f"{name}-holder")
    room = healed = time.monotonic()
    while any(case.placed(name) < MEMBERS for case, name in gangs):
        now = time.monotonic()
        assert now - room < 120, [
            case.told(each["metadata"]["name"]) for case, name in gangs for each in case.members(name)
        ]
        if heal and now - healed > 3:
            healed = now
            for case, _ in gangs:
                case.pool.touch()
        time.sleep(0.05)
    return time.monotonic() - room


def test_every_member_of_a_gang_that_had_to_wait_has_its_own_nodes_cards(
    grants: Grants, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    with ExitStack() as stack:
        pools = [stack.enter_context(Pool(control_plane)) for _ in range(AT_ONCE)]
        for pool in pools:
            pool.add(MEMBERS)
        most = 0.0
        for round_ in range(ROUNDS):
            gangs = [(Case(control_plane, pool, namespace), f"gang-{at}-{round_}") for at, pool in enumerate(pools)]
            for case, name in gangs:
                submit_waiting(case, name)
            most = max(most, seconds_to_bound(gangs, heal=grants.mode == "guard"))
            for pool in pools:
                assert not pool.faults()
                assert sorted(map(len, pool.by_card().values())) == [1] * MEMBERS
            control_plane.clear_namespace(namespace)
    what = f"gang that had to wait, room to bound, {grants.mode}, the longest of {AT_ONCE * ROUNDS}"
    numbers.add(what, f"{most:.1f} s", "<= 2 s" if grants.mode == "ledger" else "")


def test_a_scheduler_that_has_just_started_binds_nobody_without_cards(grants: Grants, case: Case, pool: Pool) -> None:
    """Without a node event Volcano 1.14.1 does not know of any card then."""
    pool.add(2)
    grants.volcano.scheduler.restart(SIGKILL)
    names = [f"p{at}" for at in range(9)]
    for name in names:
        case.submit(name)
    case.wait_bound(*names)
    assert not pool.faults()


def test_a_pod_that_fits_no_card_holds_nobody_back(grants: Grants, case: Case, pool: Pool) -> None:
    """In mode ``ledger`` it is told the numbers; in mode ``guard`` it is Volcano that says no, and never why.

    There is room for all three at Volcano's gate, where the first goes on counting.
    """
    pool.add(cards=4)
    case.submit("too-large", gpu(memory=WHOLE + 1))
    if grants.mode == "ledger":
        assert f"largest free {WHOLE:,}" in case.wait_told("too-large", f"asked {WHOLE + 1:,} MiB")
    for name in ("fits", "fits-too"):
        case.submit(name, gpu(memory=WHOLE))
    case.wait_bound("fits", "fits-too")
    assert not case.node_of("too-large")
    assert not pool.faults()


@pytest.mark.parametrize("pause", [0.5, 0.0], ids=["one by one", "at once"])
def test_ten_tenths_are_on_one_card(grants: Grants, case: Case, pool: Pool, pause: float) -> None:
    """Volcano alone puts five there (``peers.md`` fact 5)."""
    pool.add()
    names = [f"p{at}" for at in range(10)]
    for name in names:
        case.submit(name, gpu(memory=WHOLE // 10))
        time.sleep(pause)
    case.wait_bound(*names)
    assert not pool.faults()
    assert list(map(len, pool.by_card().values())) == [10]


def test_what_is_left_is_given_to_the_last_byte_and_no_more(grants: Grants, case: Case, pool: Pool) -> None:
    """There is room for both at Volcano's gate, which adds up what is left of all cards."""
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


def test_an_unhealthy_card_is_not_given(grants: Grants, case: Case, pool: Pool) -> None:
    (node,) = pool.add(cards=2)
    well, ill = pool.cards[node]
    pool.register(node, [well, replace(ill, healthy=False)])
    names = [f"p{at}" for at in range(3)]
    for name in names:
        case.submit(name)
    case.wait_bound(*names)
    assert {uuid for name in names for uuid, _, _ in case.granted(name)} == {well.uuid}


def test_lists_of_uuids_are_obeyed(grants: Grants, case: Case, pool: Pool) -> None:
    (node,) = pool.add(cards=3)
    wanted = pool.cards[node][1].uuid
    case.submit("chosen", annotations={USE_UUID: wanted})
    case.submit("nowhere", annotations={USE_UUID: "GPU-that-nobody-has"})
    case.wait_bound("chosen")
    assert [uuid for uuid, _, _ in case.granted("chosen")] == [wanted]
    time.sleep(1)
    assert not case.node_of("nowhere")


def test_cores_alone_get_a_card(grants: Grants, case: Case, pool: Pool) -> None:
    pool.add()
    case.submit("cores", container(limits={CORES: 30}))
    case.wait_bound("cores")
    assert [cores for _, _, cores in case.granted("cores")] == [30]


def test_a_node_without_a_register_brings_nobody_down(grants: Grants, case: Case, pool: Pool) -> None:
    if grants.mode == "guard":
        pytest.skip("in this mode Volcano reads the register itself, and 1.14.1 dies of it")
    pool.put(f"{pool.name}-bare", [Card("GPU-0")], annotations={})
    pid = grants.volcano.scheduler.pid
    case.submit("waits")
    case.wait_told("waits", "regist")
    pool.add()
    case.wait_bound("waits")
    assert grants.volcano.scheduler.running
    assert grants.volcano.scheduler.pid == pid
    assert not pool.faults()


def arrive(case: Case, total: int, pause: float) -> list[str]:
    """Pods one after another, each asked for until it is there."""
    names = [f"load-{at}" for at in range(total)]
    for name in names:
        wait_until(partial(_is_there, case, name), f"{name} is accepted")
        time.sleep(pause)
    return names


def _is_there(case: Case, name: str) -> bool:
    try:
        case.submit(name)
    except ApiError as error:
        if error.status != 409:
            raise
    return True


def under_load(case: Case, what: Callable[[], object]) -> list[str]:
    """Sixty pods arrive while something is done; their names."""
    done = threading.Thread(target=what)
    done.start()
    names = arrive(case, 60, 0.05)
    done.join()
    return names


def test_a_server_that_is_killed_under_load_loses_no_grant(grants: Grants, case: Case, pool: Pool) -> None:
    pool.add(2, cards=4)

    def kill_twice() -> None:
        for _ in range(2):
            time.sleep(0.7)
            grants.replicas[0].component.restart(SIGKILL)
            grants.wait_active()

    names = under_load(case, kill_twice)
    case.wait_bound(*names, timeout=120)
    assert not pool.faults()


def test_a_scheduler_that_is_killed_under_load_gets_no_card_given_twice(grants: Grants, case: Case, pool: Pool) -> None:
    pool.add(2, cards=4)
    names = under_load(case, lambda: grants.volcano.restart_scheduler(SIGKILL))
    case.wait_bound(*names, timeout=120)
    assert not pool.faults()


def test_an_api_server_that_goes_away_under_load_costs_nothing_but_time(
    grants: Grants, control_plane: ControlPlane, case: Case, pool: Pool
) -> None:
    pool.add(2, cards=4)
    names = under_load(case, control_plane.api_server.restart)
    case.wait_bound(*names, timeout=180)
    assert not pool.faults()


def test_bindings_that_fail_after_the_answer_hold_nothing_for_ever(
    grants: Grants, control_plane: ControlPlane, case: Case, pool: Pool, namespace: str
) -> None:
    """Wrong UID, a scheduling gate, bound already: nobody tells the server, so what it promised ends by time."""
    (node,) = pool.add()
    gated = {"schedulingGates": [{"name": "test/gate"}]}
    case.submit("gated", gpu(memory=WHOLE), **gated)
    marked = case.see("gated")["metadata"].get("annotations", {})
    assert MARKER in marked
    for uid in ("", "00000000-0000-0000-0000-000000000000"):
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "gated", "namespace": namespace, "annotations": marked}
            | ({"uid": uid} if uid else {}),
            "target": {"kind": "Node", "name": node},
        }
        with pytest.raises(ApiError) as refused:
            control_plane.api.create(f"{pods(namespace)}/gated/binding", body)
        assert refused.value.status in {403, 404, 409}, refused.value.body
    case.submit("next", gpu(memory=WHOLE))
    case.wait_bound("next", timeout=120)
    assert not pool.faults()
