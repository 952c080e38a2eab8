"""The whole agent on a node of the embedded cluster: its writes and reports."""

from __future__ import annotations

import time
from collections.abc import Callable

import urllib3

from hami_plugins.kube import paths
from neuron_topology.agent.app import NeuronAgent
from tests.integration.neuron_topology.agent.conftest import Host
from tests.integration.neuron_topology.server.servers import a_pod
from tests.waiting import wait_for

Ready = Callable[[NeuronAgent], None]


def test_a_node_is_described_once_and_then_left_alone(host: Host, ready: Ready) -> None:
    with host.agent() as agent:
        ready(agent)
        assert [device["neuron_device"] for device in host.annotation("neuron-ls")] == list(range(16))
        assert len(host.annotation("node-register-aws-neuron")) == 16
        assert host.annotation("neuron-health") is None
        before = host.version()
        time.sleep(1.0)
        assert host.version() == before
    with host.agent() as again:
        ready(again)
        assert host.version() == before


def test_faults_reach_the_node_and_go_again(host: Host, ready: Ready) -> None:
    with host.agent() as agent:
        ready(agent)
        host.is_like(uncorrected={7: 1}, repaired={9: 2})
        wait_for(lambda: host.annotation("neuron-health") == {"devices": [7], "repaired": [9]}, "errors are written")
        host.is_like(gone=[3], deadLinks=[[4, 5]])
        wait_for(lambda: len(host.annotation("neuron-ls")) == 15, "a device has gone")
        links = {each["neuron_device"]: each["connected_to"] for each in host.annotation("neuron-ls")}
        assert 5 not in links[4]
        assert 4 not in links[5]
        host.is_like()
        wait_for(lambda: host.annotation("neuron-health") is None, "all is well again")
        wait_for(lambda: len(host.annotation("neuron-ls")) == 16, "the device is back")


def test_a_changed_device_has_the_machine_listed_at_once(host: Host, ready: Ready) -> None:
    with host.agent(neuronLs={"command": ["neuron-ls"], "intervalSeconds": 3600}) as agent:
        ready(agent)
        host.is_like(gone=[3])
        wait_for(lambda: len(host.annotation("neuron-ls")) == 15, "the device has gone", timeout=10)


def test_the_allocator_knows_of_a_broken_device_within_two_seconds(host: Host, ready: Ready) -> None:
    client = host.site.start()
    with host.agent(healthSeconds=1.0) as agent:
        ready(agent)
        api = host.api
        whole = dict(api.create(paths.pods("default"), a_pod("whole", 16)))
        assert not client.predicate(whole, "n1")
        began = time.monotonic()
        host.is_like(uncorrected={7: 1})
        wait_for(lambda: client.predicate(whole, "n1"), "the allocator refuses the node", timeout=10)
        assert time.monotonic() - began < 2.0


def test_a_process_outside_pods_is_reported_once(host: Host, ready: Ready) -> None:
    host.is_like(processes=[{"pid": 4711, "devices": [2, 3], "command": "python3 mine.py"}])
    with host.agent() as agent:
        ready(agent)
        (said,) = wait_for(lambda: host.messages("NeuronDeviceStranger"), "the node has an event")
        assert said.startswith("process 4711 (python3 mine.py) uses Neuron devices 2, 3; it is in no pod")
        time.sleep(0.6)
        assert [each["count"] for each in host.site.server.objects("events")] == [1]
        assert 'neuron_agent_strangers{reason="outside-pods"} 1.0' in metrics(agent)
        host.is_like()
        wait_for(lambda: 'neuron_agent_strangers{reason="outside-pods"} 0.0' in metrics(agent), "it has ended")


def test_a_pod_on_devices_of_others_is_reported_on_the_pod(host: Host, ready: Ready) -> None:
    pod = a_pod("greedy", 2)
    pod["metadata"] |= {"annotations": {"AWS_NEURON_IDS": "0,1"}}
    pod["spec"]["nodeName"] = "n1"
    made = host.api.create(paths.pods("default"), pod)
    uid = made["metadata"]["uid"]
    host.is_like(processes=[{"pid": 5, "devices": [0, 1, 2], "command": "train", "pod": uid}])
    with host.agent() as agent:
        ready(agent)
        (said,) = wait_for(lambda: host.messages("NeuronDeviceStranger"), "the pod has an event")
        assert said == "process 5 (train) uses Neuron device 2; it is in pod default/greedy, which was not given that"
        assert host.site.server.objects("events")[0]["involvedObject"]["name"] == "greedy"


def test_a_tool_that_hangs_costs_no_look_at_the_counters(host: Host, ready: Ready) -> None:
    with host.agent() as agent:
        ready(agent)
        host.is_like(hang=True, uncorrected={7: 1})
        wait_for(lambda: host.annotation("neuron-health") == {"devices": [7]}, "the error is written")
        wait_for(lambda: "hang is set" in agent.trouble, "the agent says what is wrong")
        assert len(host.annotation("neuron-ls")) == 16


def test_an_entry_of_a_person_stays(host: Host, ready: Ready) -> None:
    by_hand = {"hami-plugins.io/neuron-health": '{"links":[[4,5]]}'}
    host.api.merge_patch(paths.node("n1"), {"metadata": {"annotations": by_hand}})
    with host.agent() as agent:
        ready(agent)
        host.is_like(uncorrected={7: 1})
        wait_for(lambda: host.annotation("neuron-health") == {"devices": [7], "links": [[4, 5]]}, "both are there")
        host.is_like()
        wait_for(lambda: host.annotation("neuron-health") == {"links": [[4, 5]]}, "the agent's own has gone")


def test_a_node_without_awss_device_plugin_is_told(host: Host, ready: Ready) -> None:
    host.api.merge_patch("/api/v1/nodes/n1/status", {"status": {"capacity": {"aws.amazon.com/neuron": "0"}}})
    with host.agent() as agent:
        ready(agent)
        (said,) = wait_for(lambda: host.messages("NeuronDevicePluginMissing"), "the node has an event")
        assert said.startswith("the machine has 16 Neuron devices and the node offers no aws.amazon.com/neuron")
        assert "neuron_agent_device_plugin_missing 1.0" in metrics(agent)


def metrics(agent: NeuronAgent) -> str:
    """The text that Prometheus reads."""
    host, port = agent.address
    return urllib3.request("GET", f"http://{host}:{port}/metrics").data.decode()
