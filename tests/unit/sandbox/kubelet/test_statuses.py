"""What a pod's status says, from what has become of its containers."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.sandbox.kubelet import specs, statuses
from hami_plugins.sandbox.kubelet.runtime import RunningContainer
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec, Role
from hami_plugins.sandbox.kubelet.statuses import Fate, Waiting


def a_pod(restart_policy: str = "Always", **members: Any) -> PodSpec:
    spec = {"restartPolicy": restart_policy, "containers": [{"name": "c", "image": "i"}], **members}
    return specs.read({"metadata": {"uid": "u", "name": "p", "namespace": "ns"}, "spec": spec})


def a_spec(name: str, role: Role = Role.APP) -> ContainerSpec:
    return ContainerSpec(name=name, role=role, limits={}, raw={"name": name, "image": "i"})


def running(attempt: int = 0) -> RunningContainer:
    return RunningContainer(pod_uid="u", pod="ns/p", name="c", attempt=attempt, id="1", started=0)


def ended(exit_code: int = 0) -> RunningContainer:
    return RunningContainer(
        pod_uid="u", pod="ns/p", name="c", attempt=0, id="0", started=0, ended=5, exit_code=exit_code
    )


APP = a_spec("c")
INIT = a_spec("i", Role.INIT)
SIDE = a_spec("s", Role.SIDECAR)


@pytest.mark.parametrize(
    ("policy", "fates", "phase"),
    [
        ("Always", [Fate(APP)], "Pending"),
        ("Always", [Fate(APP, [running()])], "Running"),
        ("Always", [Fate(APP, [ended()])], "Running"),
        ("Always", [Fate(APP, [ended(1)])], "Running"),
        ("OnFailure", [Fate(APP, [ended(1)])], "Running"),
        ("OnFailure", [Fate(APP, [ended()])], "Succeeded"),
        ("Never", [Fate(APP, [ended()])], "Succeeded"),
        ("Never", [Fate(APP, [ended(1)])], "Failed"),
        ("Never", [Fate(APP, [ended(1)]), Fate(a_spec("d"), [running()])], "Running"),
        ("Never", [Fate(APP, [running()]), Fate(a_spec("d"))], "Pending"),
        ("Always", [Fate(INIT, [running()]), Fate(APP)], "Pending"),
        ("Always", [Fate(INIT, [ended(1)]), Fate(APP)], "Pending"),
        ("Never", [Fate(INIT, [ended(1)]), Fate(APP)], "Failed"),
        ("Never", [Fate(SIDE, [running()]), Fate(APP, [ended()])], "Succeeded"),
        ("Always", [Fate(INIT, [ended()]), Fate(SIDE, [running()]), Fate(APP, [running()])], "Running"),
    ],
)
def test_the_phase_follows_from_the_containers(policy: str, fates: list[Fate], phase: str) -> None:
    assert statuses.phase(a_pod(policy), fates) == phase


def test_a_container_that_waits_tells_why_and_how_it_ended_before() -> None:
    fate = Fate(APP, [ended(3)], Waiting("CrashLoopBackOff", "back-off 10s"))
    [said] = statuses.status(a_pod(), [fate], started=0, host="h")["containerStatuses"]
    assert said["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert said["lastState"]["terminated"]["exitCode"] == 3
    assert (said["ready"], said["restartCount"]) == (False, 0)


def test_a_container_that_was_started_again_counts_it() -> None:
    fate = Fate(APP, [ended(1), running(1)])
    [said] = statuses.status(a_pod(), [fate], started=0, host="h")["containerStatuses"]
    assert said["state"] == {"running": {"startedAt": "1970-01-01T00:00:00Z"}}
    assert said["lastState"]["terminated"]["reason"] == "Error"
    assert said["restartCount"] == 1


def test_apps_wait_for_init_containers() -> None:
    found = statuses.status(a_pod(), [Fate(INIT, [running()]), Fate(APP)], started=0, host="h")
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert [each["name"] for each in found["initContainerStatuses"]] == ["i"]


def test_a_pod_is_ready_when_everything_that_should_run_does() -> None:
    def ready(*fates: Fate) -> str:
        conditions = statuses.status(a_pod(), fates, started=0, host="h")["conditions"]
        return str(next(each["status"] for each in conditions if each["type"] == "Ready"))

    assert ready(Fate(INIT, [ended()]), Fate(SIDE, [running()]), Fate(APP, [running()])) == "True"
    assert ready(Fate(SIDE, [ended()]), Fate(APP, [running()])) == "False"
    assert ready(Fate(APP)) == "False"


def test_a_rejected_pod_says_so() -> None:
    found = statuses.rejection("UnexpectedAdmissionError", "Allocate failed due to x", started=0)
    assert found["message"] == "Pod was rejected: Allocate failed due to x"
    assert (found["phase"], found["reason"]) == ("Failed", "UnexpectedAdmissionError")
