"""The real cluster itself: it comes up, runs what it is given, survives restarts, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from subprocess import PIPE

import pytest

from hami_plugins.node.kubelet.pod_resources import PodResources
from tests.cluster.api import ApiError
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.machine import Machine, leftovers
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node
from tests.cluster.objects import container, pod, pod_spec, queue, shell, task, vcjob
from tests.cluster.processes import Component, StartError
from tests.cluster.volcano import CONFIGURATION, QUEUES, Volcano
from tests.cluster.waiting import NotInTimeError, wait_until


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def vcjobs(namespace: str) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


def test_a_node_becomes_ready_with_the_release_that_was_chosen(node: Node, control_plane: ControlPlane) -> None:
    wanted = {"1.34": "v1.34.4", "1.36": "v1.36.3"}[os.environ.get("KUBERNETES") or "1.34"]
    assert node.wait_ready()["status"]["nodeInfo"]["kubeletVersion"] == wanted
    assert control_plane.api.get("/version")["gitVersion"] == wanted


def test_the_sockets_of_the_node_are_in_reach_of_the_test_and_its_mounts_are_its_own(node: Node) -> None:
    assert node.path(f"{DEVICE_PLUGINS}/kubelet.sock").is_socket()
    with PodResources(node.path(POD_RESOURCES)) as resources:
        assert not any(held.device_ids for held in resources.list(timeout=5))
    assert str(node.machine.root) not in Path("/proc/mounts").read_text()


def test_a_pod_runs_and_its_log_is_read(node: Node, control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(pods(namespace), pod("hello", shell("echo hello from a pod"), node=node.name))
    control_plane.wait_for_pod(namespace, "hello", "Succeeded")
    assert control_plane.pod_log(namespace, "hello") == "hello from a pod\n"


def test_a_command_runs_in_a_container(node: Node, control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(pods(namespace), pod("open", container(env={"WHO": "me and you"}), node=node.name))
    control_plane.wait_for_pod(namespace, "open", "Running")
    assert node.output(namespace, "open", ["sh", "-c", "echo $WHO"]) == "me and you\n"
    assert node.execute(namespace, "open", ["false"]).returncode == 1


@pytest.mark.usefixtures("kube_scheduler")
def test_kube_scheduler_places_a_pod(node: Node, control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(pods(namespace), pod("placed", shell("true")))
    done = control_plane.wait_for_pod(namespace, "placed", "Succeeded")
    assert done["spec"]["nodeName"] == node.name


def test_volcano_runs_a_gang(node: Node, control_plane: ControlPlane, volcano: Volcano, namespace: str) -> None:
    work = pod_spec(shell("echo $VC_TASK_INDEX", limits={"cpu": "10m"}))
    control_plane.api.create(vcjobs(namespace), vcjob("gang", task("worker", 2, work), plugins={"env": []}))
    volcano.wait_for_job(namespace, "gang", "Completed")
    said = [control_plane.pod_log(namespace, f"gang-worker-{index}") for index in range(2)]
    assert said == ["0\n", "1\n"]
    found = control_plane.api.items(pods(namespace))
    assert {each["spec"]["nodeName"] for each in found} == {node.name}


def test_volcano_starts_no_part_of_a_gang_that_does_not_fit(
    node: Node, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    cores = node.wait_ready()["status"]["allocatable"]["cpu"]
    work = pod_spec(container(limits={"cpu": cores}))
    control_plane.api.create(vcjobs(namespace), vcjob("wide", task("worker", 2, work)))
    volcano.wait_for_job(namespace, "wide", "Pending")
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
    wait_until(
        lambda: any(
            "NotEnough" in str(condition.get("reason")) or condition["type"] == "Unschedulable"
            for group in control_plane.api.items(groups)
            for condition in group.get("status", {}).get("conditions", [])
        ),
        "Volcano says that the gang does not fit",
        60,
        show=lambda: volcano.story(namespace),
    )
    assert not any(each["spec"].get("nodeName") for each in control_plane.api.items(pods(namespace)))


def test_the_webhooks_refuse_a_gang_larger_than_its_job(
    control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    with pytest.raises(ApiError, match=r"admission webhook.*minAvailable"):
        control_plane.api.create(vcjobs(namespace), vcjob("odd", task("worker", 1, pod_spec()), minimum=2))


def test_a_queue_that_a_test_makes_is_opened(control_plane: ControlPlane, volcano: Volcano) -> None:
    control_plane.api.create(QUEUES, queue("side"))
    wait_until(
        lambda: control_plane.api.get(f"{QUEUES}/side").get("status", {}).get("state") == "Open", "queue side is open"
    )
    control_plane.api.delete(f"{QUEUES}/side")


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
def test_pods_outlive_a_restart_of_kubelet_and_containerd(
    node: Node, control_plane: ControlPlane, namespace: str, number: Signals
) -> None:
    control_plane.api.create(pods(namespace), pod("steady", node=node.name))
    control_plane.wait_for_pod(namespace, "steady", "Running")
    for component in (node.kubelet, node.containerd):
        before = component.pid
        component.restart(number)
        assert component.pid != before
    control_plane.api.create(pods(namespace), pod("after", shell("true"), node=node.name))
    control_plane.wait_for_pod(namespace, "after", "Succeeded")
    status = control_plane.wait_for_pod(namespace, "steady", "Running")["status"]
    assert [each["restartCount"] for each in status["containerStatuses"]] == [0]


def test_the_api_server_comes_back_with_what_it_had(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api_server.restart(SIGKILL)
    assert control_plane.api.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"


def test_volcano_goes_on_after_its_scheduler_was_killed(
    node: Node, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    volcano.restart_scheduler(SIGKILL)
    control_plane.api.create(vcjobs(namespace), vcjob("later", task("worker", 1, pod_spec(shell("true")))))
    volcano.wait_for_job(namespace, "later", "Completed")


def test_volcano_reads_another_configuration_while_it_runs(volcano: Volcano) -> None:
    try:
        volcano.configure(CONFIGURATION.replace(", backfill", ""))
        assert "Final state: actions=[enqueue allocate]" in volcano.scheduler.log().replace(",", "")
    finally:
        volcano.configure(CONFIGURATION)


def test_an_account_may_do_what_its_rules_say_and_nothing_else(control_plane: ControlPlane) -> None:
    token = control_plane.account("reader", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
    reader = control_plane.client(token)
    try:
        wait_until(lambda: reader.items("/api/v1/nodes") is not None, "the account may list nodes")
        with pytest.raises(ApiError) as refused:
            reader.items("/api/v1/pods")
    finally:
        reader.close()
    assert refused.value.status == 403


def test_a_program_finds_api_server_account_and_node_as_in_a_pod(node: Node, control_plane: ControlPlane) -> None:
    script = f"""
        import kubernetes.config, kubernetes.client, pathlib, time
        kubernetes.config.load_incluster_config()
        print("node", kubernetes.client.CoreV1Api().read_node("{node.name}").metadata.name)
        print("socket", pathlib.Path("{DEVICE_PLUGINS}/kubelet.sock").is_socket(), flush=True)
        time.sleep(1000)
    """
    program = control_plane.program(
        "someone",
        [sys.executable, "-c", textwrap.dedent(script)],
        rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
        ready=lambda: "socket True" in program.log(),
    )
    program.start()
    program.stop()
    assert f"node {node.name}\nsocket True\n" in program.log()


def test_a_component_that_does_not_come_up_is_tried_twice_and_named(machine: Machine) -> None:
    broken = Component(machine, "broken", ["sh", "-c", "echo no luck; exit 3"], ready=lambda: False)
    with pytest.raises(StartError, match=r"broken did not start: it ended with status 3(.|\n)*no luck"):
        broken.start()
    assert broken.log().count("no luck\n") == 2


def test_waiting_in_vain_says_what_was_seen() -> None:
    with pytest.raises(NotInTimeError, match=r"not within 0 s: the moon is blue; last answer: 0\nit is grey"):
        wait_until(lambda: 0, "the moon is blue", 0, show=lambda: "it is grey")


def test_a_machine_takes_everything_with_it() -> None:
    made = Machine()
    orphan = Component(made, "orphan", ["sh", "-c", "trap '' TERM; sleep 1000 & wait"], ready=lambda: True)
    try:
        orphan.start()
        assert leftovers(made.root)
    finally:
        made.close()
    assert not orphan.running
    assert leftovers(made.root) == []


def test_a_killed_test_run_leaves_no_process_and_the_next_one_its_folder_neither() -> None:
    script = "from tests.cluster.machine import Machine; print(Machine().root, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=PIPE, stdout=PIPE, text=True) as run:
        assert run.stdout is not None
        root = Path(run.stdout.readline().strip())
        assert any("holder.py" in line for line in leftovers(root))
        run.kill()
    wait_until(lambda: not any(line.startswith("process") for line in leftovers(root)), "all its processes ended")
    assert root.is_dir()
    Machine().close()
    assert leftovers(root) == []
