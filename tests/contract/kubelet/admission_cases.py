"""Taking a pod in: the calls, their order, and what the kubelet shows of it meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from tests.contract.kubelet.plugin import RefusedError
from tests.contract.kubelet.register import case
from tests.contract.kubelet.trial import Trial, app, init, sidecar

_ADMISSION = ("GetPreferredAllocation", "Allocate")


@case("every container is given its devices before any is started, one call each, in the order of the spec", "K1")
def order_of_calls(trial: Trial) -> None:
    plugin = trial.start_plugin()
    trial.phase(trial.pod("p", init("i1"), app("c1"), app("c2")), "Running")
    assert [(call.verb, call.ids) for call in plugin.calls] == [
        ("GetPreferredAllocation", ()),
        ("Allocate", ("slot-0",)),
        ("Allocate", ("slot-0",)),
        ("GetPreferredAllocation", ()),
        ("Allocate", ("slot-1",)),
        ("PreStartContainer", ("slot-0",)),
        ("PreStartContainer", ("slot-0",)),
        ("PreStartContainer", ("slot-1",)),
    ]


@case("the preferred devices are the ones that are given", "K12")
def preference(trial: Trial) -> None:
    plugin = trial.start_plugin()
    plugin.prefer = lambda available, size: ["slot-3", "slot-1"][:size]
    trial.phase(trial.pod("p", app("c1", 2)), "Running")
    assert [call.ids for call in plugin.verbs("Allocate")] == [("slot-1", "slot-3")]


@case("without a preference, or with one that cannot be had, any free devices are given", "K12")
def no_preference(trial: Trial) -> None:
    plugin = trial.start_plugin()
    plugin.prefer = lambda available, size: ["elsewhere"]
    trial.phase(trial.pod("p", app("c1", 2)), "Running")
    assert [len(call.ids) for call in plugin.verbs("Allocate")] == [2]


@case("a preference is asked for also when exactly as many devices are left as are wanted", "this suite")
def last_devices(trial: Trial) -> None:
    plugin = trial.start_plugin()
    trial.phase(trial.pod("p", app("c1", 4)), "Running")
    assert [len(call.available) for call in plugin.verbs("GetPreferredAllocation")] == [4]


@case("a sidecar may take over an init container's device, and keeps it from those that come later", "K13")
def sidecars_keep(trial: Trial) -> None:
    trial.start_plugin()
    pod = trial.phase(trial.pod("p", init("in1"), sidecar("side"), app("app1"), app("app2", 2)), "Running")
    held = {name: sorted(entry.device_ids) for name, entry in trial.recorded(pod).items()}
    assert held == {"in1": ["slot-0"], "side": ["slot-0"], "app1": ["slot-1"], "app2": ["slot-2", "slot-3"]}
    listed = trial.listed()["p"]
    assert listed == {"side": ["slot-0"], "app1": ["slot-1"], "app2": ["slot-2", "slot-3"]}


@case("while Allocate is under way the pod is listed with empty hands", "K2")
def empty_hands(trial: Trial) -> None:
    plugin = trial.start_plugin()
    seen: list[dict[str, dict[str, list[str]]]] = []
    answer = plugin.allocate

    def look(ids: Sequence[str]) -> ContainerAllocateResponse:
        seen.append(trial.listed())
        return answer(ids)

    plugin.allocate = look
    trial.phase(trial.pod("p", app("c1"), app("c2")), "Running")
    assert [each["p"] for each in seen] == [{"c1": [], "c2": []}, {"c1": ["slot-0"], "c2": []}]


@case("at PreStartContainer the owner is listed, and an init container never is", "K2")
def listed_at_start(trial: Trial) -> None:
    plugin = trial.start_plugin()
    seen: list[dict[str, dict[str, list[str]]]] = []
    plugin.pre_start = lambda ids: seen.append(trial.listed())
    trial.phase(trial.pod("p", init("i1"), app("c1")), "Running")
    assert [each["p"] for each in seen] == [{"c1": ["slot-0"]}] * 2


@case("at the first PreStartContainer the checkpoint has the plugin's answers for all containers", "K10")
def recorded_at_start(trial: Trial) -> None:
    plugin = trial.start_plugin()
    seen: list[dict[str, tuple[list[str], str]]] = []

    def look(ids: Sequence[str]) -> None:
        pod = trial.see({"metadata": {"namespace": "default", "name": f"{trial.name}-p"}})
        seen.append({name: (sorted(e.device_ids), e.response.envs["IDS"]) for name, e in trial.recorded(pod).items()})

    plugin.pre_start = look
    trial.phase(trial.pod("p", init("i1"), app("c1"), app("c2", 2)), "Running")
    assert seen[0] == {
        "i1": (["slot-0"], "slot-0"),
        "c1": (["slot-0"], "slot-0"),
        "c2": (["slot-1", "slot-2"], "slot-1,slot-2"),
    }


@case("an error from Allocate rejects the pod for good, with the plugin's text", "K5")
def allocate_error(trial: Trial) -> None:
    plugin = trial.start_plugin()

    def refuse(ids: Sequence[str]) -> NoReturn:
        raise RefusedError("not today")

    plugin.allocate = refuse
    pod = trial.phase(trial.pod("p", app("c1")), "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert pod["status"]["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = not today, which is unexpected"
    )
    trial.throughout(lambda: len(plugin.verbs("Allocate")) == 1, "it is not asked again")


@case("a pod that asks for more than is left is rejected, and what its earlier containers got is free again", "K10")
def too_many(trial: Trial) -> None:
    plugin = trial.start_plugin()
    pod = trial.phase(trial.pod("p", app("c1", 2), app("c2", 3)), "Failed")
    assert pod["status"]["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
        f"{plugin.resource}. Requested: 3, Available: 2, which is unexpected"
    )
    trial.phase(trial.pod("q", app("c1", 4)), "Running")


@case("devices of a pod that is gone are given again", "K10")
def given_again(trial: Trial) -> None:
    plugin = trial.start_plugin()
    trial.phase(trial.pod("p", app("c1", 4)), "Running")
    trial.delete("p")
    trial.phase(trial.pod("q", app("c1", 4)), "Running")
    assert [call.ids for call in plugin.verbs("Allocate")] == [("slot-0", "slot-1", "slot-2", "slot-3")] * 2


@case("a container that asks for nothing causes no call", "K10")
def asks_nothing(trial: Trial) -> None:
    plugin = trial.start_plugin()
    trial.phase(trial.pod("p", app("c1", 0)), "Running")
    assert plugin.verbs(*_ADMISSION, "PreStartContainer") == []
