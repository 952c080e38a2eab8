"""Pods on the emulated kubelet live and end as on a real one, and the API server is notified."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import ApiServer, Delay, Fault
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from tests.contract.kubelet.embedded import EmbeddedKubelet, embedded_kubelet
from tests.contract.kubelet.plugin import RefusedError
from tests.contract.kubelet.trial import Trial, Wanted, app, init, sidecar
from tests.waiting import wait_for

STUBBORN = ("sh", "-c", "trap '' TERM; sleep 1000")


@pytest.fixture
def kubelet() -> Iterator[EmbeddedKubelet]:
    with embedded_kubelet() as running:
        yield running


@pytest.fixture
def trial(kubelet: EmbeddedKubelet) -> Iterator[Trial]:
    with Trial(kubelet, "t") as begun:
        yield begun


@contextmanager
def a_kubelet(server: ApiServer, node: str) -> Iterator[EmbeddedKubelet]:
    with tempfile.TemporaryDirectory(prefix="kubelet-") as root:
        server.put(bare_node(node))
        client = connect_to(server.url, component="kubelet")
        running = EmbeddedKubelet(client, node, Path(root))
        running.start()
        try:
            yield running
        finally:
            running.kill()
            client.close()


@contextmanager
def a_server_and_kubelet() -> Iterator[tuple[ApiServer, EmbeddedKubelet]]:
    with ApiServer() as server, a_kubelet(server, "n1") as kubelet:
        yield server, kubelet


def starts(kubelet: EmbeddedKubelet, pod: dict[str, Any], name: str) -> int:
    return len(kubelet.kubelet.containers(pod["metadata"]["uid"], name))


def failing_init(name: str) -> Wanted:
    return Wanted(name=name, devices=0, command=("false",), init=True)


def test_a_pod_whose_apps_end_well_succeeds_and_takes_its_sidecar_along(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.pod("p", sidecar("s", 0), app("c", 0, ("true",)), restart_policy="Never")
    trial.phase(pod, "Succeeded")
    assert not kubelet.kubelet.running()


def test_a_pod_that_is_not_restarted_fails_with_its_exit_code(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.pod("p", app("c", 0, ("sh", "-c", "exit 7")), restart_policy="Never")
    trial.phase(pod, "Failed")
    assert trial.state(pod, "c")["state"]["terminated"]["exitCode"] == 7
    assert starts(kubelet, pod, "c") == 1


def test_a_pod_that_is_restarted_on_failure_ends_when_it_ends_well(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.phase(trial.pod("p", app("c", 0), restart_policy="OnFailure"), "Running")
    kubelet.end(pod, "c")
    trial.until(lambda: trial.state(pod, "c").get("restartCount") == 1 or None, "it was started again")
    trial.until(lambda: kubelet.kubelet.finish(pod["metadata"]["uid"], "c") or None, "it ended well")
    trial.phase(pod, "Succeeded")


def test_a_container_that_keeps_failing_is_backed_off(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.pod("p", app("c", 0, ("false",)))
    text = trial.waits(pod, "c", "CrashLoopBackOff")
    assert text.startswith("back-off ")
    assert "restarting failed container=c" in text


def test_apps_wait_for_an_init_container_that_fails_and_a_pod_without_restarts_fails_with_it(
    kubelet: EmbeddedKubelet, trial: Trial
) -> None:
    tried = trial.pod("p", failing_init("i"), app("c", 0))
    trial.until(lambda: starts(kubelet, tried, "i") >= 2 or None, "it is tried again")
    assert starts(kubelet, tried, "c") == 0
    trial.phase(trial.pod("q", failing_init("i"), app("c", 0), restart_policy="Never"), "Failed")


def test_containers_start_in_the_order_of_the_spec(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.phase(trial.pod("p", init("i1", 0), sidecar("s", 0), init("i2", 0), app("c", 0)), "Running")
    started = [kubelet.kubelet.containers(pod["metadata"]["uid"], name)[0].id for name in ("i1", "s", "i2", "c")]
    assert started == sorted(started)


def test_a_container_that_does_not_listen_gets_its_grace(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    pod = trial.phase(trial.pod("p", app("c", 0, STUBBORN), terminationGracePeriodSeconds=1), "Running")
    kubelet.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
    trial.throughout(lambda: len(kubelet.kubelet.running()) == 1, "it runs on for a while")
    trial.delete("p")
    assert not kubelet.kubelet.running()


def test_a_pod_of_the_same_name_is_another_pod(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    plugin = trial.start_plugin()
    first = trial.phase(trial.pod("p", app("c")), "Running")
    trial.delete("p")
    second = trial.phase(trial.pod("p", app("c")), "Running")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert list(trial.recorded(first)) == []
    assert len(plugin.verbs("Allocate")) == 2


def test_a_pod_that_never_started_is_deleted(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    trial.plugin.stop()
    trial.sees_node(capacity=4, allocatable=0)
    trial.phase(trial.pod("p", app("c")), "Failed")
    trial.delete("p")


def test_a_rejected_pod_has_an_event(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    trial.start_plugin()
    trial.phase(trial.pod("p", app("c", 9)), "Failed")

    def told() -> str | None:
        events = kubelet.api.get("/api/v1/namespaces/default/events")["items"]
        return next((each["message"] for each in events if each["reason"] == "UnexpectedAdmissionError"), None)

    assert "requested number of devices unavailable" in trial.until(told, "there is an event")


def test_a_container_takes_devices_of_several_plugins(kubelet: EmbeddedKubelet, trial: Trial) -> None:
    first = trial.start_plugin()
    second = trial.another_plugin("contract.example/t-more")
    second.start()
    trial.until(lambda: trial.node_amounts(second.resource) == ("4", "4") or None, "the node has both")
    made = app("c").raw(first.resource)
    made["resources"]["limits"][second.resource] = "2"
    pod = trial.phase(trial.pod("p", containers=[made]), "Running")
    assert [call.verb for call in second.calls] == ["GetPreferredAllocation", "Allocate", "PreStartContainer"]
    assert [call.ids for call in first.verbs("PreStartContainer")] == [("slot-0",)]
    held = kubelet.kubelet.containers(pod["metadata"]["uid"], "c")[0].env["IDS"]
    assert held == "slot-0", "where two plugins set a variable the first is heard"


def test_a_status_that_could_not_be_written_is_written_later() -> None:
    with a_server_and_kubelet() as (server, kubelet), Trial(kubelet, "t") as trial:
        pod = trial.phase(trial.pod("p", app("c", 0), restart_policy="Never"), "Running")
        server.pause()
        kubelet.kubelet.finish(pod["metadata"]["uid"], "c", exit_code=3)
        server.resume()
        trial.phase(pod, "Failed")


def test_a_try_that_becomes_due_while_the_status_is_written_is_made() -> None:
    """Each write takes longer than the kubelet rests before it tries a container again."""
    slow = Fault(action=Delay(4 * Times.fast().retry), verb="patch", agent="kubelet", times=None)
    with a_server_and_kubelet() as (server, kubelet), Trial(kubelet, "t") as trial:
        trial.start_plugin()

        def refuse(_ids: object) -> None:
            trial.plugin.pre_start = lambda _ids: None
            raise RefusedError("not yet")

        trial.plugin.pre_start = refuse
        server.faults.add(slow)
        trial.phase(trial.pod("p", app("c")), "Running")


def test_nothing_is_written_while_nothing_changes() -> None:
    with a_server_and_kubelet() as (server, kubelet), Trial(kubelet, "t") as trial:
        trial.start_plugin()
        trial.phase(trial.pod("p", app("c")), "Running")
        version = server.store.version
        trial.throughout(lambda: server.store.version == version, "no object changes")


def test_two_nodes_live_beside_each_other() -> None:
    with ExitStack() as stack:
        server, first = stack.enter_context(a_server_and_kubelet())
        second = stack.enter_context(a_kubelet(server, "n2"))
        for trial in (stack.enter_context(Trial(first, "a")), stack.enter_context(Trial(second, "b"))):
            trial.start_plugin()
            trial.phase(trial.pod("p", app("c", 4)), "Running")
            assert trial.listed() == {"p": {"c": ["slot-0", "slot-1", "slot-2", "slot-3"]}}
            assert len(trial.plugin.verbs("Allocate")) == 1


def test_a_node_that_is_not_there_is_registered() -> None:
    with tempfile.TemporaryDirectory(prefix="kubelet-") as root, ApiServer() as server:
        client = connect_to(server.url, component="kubelet")
        with EmulatedKubelet(client, "new", Path(root), times=Times.fast()):
            wait_for(lambda: server.objects("nodes"))
        assert server.get("nodes", "new")["status"]["conditions"][0]["type"] == "Ready"
        client.close()


def test_a_directory_that_is_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    with ApiServer() as server:
        client = connect_to(server.url)
        with pytest.raises(ConfigError, match="choose a shorter directory"):
            EmulatedKubelet(client, "n1", tmp_path / ("x" * 100))
        client.close()
