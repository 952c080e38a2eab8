"""A kubelet that dies between any two steps: containers run on, and what it had not recorded is done again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hami_plugins.sandbox.kubelet import FaultPoint, PassedFaultPoint
from tests.contract.kubelet.embedded import EmbeddedKubelet, embedded_kubelet
from tests.contract.kubelet.trial import Trial, app, init
from tests.waiting import PATIENCE


@pytest.fixture
def kubelet() -> Iterator[EmbeddedKubelet]:
    with embedded_kubelet() as running:
        yield running


@pytest.fixture
def trial(kubelet: EmbeddedKubelet) -> Iterator[Trial]:
    with Trial(kubelet, "t") as begun:
        yield begun


def come_back(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    assert kubelet.kubelet.wait_killed(PATIENCE)
    kubelet.start()
    trial.plugin_comes_back()


REACHED = [step for step in FaultPoint if step is not FaultPoint.REJECTED]


@pytest.mark.parametrize("step", REACHED)
def test_a_pod_runs_after_a_death_at_any_step(kubelet: EmbeddedKubelet, trial: Trial, step: FaultPoint) -> None:
    trial.start_plugin()
    kubelet.kubelet.kill_at(lambda taken: taken.step is step and taken.container in ("c2", ""))
    pod = trial.pod("p", init("i1"), app("c1"), app("c2", 2))
    come_back(kubelet, trial)
    trial.phase(pod, "Running")
    uid = pod["metadata"]["uid"]
    assert [len(kubelet.kubelet.containers(uid, name)) for name in ("i1", "c1", "c2")] == [1, 1, 1]
    held = {name: sorted(entry.device_ids) for name, entry in trial.recorded(pod).items()}
    assert held == {"i1": ["slot-0"], "c1": ["slot-0"], "c2": ["slot-1", "slot-2"]}


@pytest.mark.parametrize("step", [FaultPoint.ALLOCATED, FaultPoint.RECORDED])
def test_an_answer_that_was_not_written_down_is_asked_for_again(
    kubelet: EmbeddedKubelet, trial: Trial, step: FaultPoint
) -> None:
    plugin = trial.start_plugin()
    kubelet.kubelet.kill_at(lambda taken: taken.step is step and taken.container == "c1")
    pod = trial.pod("p", init("i1"), app("c1"))
    come_back(kubelet, trial)
    trial.phase(pod, "Running")
    assert len(plugin.verbs("Allocate")) == 3


def test_a_rejection_that_was_not_reported_is_found_again(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    kubelet.kubelet.kill_at(lambda taken: taken.step is FaultPoint.REJECTED)
    pod = trial.pod("p", app("c1", 9))
    come_back(kubelet, trial)
    assert "unavailable" in trial.phase(pod, "Failed")["status"]["message"]


def test_a_checkpoint_that_is_lost_costs_the_memory_of_who_holds_what(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    kubelet.kill()
    kubelet.kubelet.checkpoint.unlink()
    kubelet.start()
    trial.plugin_comes_back()
    trial.until(lambda: trial.knows_devices() or None, "the kubelet has the plugin's list")
    trial.sees_node(capacity=4, allocatable=4)
    trial.phase(trial.pod("q", app("c1")), "Running")
    assert [call.ids for call in plugin.verbs("Allocate")] == [("slot-0",)] * 2
    assert trial.see(pod)["status"]["phase"] == "Running"


def test_without_checkpoint_and_plugin_a_running_pod_is_turned_away(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    plugin.stop()
    trial.sees_node(capacity=4, allocatable=0)
    kubelet.kill()
    kubelet.kubelet.checkpoint.unlink()
    kubelet.start()
    failed = trial.phase(pod, "Failed")["status"]
    assert failed["reason"] == f"OutOf{plugin.resource}"
    assert failed["message"] == (
        f"Pod was rejected: Node didn't have enough resource: {plugin.resource}, requested: 1, used: 0, capacity: 0"
    )
    assert not kubelet.kubelet.running()


def test_a_checkpoint_that_cannot_be_read_is_as_good_as_none(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    kubelet.kill()
    kubelet.kubelet.checkpoint.write_text('{"Data": ')
    kubelet.start()
    trial.plugin_comes_back()
    trial.until(lambda: trial.knows_devices() or None, "the kubelet has the plugin's list")
    trial.phase(trial.pod("q", app("c1")), "Running")


def test_a_container_that_ends_while_no_kubelet_is_there_is_started_again_by_the_next(
    kubelet: EmbeddedKubelet, trial: Trial
) -> None:
    trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    kubelet.kill()
    kubelet.end(pod, "c1")
    kubelet.start()
    trial.plugin_comes_back()
    trial.until(lambda: trial.state(pod, "c1").get("restartCount") == 1 or None, "it was started again")


def test_a_pod_that_is_deleted_while_no_kubelet_is_there_ends_with_the_next(
    kubelet: EmbeddedKubelet, trial: Trial
) -> None:
    trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1"), terminationGracePeriodSeconds=5), "Running")
    kubelet.kill()
    kubelet.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
    kubelet.start()
    trial.delete("p")
    assert not kubelet.kubelet.running()


def test_what_a_pod_was_lost_track_of_is_given_to_another(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    kubelet.kubelet.lose_track_of(pod["metadata"]["uid"])
    trial.phase(trial.pod("q", app("c1")), "Running")
    assert trial.listed() == {"p": {"c1": ["slot-0"]}, "q": {"c1": ["slot-0"]}}


def test_a_kubelet_leaves_no_threads_behind() -> None:
    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith(("kubelet", "pod-", "refl"))}

    before = names()
    with embedded_kubelet() as running, Trial(running, "t") as trial:
        trial.start_plugin()
        trial.phase(trial.pod("p", app("c1")), "Running")
    trial.until(lambda: names() <= before or None, "they are gone")


def test_the_journal_tells_the_steps_of_a_pod(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    name, uid = f"default/{pod['metadata']['name']}", pod["metadata"]["uid"]
    told = kubelet.kubelet.journal.taken(FaultPoint.ALLOCATE, FaultPoint.PRE_START, FaultPoint.STARTED)
    assert told == tuple(
        PassedFaultPoint(step, name, uid, "c1")
        for step in (FaultPoint.ALLOCATE, FaultPoint.PRE_START, FaultPoint.STARTED)
    )
