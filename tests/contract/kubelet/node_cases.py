"""Registration, what the node's status says, and the kubelet's limits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from hami_plugins.kube import paths
from hami_plugins.node.kubelet import podresources_pb2 as listing
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from hami_plugins.node.kubelet.podresources_pb2_grpc import PodResourcesListerStub
from tests.contract.kubelet.register import case
from tests.contract.kubelet.trial import Trial, app
from tests.waiting import PATIENCE

_MESSAGE = 4 << 20


@case("a plugin of another protocol version, or of a resource without a domain, is refused", "this suite")
def refused(trial: Trial) -> None:
    trial.plugin.serve()
    with pytest.raises(grpc.RpcError) as version:
        trial.plugin.register(version="v1alpha1")
    assert version.value.details() == (
        'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]'
    )
    nameless = trial.another_plugin("slots")
    nameless.serve()
    with pytest.raises(grpc.RpcError) as name:
        nameless.register()
    assert name.value.details() == 'the ResourceName "slots" is invalid'


@case("capacity that others patch is kept and becomes allocatable; allocatable alone is not kept", "K6")
def foreign_capacity(trial: Trial) -> None:
    trial.start_plugin()
    name = f"contract.example/{trial.name}-memory"
    status = paths.node_status(trial.kubelet.node)
    trial.kubelet.api.merge_patch(status, {"status": {"capacity": {name: "320000"}}})
    trial.until(lambda: trial.node_amounts(name) == ("320k", "320k") or None, "it is allocatable")
    trial.kubelet.api.merge_patch(status, {"status": {"allocatable": {name: "100"}}})
    trial.until(lambda: trial.node_amounts(name) == ("320k", "320k") or None, "it is put back")
    trial.kubelet.kill()
    trial.kubelet.start()
    trial.plugin_comes_back()
    trial.throughout(lambda: trial.node_amounts(name) == ("320k", "320k"), "it outlives a restart")
    made = app("c1").raw(trial.plugin.resource)
    made["resources"]["limits"][name] = "4000"
    trial.phase(trial.pod("p", containers=[made]), "Running")
    assert len(trial.plugin.verbs("Allocate")) == 1
    trial.kubelet.api.merge_patch(status, {"status": {"capacity": {name: None}, "allocatable": {name: None}}})


@case("a list of devices longer than 4 MiB ends the plugin's stream", "K7")
def too_long(trial: Trial) -> None:
    plugin = trial.start_plugin()
    plugin.offer({f"c0-s{number:07}": True for number in range(_MESSAGE // 22)})
    trial.sees_node(capacity=4, allocatable=0)
    trial.until(lambda: plugin.streams_ended or None, "the stream has ended")


@case("pod-resources answers a hundred calls a second and ten at once, for all clients together", "K11")
def rate(trial: Trial) -> None:
    socket = f"unix://{trial.kubelet.pod_resources_socket}"

    def ask(_: int) -> str:
        with grpc.insecure_channel(socket, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = PodResourcesListerStub(channel)
            texts = set()
            for _attempt in range(50):
                try:
                    stub.List(listing.ListPodResourcesRequest(), timeout=PATIENCE, wait_for_ready=True)
                except grpc.RpcError as error:
                    texts.add(f"{error.code().name}: {error.details()}")
            return ", ".join(texts)

    with ThreadPoolExecutor(4) as clients:
        assert "RESOURCE_EXHAUSTED: rejected by rate limit" in set(clients.map(ask, range(4)))


@case("a device is given twice when a pod ends and somebody lists while an Allocate is under way", "K8")
def given_twice(trial: Trial) -> None:
    plugin = trial.start_plugin()
    answer, reached, go_on = plugin.allocate, threading.Event(), threading.Event()
    ra = trial.pod("ra", app("c1", 1, ("sh", "-c", "trap '' TERM; sleep 1000")), terminationGracePeriodSeconds=2)
    trial.phase(ra, "Running")

    def slow(ids: Sequence[str]) -> ContainerAllocateResponse:
        reached.set()
        go_on.wait(PATIENCE)
        return answer(ids)

    plugin.allocate = slow
    trial.kubelet.api.delete(paths.pod("default", f"{trial.name}-ra"))
    rb = trial.pod("rb", app("c1"))
    assert reached.wait(trial.kubelet.patience)
    trial.until(lambda: "ra" not in trial.listed() or None, "the first pod has ended, and somebody lists")
    plugin.allocate = answer
    go_on.set()
    trial.phase(rb, "Running")
    trial.phase(trial.pod("rc", app("c1")), "Running")
    trial.phase(trial.pod("rd", app("c1")), "Running")
    assert trial.listed() == {"rb": {"c1": ["slot-1"]}, "rc": {"c1": ["slot-0"]}, "rd": {"c1": ["slot-1"]}}
