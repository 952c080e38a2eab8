"""Starting a container: PreStartContainer, what the plugin's answer does, and CDI."""

from __future__ import annotations

from collections.abc import Sequence

from hami_plugins.node.kubelet.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse, Mount
from tests.contract.kubelet.plugin import RefusedError
from tests.contract.kubelet.register import case
from tests.contract.kubelet.trial import Trial, app, init


@case("an error from PreStartContainer holds the container back, is told, and is tried again until it passes", "K5")
def pre_start_error(trial: Trial) -> None:
    plugin = trial.start_plugin()
    refusing = True

    def refuse(ids: Sequence[str]) -> None:
        if refusing:
            raise RefusedError("cannot tell yet")

    plugin.pre_start = refuse
    pod = trial.pod("p", app("c1"), restart_policy="Never")
    text = trial.waits(pod, "c1", "CreateContainerConfigError")
    assert text == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = cannot tell yet"
    )
    assert trial.see(pod)["status"]["phase"] == "Pending"
    trial.until(lambda: len(plugin.verbs("PreStartContainer")) > 1 or None, "it is tried again")
    refusing = False
    trial.phase(pod, "Running")
    assert len(plugin.verbs("Allocate")) == 1


@case("a container that ends is started again with PreStartContainer and the same devices, never with Allocate", "K4")
def crash_loop(trial: Trial) -> None:
    plugin = trial.start_plugin()
    trial.pod("p", app("c1", 2, ("false",)))
    trial.until(lambda: len(plugin.verbs("PreStartContainer")) >= 3 or None, "it was started three times")
    assert len(plugin.verbs("Allocate", "GetPreferredAllocation")) == 2
    assert {call.ids for call in plugin.verbs("PreStartContainer")} == {("slot-0", "slot-1")}


@case("environment and mounts of the answer to Allocate reach the container", "K3")
def plain_answer(trial: Trial) -> None:
    plugin = trial.start_plugin()
    slot = trial.kubelet.scratch / trial.name
    slot.mkdir(parents=True)
    plugin.allocate = lambda ids: ContainerAllocateResponse(
        envs={"SLOT": ids[0]}, mounts=[Mount(container_path="/slot", host_path=str(slot), read_only=True)]
    )
    plugin.pre_start = lambda ids: (slot / "who").write_text(f"I am {ids[0]}")
    pod = trial.phase(trial.pod("p", app("c1")), "Running")
    assert trial.kubelet.environment(pod, "c1")["SLOT"] == "slot-0"
    assert trial.kubelet.read(pod, "c1", "/slot/who") == "I am slot-0"


@case("a CDI name of Allocate means what is written at PreStartContainer", "K3")
def cdi(trial: Trial) -> None:
    plugin = trial.start_plugin()
    slot = trial.kubelet.scratch / trial.name
    slot.mkdir(parents=True)
    (slot / "who").write_text("me")
    plugin.allocate = lambda ids: ContainerAllocateResponse(
        cdi_devices=[CDIDevice(name=f"contract.example/slot={trial.name}-{ids[0]}")]
    )
    plugin.pre_start = lambda ids: trial.write_spec(
        ids[0], f"{trial.name}-{ids[0]}", {"SLOT": ids[0]}, {"/slot": str(slot)}
    )
    pod = trial.phase(trial.pod("p", init("i1"), app("c1"), app("c2")), "Running")
    assert trial.kubelet.environment(pod, "c2")["SLOT"] == "slot-1"
    assert trial.kubelet.read(pod, "c2", "/slot/who") == "me"


@case("a CDI name that means nothing holds the container back until it does; PreStartContainer comes each time", "K3")
def cdi_missing(trial: Trial) -> None:
    plugin = trial.start_plugin()
    device = f"{trial.name}-nobody"
    plugin.allocate = lambda ids: ContainerAllocateResponse(
        cdi_devices=[CDIDevice(name=f"contract.example/slot={device}")]
    )
    pod = trial.pod("p", app("c1"), restart_policy="Never")
    assert trial.waits(pod, "c1", "CreateContainerError") == (
        "failed to create containerd container: CDI device injection failed: unresolvable CDI devices "
        f"contract.example/slot={device}"
    )
    before = len(plugin.verbs("PreStartContainer"))
    trial.until(lambda: len(plugin.verbs("PreStartContainer")) > before or None, "it is tried again")
    trial.write_spec("late", device, {"SLOT": "late"}, {})
    trial.phase(pod, "Running")
    assert trial.kubelet.environment(pod, "c1")["SLOT"] == "late"


@case("a CDI name that two files give means nothing", "K3")
def cdi_twice(trial: Trial) -> None:
    plugin = trial.start_plugin()
    device = f"{trial.name}-both"
    trial.write_spec("one", device, {"SLOT": "one"}, {})
    name = trial.write_spec("two", device, {"SLOT": "two"}, {})
    plugin.allocate = lambda ids: ContainerAllocateResponse(cdi_devices=[CDIDevice(name=name)])
    pod = trial.pod("p", app("c1"))
    assert f"unresolvable CDI devices {name}" in trial.waits(pod, "c1", "CreateContainerError")


@case("the container's own environment beats Allocate's, and CDI's beats both", "this suite")
def who_wins(trial: Trial) -> None:
    plugin = trial.start_plugin()
    device = f"{trial.name}-wins"
    name = trial.write_spec("only", device, {"A": "cdi"}, {})
    plugin.allocate = lambda ids: ContainerAllocateResponse(
        envs={"A": "plugin", "B": "plugin", "C": "plugin"}, cdi_devices=[CDIDevice(name=name)]
    )
    env = [{"name": "A", "value": "pod"}, {"name": "B", "value": "pod"}]
    made = {**app("c1").raw(plugin.resource), "env": env}
    pod = trial.phase(trial.pod("p", containers=[made]), "Running")
    seen = trial.kubelet.environment(pod, "c1")
    assert {name: seen[name] for name in "ABC"} == {"A": "cdi", "B": "pod", "C": "plugin"}
