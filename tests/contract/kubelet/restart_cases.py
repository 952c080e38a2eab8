"""The kubelet, the plugin or a container goes away and comes back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from hami_plugins.node.kubelet.sockets import KUBELET_SOCKET
from tests.contract.kubelet.plugin import RefusedError
from tests.contract.kubelet.register import case
from tests.contract.kubelet.trial import Trial, app, init
from tests.waiting import PATIENCE


@case("a kubelet that restarts removes the plugins' sockets and opens its own anew", "K4")
def sockets_removed(trial: Trial) -> None:
    plugin = trial.start_plugin()
    path = trial.kubelet.plugin_directory / KUBELET_SOCKET
    before = path.stat()
    trial.kubelet.kill()
    trial.kubelet.start()
    after = path.stat()
    assert (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns)
    assert not (plugin.directory / plugin.socket).exists()


@case("a running pod does not notice a restart of the kubelet, and no call is made for it", "K4")
def running_untouched(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", init("i1"), app("c1")), "Running")
    before = trial.state(pod, "c1")
    calls = plugin.calls
    trial.kubelet.kill()
    trial.kubelet.start()
    trial.plugin_comes_back()
    trial.phase(trial.pod("q", app("c1")), "Running")
    assert trial.state(pod, "c1")["containerID"] == before["containerID"]
    assert trial.state(pod, "c1")["restartCount"] == 0
    later = plugin.calls[len(calls) :]
    assert [call.verb for call in later] == ["GetPreferredAllocation", "Allocate", "PreStartContainer"]
    assert later[1].ids == ("slot-1",)


@case("a plugin that does not come back after a restart of the kubelet costs new pods, not running ones", "K4")
def not_back(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    trial.kubelet.kill()
    trial.kubelet.start()
    trial.sees_node(capacity=0, allocatable=0)
    refused = trial.phase(trial.pod("q", app("c1")), "Failed")
    assert refused["status"]["message"] == (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        f"{plugin.resource}, which is unexpected"
    )
    assert trial.see(pod)["status"]["phase"] == "Running"


@case("a kubelet that dies between Allocate and PreStartContainer does not call Allocate again", "K10")
def killed_before_start(trial: Trial) -> None:
    plugin = trial.start_plugin()
    refusing = True

    def refuse(ids: Sequence[str]) -> None:
        if refusing:
            raise RefusedError("hold it")

    plugin.pre_start = refuse
    pod = trial.pod("p", init("i1"), app("c1", 2))
    trial.waits(pod, "i1", "CreateContainerConfigError")
    trial.kubelet.kill()
    refusing = False
    trial.kubelet.start()
    trial.plugin_comes_back()
    trial.phase(pod, "Running")
    assert [call.ids for call in plugin.verbs("Allocate")] == [("slot-0",), ("slot-0", "slot-1")]


@case("a kubelet that dies during an Allocate forgets that one alone, and asks for that container again", "K10")
def killed_during_allocate(trial: Trial) -> None:
    plugin = trial.start_plugin()
    answer, reached, go_on = plugin.allocate, threading.Event(), threading.Event()

    def slow(ids: Sequence[str]) -> ContainerAllocateResponse:
        if len(ids) == 2 and not reached.is_set():
            reached.set()
            go_on.wait(PATIENCE)
        return answer(ids)

    plugin.allocate = slow
    pod = trial.pod("p", init("i1"), app("c1"), app("c2", 2))
    assert reached.wait(trial.kubelet.patience)
    trial.kubelet.kill()
    go_on.set()
    assert sorted(trial.recorded(pod)) == ["c1", "i1"]
    trial.kubelet.start()
    trial.plugin_comes_back()
    trial.phase(pod, "Running")
    assert [len(call.ids) for call in plugin.verbs("Allocate")] == [1, 1, 2, 2]
    assert sorted(trial.recorded(pod)) == ["c1", "c2", "i1"]


@case("before its plugin is back, a restarted kubelet starts containers again without PreStartContainer", "this suite")
def started_unasked(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    calls = len(plugin.calls)
    trial.kubelet.kill()
    plugin.stop()
    trial.kubelet.start()
    trial.sees_node(capacity=0, allocatable=0)
    trial.kubelet.end(pod, "c1")
    trial.until(lambda: trial.state(pod, "c1").get("restartCount") == 1 or None, "it is started again")
    assert len(plugin.calls) == calls


@case("a plugin that goes away leaves the capacity and nothing allocatable; new pods are rejected", "K4")
def plugin_gone(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    plugin.stop()
    trial.sees_node(capacity=4, allocatable=0)
    refused = trial.phase(trial.pod("q", app("c1")), "Failed")
    assert "no healthy devices present" in refused["status"]["message"]
    assert trial.see(pod)["status"]["phase"] == "Running"


@case("a container that ends while its plugin is away waits for the plugin", "K4")
def waits_for_plugin(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    plugin.stop()
    trial.sees_node(capacity=4, allocatable=0)
    trial.kubelet.end(pod, "c1")
    text = trial.waits(pod, "c1", "CreateContainerConfigError")
    assert text.startswith("device plugin PreStartContainer rpc failed with err: endpoint ")
    assert text.endswith(" has been stopped")
    plugin.start()
    trial.until(lambda: trial.state(pod, "c1").get("restartCount") == 1 or None, "it runs again")


@case("a device that falls ill lowers what is allocatable, and neither the capacity nor who holds it", "K4")
def falls_ill(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    plugin.offer(trial.devices() | {"slot-0": False})
    trial.sees_node(capacity=4, allocatable=3)
    assert trial.see(pod)["status"]["phase"] == "Running"
    trial.phase(trial.pod("q", app("c1", 3)), "Running")
    assert plugin.verbs("Allocate")[-1].ids == ("slot-1", "slot-2", "slot-3")


@case("a container that ends is started again on its ill device, with PreStartContainer", "K4")
def started_on_ill_device(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    plugin.offer(trial.devices() | {"slot-0": False})
    trial.sees_node(capacity=4, allocatable=3)
    trial.kubelet.end(pod, "c1")
    trial.until(lambda: trial.state(pod, "c1").get("restartCount") == 1 or None, "it runs again")
    assert [call.ids for call in plugin.verbs("PreStartContainer")] == [("slot-0",)] * 2


@case("a plugin that registers before an older one of its resource ends is thrown out with it", "this suite")
def thrown_out(trial: Trial) -> None:
    old = trial.start_plugin()
    new = trial.another_plugin(old.resource, socket=f"{trial.name}-new.sock")
    new.start()
    trial.until(lambda: new.streams_begun or None, "the new one is listened to")
    old.stop()
    trial.sees_node(capacity=4, allocatable=0)
    new.register()
    trial.sees_node(capacity=4, allocatable=4)
