"""Neuron devices from one cache on the real Volcano 1.14.1 and the real kube-scheduler.

Nodes have no kubelet, so what counts is what the API server says: AWS's plugin reads nothing else.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import pytest
import yaml

from hami_plugins.vendors.awsneuron import IDS_KEY, STATE_KEY, TIME_KEY
from hami_plugins.wire import quantity
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY
from neuron_topology.core.names import CORES, EFA
from neuron_topology.core.nodes import HEALTH_KEY
from tests.cluster.agents import Numbers
from tests.cluster.allocator import HOOKS, NAME, command
from tests.cluster.card_nodes import NODES
from tests.cluster.dry_runs import as_they_are, patched
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import (
    KUBE_SCHEDULER,
    PRODUCT,
    Machines,
    NeuronAllocator,
    Submissions,
    ids_of,
)
from tests.cluster.objects import container, pod, pod_spec, queue, task, vcjob
from tests.cluster.slices import jobs, pods
from tests.cluster.volcano import QUEUES, Volcano, open_queue
from tests.cluster.waiting import wait_until

BUILTIN: Final = Path("tests/golden/torchx/1-bert-ddp-2x-trn1.32xlarge-builtin-0.7.0.yaml")
BLUEPRINT: Final = Path("tests/golden/torchx/5-blueprint-bert-2x-trn1.32xlarge-0.7.0.yaml")
FOREIGN: Final = "k8s.ovn.org/pod-networks"
PODS_A_KILL: Final = 4


@pytest.fixture(scope="module")
def allocator(volcano: Volcano) -> Iterator[NeuronAllocator]:
    with NeuronAllocator(volcano) as server:
        yield server


@pytest.fixture
def machines(control_plane: ControlPlane) -> Iterator[Machines]:
    made = Machines(control_plane)
    with made:
        yield made


@pytest.fixture
def submitted(control_plane: ControlPlane, machines: Machines, namespace: str) -> Submissions:
    return Submissions(control_plane, machines, namespace)


@pytest.mark.usefixtures("allocator")
def test_pods_of_both_schedulers_get_their_devices_in_the_write_that_sets_their_node(
    machines: Machines, submitted: Submissions
) -> None:
    machines.boot(2)
    for at in range(8):
        submitted.pod(f"p{at}", scheduler=KUBE_SCHEDULER if at % 2 else "volcano")
    bound = submitted.wait_bound("p", 8)
    assert not machines.faults()
    assert not machines.unlinked()
    for each in bound:
        notes = each["metadata"]["annotations"]
        assert (notes[STATE_KEY], notes[TIME_KEY].isdecimal()) == ("false", True)
    submitted.pod("late")
    submitted.pod("later", scheduler=KUBE_SCHEDULER)
    for name in ("late", "later"):
        submitted.wait_told(name, "aws.amazon.com/neuron")


@pytest.mark.usefixtures("allocator")
def test_what_somebody_else_writes_on_a_pod_while_it_is_bound_stays(
    machines: Machines, submitted: Submissions, control_plane: ControlPlane
) -> None:
    """The race in which AWS's extension loses the networks of pods: it writes all annotations that it has read."""
    machines.boot(4)
    written: dict[str, list[str]] = {f"p{at}": [] for at in range(32)}
    ended = threading.Event()

    def annotate() -> None:
        """Another controller, which writes something else each time: what is lost once does not come again."""
        turn = 0
        while not ended.is_set():
            turn += 1
            for name, known in written.items():
                path = f"{pods(submitted.namespace)}/{name}"
                if control_plane.api.find(path) is not None:
                    key = f"{FOREIGN}-{turn}"
                    control_plane.api.merge_patch(path, {"metadata": {"annotations": {key: "written"}}})
                    known.append(key)

    thread = threading.Thread(target=annotate)
    thread.start()
    try:
        for at, name in enumerate(written):
            submitted.pod(name, 2, scheduler=KUBE_SCHEDULER if at % 2 else "volcano")
        submitted.wait_bound("p", len(written), 120)
    finally:
        ended.set()
        thread.join()
    kept = {each["metadata"]["name"]: each["metadata"]["annotations"].keys() for each in submitted.members("p")}
    lost = {name: [key for key in keys if key not in kept[name]] for name, keys in written.items()}
    assert all(written.values())
    assert not any(lost.values()), lost
    assert not machines.faults()


def blueprint(machines: Machines) -> Any:
    """The Trainium blueprint's training job, patched, for these machines."""
    text = command("patch", "-f", str(BLUEPRINT), "--tier", "none", product=PRODUCT)
    (job,) = (each for each in yaml.safe_load_all(text) if each)
    for each in job["spec"]["tasks"]:
        spec = each["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 0  # no kubelet would end them
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **machines.selector}
        claims = {volume["name"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume}
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in claims]
        for one in spec["containers"]:
            one["volumeMounts"] = [each for each in one["volumeMounts"] if each["name"] not in claims]
    return job


@pytest.mark.usefixtures("allocator")
def test_the_job_of_the_blueprint_gets_two_whole_machines(
    machines: Machines, submitted: Submissions, control_plane: ControlPlane
) -> None:
    machines.boot(2)
    open_queue(control_plane, "test")
    job = blueprint(machines)
    control_plane.api.create(jobs(submitted.namespace), job)
    bound = submitted.wait_bound(job["metadata"]["name"], 2)
    assert sorted(each["spec"]["nodeName"] for each in bound) == sorted(machines.cards)
    assert all(sorted(ids_of(each)) == list(range(16)) for each in bound)
    assert bound[0]["spec"]["containers"][0]["resources"]["limits"][EFA] == "8"


@pytest.mark.usefixtures("allocator")
def test_a_gang_of_eight_parts_of_four_machines_is_on_linked_sets(
    machines: Machines, submitted: Submissions, numbers: Numbers
) -> None:
    """Each machine has room for two of them and no more: the others' pods are on it."""
    names = machines.boot(4)
    for at, node in enumerate(names):
        submitted.pod(f"busy-{at}", 8, nodeSelector={"kubernetes.io/hostname": node})
    submitted.wait_bound("busy", 4)
    submitted.gang("train", 8, 4)
    bound = submitted.wait_bound("train", 8)
    assert not machines.faults()
    assert not machines.unlinked()
    sets = {(each["spec"]["nodeName"], tuple(sorted(ids_of(each)))) for each in bound}
    assert [len({own for node, own in sets if node == name}) for name in names] == [2] * 4
    different = {own for _, own in sets}
    numbers.add("eight parts of four machines: different sets of devices", str(len(different)), "2")
    assert len(different) == 2


@pytest.mark.usefixtures("allocator")
def test_a_gang_for_which_there_are_not_enough_sets_waits_with_the_reason(
    machines: Machines, submitted: Submissions
) -> None:
    """Added up there are enough devices for all of it, so that everything but the extender would let it go."""
    free, *others = machines.boot(3)
    for at, node in enumerate(others):
        submitted.pod(f"busy-{at}", 2, node=node, annotations={IDS_KEY: "0,10"})
    submitted.gang("train", 3, 8)
    submitted.wait_told("train", "Neuron no linked set of 8 among the 14 devices that are free")
    submitted.wait_told("train", "Neuron: the job has to start together: 3 of its pods have no devices yet")
    assert not any(each["spec"].get("nodeName") for each in submitted.members("train"))
    submitted.pod("next", 16)
    (bound,) = submitted.wait_bound("next", 1)
    assert bound["spec"]["nodeName"] == free
    assert not machines.faults()


@pytest.mark.usefixtures("allocator")
def test_a_gang_for_cores_waits_until_all_of_it_has_room_and_gets_the_same_cores_everywhere(
    machines: Machines, submitted: Submissions
) -> None:
    """Volcano counts cores and devices separately, so it would start the gang next to pods with devices."""
    first, other = machines.boot(2)
    submitted.pod("busy", 2, node=other, annotations={IDS_KEY: "0,10"})
    submitted.gang("train", 2, 32, resource=CORES)
    submitted.wait_told(
        "train", "2 of its pods have no devices yet (they ask for 2 x 32 cores), and room is left for 1"
    )
    assert not any(each["spec"].get("nodeName") for each in submitted.members("train"))
    (third,) = machines.boot()
    bound = submitted.wait_bound("train", 2, 120)
    assert {each["spec"]["nodeName"] for each in bound} == {first, third}
    assert all(sorted(ids_of(each)) == list(range(32)) for each in bound)


@pytest.mark.usefixtures("allocator")
def test_a_job_that_outlives_a_capacity_block_waits_with_the_reason_until_there_is_another_machine(
    machines: Machines, submitted: Submissions
) -> None:
    """Volcano's controller writes the annotations of a job on its PodGroup, and there the server reads them."""
    (block,) = machines.boot(1, **{END_KEY: f"{int(time.time()) + 4 * 3600}"})
    submitted.gang("long", 2, 4, annotations={DURATION_KEY: "8h"})
    submitted.gang("brief", 2, 4, annotations={DURATION_KEY: "2h"})
    assert {each["spec"]["nodeName"] for each in submitted.wait_bound("brief", 2)} == {block}
    submitted.wait_told("long", "the pod's declared duration is 8.0 h")
    (own,) = machines.boot()
    assert {each["spec"]["nodeName"] for each in submitted.wait_bound("long", 2, 120)} == {own}
    assert not machines.faults()


@pytest.mark.usefixtures("allocator")
def test_a_machine_that_is_reported_broken_takes_no_pods_until_somebody_says_which_device_it_is(
    machines: Machines, submitted: Submissions, control_plane: ControlPlane
) -> None:
    (node,) = machines.boot()
    error = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_HBM_UNCORRECTABLE_ERROR"}
    path = f"{NODES}/{node}"
    ready = control_plane.api.get(path)["status"]["conditions"]
    control_plane.api.merge_patch(f"{path}/status", {"status": {"conditions": [*ready, error]}})
    for scheduler in ("volcano", KUBE_SCHEDULER):
        submitted.pod(f"p-{scheduler}", scheduler=scheduler)
        submitted.wait_told(f"p-{scheduler}", "the node's condition NeuronHealth is True")
    control_plane.api.merge_patch(path, {"metadata": {"annotations": {HEALTH_KEY: '{"devices": [0]}'}}})
    bound = submitted.wait_bound("p", 2, 120)
    assert not any(0 in ids_of(each) for each in bound)
    assert not machines.faults()


@pytest.fixture
def job_webhook(allocator: NeuronAllocator, control_plane: ControlPlane) -> Iterator[None]:
    """The webhook for jobs, in addition to the others."""
    path = f"{HOOKS}/{NAME}"
    others = control_plane.api.get(path)["webhooks"]
    url = f"https://127.0.0.1:{allocator.replica.hook_port}"
    printed = yaml.safe_load(command("webhooks", "--jobs", "--url", url))
    (hook,) = (each for each in printed["webhooks"] if each["name"].startswith("jobs."))
    trusted = {**hook["clientConfig"], "caBundle": others[0]["clientConfig"]["caBundle"]}
    control_plane.api.merge_patch(path, {"webhooks": [*others, {**hook, "clientConfig": trusted}]})
    try:
        yield
    finally:
        control_plane.api.merge_patch(path, {"webhooks": others})


def amounts(one: Any) -> dict[tuple[str, str], int]:
    """A container's resources however they are spelled: the API server writes some amounts shorter."""
    resources = one["resources"]
    return {
        (kind, name): quantity.parse(text, key=name).nano
        for kind, held in resources.items()
        for name, text in held.items()
    }


@pytest.mark.usefixtures("job_webhook")
def test_a_job_of_torchx_is_made_as_the_command_patches_it_and_one_for_no_devices_as_it_is(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The conditions under which the API server asks are its own language, and what fails in them is passed over."""
    control_plane.apply(QUEUES, queue("test"))
    (name, job), *_ = as_they_are(BUILTIN).items()
    tries = itertools.count()

    def made() -> Any:
        """The API server takes a second to hear of a webhook."""
        body = {**job, "metadata": {**job["metadata"], "name": f"{name}-{next(tries)}"}}
        found = control_plane.api.create(jobs(namespace), body)
        return found if "networkTopology" in found["spec"] else None

    found = wait_until(made, "a job is patched", 30)["spec"]
    wanted = patched(BUILTIN)[name]["spec"]
    for key in ("minAvailable", "maxRetry", "networkTopology", "policies"):
        assert found[key] == wanted[key]
    for tasks in zip(found["tasks"], wanted["tasks"], strict=True):
        one, other = (each["template"]["spec"] for each in tasks)
        assert one["tolerations"] == other["tolerations"]
        assert list(map(amounts, one["containers"])) == list(map(amounts, other["containers"]))
    plain = vcjob("plain", task("worker", 2, pod_spec(container(limits={"cpu": "1"}), schedulerName="volcano")))
    assert "networkTopology" not in control_plane.api.create(jobs(namespace), plain)["spec"]


def test_while_the_server_is_away_pods_for_devices_wait_and_others_do_not(
    allocator: NeuronAllocator, machines: Machines, submitted: Submissions, control_plane: ControlPlane
) -> None:
    machines.boot()
    allocator.replica.component.stop(SIGKILL)
    try:
        for scheduler in ("volcano", KUBE_SCHEDULER):
            plain = pod(f"plain-{scheduler}", nodeSelector=dict(machines.selector), schedulerName=scheduler)
            control_plane.api.create(pods(submitted.namespace), plain)
        submitted.wait_bound("plain", 2, 120)
        for scheduler in ("volcano", KUBE_SCHEDULER):
            submitted.pod(f"wants-{scheduler}", scheduler=scheduler)
        submitted.wait_told(f"wants-{KUBE_SCHEDULER}", "connection refused")
        assert not any(each["spec"].get("nodeName") for each in submitted.members("wants"))
    finally:
        allocator.replica.component.start()
        allocator.wait_ready()
    submitted.wait_bound("wants", 2, 120)
    assert not machines.faults()


def test_a_server_that_is_killed_again_and_again_gives_no_device_twice(
    allocator: NeuronAllocator, machines: Machines, submitted: Submissions, numbers: Numbers
) -> None:
    """Each kill meets pods at some step between their submission and their node; when it is over, all are bound."""
    machines.boot(4)
    luck = random.Random(7)

    def taken(at: int) -> bool:
        submitted.pod(f"p{at}", 1, scheduler=KUBE_SCHEDULER if at % 2 else "volcano")
        return True

    kills = 0
    for at in range(60):
        wait_until(partial(taken, at), f"p{at} is accepted", 60)
        if at % PODS_A_KILL == PODS_A_KILL - 1:
            time.sleep(luck.uniform(0, 0.5))
            allocator.replica.component.restart(SIGKILL)
            allocator.wait_ready()
            kills += 1
    wait_until(lambda: len(machines.bound()) == 60, "all are bound", 180, show=lambda: submitted.told("p"))
    assert not machines.faults()
    numbers.add(f"devices given twice among 60 pods and {kills} kills of the server", "0", "0")
