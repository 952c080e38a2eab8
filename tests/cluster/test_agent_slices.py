"""Each container has exactly the slice that Volcano allocated to it: on a real kubelet, under a real Volcano."""

from __future__ import annotations

from typing import Final

from tests.cluster.agents import CallTimes, NodeAgent, Numbers, uuid
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod_spec, task, vcjob
from tests.cluster.slices import (
    LEFT,
    PHASE,
    allocated,
    amiss,
    gpu,
    jobs,
    plain,
    pods,
    rejected,
    said,
    served,
    settled,
    volcano_pod,
    wait_refused,
)
from tests.cluster.soak import BURST, swapped
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

PODS: Final = 200


def test_a_container_has_the_slice_that_volcano_allocated(
    agent: NodeAgent, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    control_plane.api.create(jobs(namespace), vcjob("one", task("worker", 1, pod_spec(gpu(memory=4096, cores=30)))))
    found = control_plane.wait_for_pod(namespace, "one-worker-0", "Running")
    ((card, memory, cores),) = allocated(found)["main"]
    assert (card in map(uuid, range(1, 7)), memory, cores) == (True, "4096", "30")
    assert not amiss(control_plane, found)
    volcano.wait_for_job(namespace, "one", "Running")


def test_every_pod_of_a_gang_of_two_tasks_has_its_own_slice(
    agent: NodeAgent, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    tasks = (task("chief", 1, pod_spec(gpu(memory=8000))), task("worker", 4, pod_spec(gpu(memory=4000, cores=10))))
    control_plane.api.create(jobs(namespace), vcjob("gang", *tasks))
    volcano.wait_for_job(namespace, "gang", "Running", timeout=90)
    names = ["gang-chief-0", *(f"gang-worker-{at}" for at in range(4))]
    found = settled(control_plane, namespace, names)
    assert not [problem for each in found for problem in amiss(control_plane, each)]


def test_volcano_is_told_that_the_slice_was_handed_over(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), volcano_pod("told", gpu("first"), gpu("second")))

    def annotations() -> Object:
        return dict(control_plane.api.get(f"{pods(namespace)}/told")["metadata"]["annotations"])

    wait_until(lambda: annotations().get(PHASE) == "success", "Volcano is told", 60)
    told = annotations()
    assert told[LEFT].strip(";") == ""
    assert told["volcano.sh/vgpu-time"] == "18446744073709551615"


def test_each_container_of_a_pod_has_its_own_slice(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("pair", gpu("first", memory=1000), plain("none"), gpu("third", number=2, memory=3000, cores=20))
    control_plane.api.create(pods(namespace), body)
    found = control_plane.wait_for_pod(namespace, "pair", "Running")
    assert {name: len(devices) for name, devices in allocated(found).items()} == {"first": 1, "third": 2}
    assert not amiss(control_plane, found)
    assert not said(control_plane, namespace, "pair", "none").slice


def test_an_init_container_has_the_slice_of_the_container_that_it_prepares(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("prepared", gpu(memory=2000), init=[gpu("prepare", memory=1500, then="exit 0")])
    control_plane.api.create(pods(namespace), body)
    found = control_plane.wait_for_pod(namespace, "prepared", "Running")
    assert not amiss(control_plane, found, lent={"prepare": "main"})


def test_an_init_container_that_asks_for_more_is_refused_with_the_reason(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("greedy", gpu(memory=2000), init=[gpu("prepare", memory=3000, then="exit 0")])
    control_plane.api.create(pods(namespace), body)
    text = wait_refused(control_plane, namespace, "greedy", "asks for more than the slice of container main")
    assert "2000 of memory" in text


def test_a_sidecar_that_asks_is_refused_with_what_to_write_instead(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("beside", gpu(memory=2000), init=[gpu("sidecar", memory=500, restartPolicy="Always")])
    control_plane.api.create(pods(namespace), body)
    wait_refused(control_plane, namespace, "beside", "Make it an ordinary container")


def test_a_sidecar_that_asks_for_nothing_disturbs_nobody(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("logged", gpu(memory=2000), init=[plain("sidecar", restartPolicy="Always")])
    control_plane.api.create(pods(namespace), body)
    found = control_plane.wait_for_pod(namespace, "logged", "Running")
    assert not amiss(control_plane, found)
    assert not said(control_plane, namespace, "logged", "sidecar").slice


def test_a_container_that_restarts_has_the_same_slice_again(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("again", gpu(memory=2000, then="sleep 1; exit 1"), restart="Always")
    control_plane.api.create(pods(namespace), body)

    def restarted() -> Object | None:
        found = control_plane.api.get(f"{pods(namespace)}/again")
        return found if found["status"]["containerStatuses"][0]["restartCount"] else None

    found = wait_until(restarted, "the container has restarted", 90)
    assert found is not None
    assert not amiss(control_plane, found)


def test_fifty_pods_of_one_shape_at_once_each_have_their_own(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    bodies = [volcano_pod(f"p{at}", gpu(memory=1000 + at)) for at in range(50)]
    found, anew = served(control_plane, namespace, bodies, timeout=240)
    numbers.add("pods of 50 at once that Volcano bound without a card: refused, and made anew", str(anew), "-")
    assert not [rejected(each) for each in found if rejected(each)]
    assert not [problem for each in found for problem in amiss(control_plane, each)]


def test_no_slice_is_swapped_in_bursts_of_ten(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    """While a burst starts, the one before it is going."""
    times, requests = CallTimes(agent), agent.metric("api_requests_total")
    problems, refused = swapped(agent, namespace, PODS)
    each = (agent.metric("api_requests_total") - requests) / PODS
    median, most = times.quantile(0.5), times.quantile(0.99)
    numbers.add(f"slices swapped among {PODS} pods in bursts of {BURST}", str(len(problems)), "0")
    numbers.add("of them bound by Volcano without a card: refused, and made anew", str(refused), "-")
    numbers.add("Allocate + PreStartContainer p50 / p99", f"<= {median * 1e3:g} / {most * 1e3:g} ms", "p99 <= 20 ms")
    numbers.add("API requests of the agent per started container", f"{each:.2f}", "<= 3")
    assert not problems
    assert each <= 3


def test_pods_of_two_namespaces_with_the_same_names_each_have_their_own(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    other = f"{namespace}-twin"
    control_plane.create_namespace(other)
    names = [f"same-{at}" for at in range(5)]
    try:
        for at, name in enumerate(names):
            for where, memory in ((namespace, 1000 + at), (other, 2000 + at)):
                control_plane.api.create(pods(where), volcano_pod(name, gpu(memory=memory)))
        for where in (namespace, other):
            assert not [
                problem for each in settled(control_plane, where, names) for problem in amiss(control_plane, each)
            ]
    finally:
        control_plane.clear_namespace(other)
        control_plane.api.delete(f"/api/v1/namespaces/{other}")


def test_a_pod_that_is_made_again_under_its_name_has_its_new_slice(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    for memory in (1111, 2222, 3333):
        control_plane.api.create(pods(namespace), volcano_pod("phoenix", gpu(memory=memory)))
        found = control_plane.wait_for_pod(namespace, "phoenix", "Running")
        assert allocated(found)["main"][0][1] == str(memory)
        assert not amiss(control_plane, found)
        control_plane.api.delete(f"{pods(namespace)}/phoenix", grace=0)


def test_pods_that_are_deleted_while_they_start_take_no_slice_along(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """Each pod is deleted a little later than the one before it; those that stay are right, and all slots come back."""
    doomed, kept = [f"doomed-{at}" for at in range(10)], [f"kept-{at}" for at in range(10)]
    for at, (first, second) in enumerate(zip(doomed, kept, strict=True)):
        for name in (first, second):
            control_plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=1000 + at)))
        if at:
            control_plane.api.delete(f"{pods(namespace)}/{doomed[at - 1]}")
    control_plane.api.delete(f"{pods(namespace)}/{doomed[-1]}")
    found = settled(control_plane, namespace, kept)
    assert not [problem for each in found for problem in (rejected(each), *amiss(control_plane, each)) if problem]
    full = [f"full-{at}" for at in range(50)]
    for name in full:
        control_plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=1000)))
    found = settled(control_plane, namespace, full, timeout=240)
    assert not [problem for each in found for problem in (rejected(each), *amiss(control_plane, each)) if problem]
