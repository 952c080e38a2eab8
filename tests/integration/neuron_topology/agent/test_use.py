"""The stream of neuron-monitor over a program: figures of containers, bad lines, and a program that ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError
from hami_plugins.wire import usage
from neuron_topology.agent.app import NeuronAgent
from neuron_topology.commands.usage import show_usage
from tests.cluster.monitored import recorded
from tests.integration.neuron_topology.agent.conftest import Host
from tests.integration.neuron_topology.agent.test_driver import ID, a_program, a_tree
from tests.integration.neuron_topology.server.servers import a_pod
from tests.unit.neuron_topology.agent.test_monitor import a_line, a_runtime
from tests.waiting import wait_for

GIB = 1 << 30
PERIOD = "0.1"


@contextmanager
def measured(host: Host, script: str) -> Iterator[NeuronAgent]:
    """An agent whose neuron-monitor is a script, on a machine with two devices."""
    root = a_tree(host.folder)
    listed = [
        {"neuron_device": at, "nc_count": 2, "memory_size": 32 * GIB, "connected_to": [1 - at]} for at in range(2)
    ]
    tools = {"command": [a_program(host.folder, f"echo '{json.dumps(listed)}'")], "intervalSeconds": 30}
    monitor = host.folder / "neuron-monitor"
    monitor.write_text(f"#!/bin/sh\n{script}\n")
    monitor.chmod(0o755)
    stream = {"command": [str(monitor)], "restartSeconds": 0.5}
    places = {"sysfsRoot": str(root), "procRoot": str(host.folder / "proc")}
    with host.agent(machineFile=None, neuronLs=tools, neuronMonitor=stream, **places) as agent:
        wait_for(lambda: not agent.trouble, "the agent is ready")
        yield agent


def a_trainer(host: Host, **annotations: str) -> None:
    """A pod that trains, with the process 70."""
    pod = a_pod("trains", 1)
    pod["metadata"] |= {"annotations": annotations or {"AWS_NEURON_IDS": "1"}}
    pod["spec"] |= {"nodeName": "n1"}
    uid = host.api.create("/api/v1/namespaces/default/pods", pod)["metadata"]["uid"]
    place = host.folder / "proc" / "70"
    place.mkdir(parents=True)
    (place / "cgroup").write_text(f"0::/kubepods/pod{uid}/{ID}\n")


def a_report(**more: Any) -> str:
    return a_line(a_runtime(70, {2: 80.0, 3: 40.0}, {2: {"tensors": 4 * GIB}, 3: {"constants": GIB}}), **more)


def forever(line: str) -> str:
    return f"while echo '{line}'; do sleep {PERIOD}; done"


def answer(agent: NeuronAgent, path: str) -> tuple[int, str]:
    host, port = agent.address
    reply = urllib3.request("GET", f"http://{host}:{port}{path}", retries=False)
    return reply.status, reply.data.decode()


def test_metrics_tell_what_each_container_uses(host: Host) -> None:
    a_trainer(host)
    with measured(host, forever(a_report())) as agent:
        container = answer_of(host)
        core = f'neuron_agent_core_utilization_ratio{{{container["first"]},core="2",{container["rest"]}}}'
        text = wait_for(lambda: found if core in (found := answer(agent, "/metrics")[1]) else "", "it is measured")
        assert value(text, core) == 0.8
        device = f'{container["first"]},{container["rest"]},uuid="n1-AWSNeuron-1"'
        assert value(text, f"neuron_agent_container_memory_allocated_bytes{{{device}}}") == 32 * GIB
        kind = device.replace(",namespace", ',kind="data",namespace')
        assert value(text, f"neuron_agent_container_memory_used_bytes{{{kind}}}") == 5 * GIB
        assert value(text, f"neuron_agent_container_utilization_ratio{{{device}}}") == pytest.approx(0.6)
        assert value(text, "neuron_agent_monitor_reporting") == 1
        errors = f'neuron_agent_executions_total{{{container["first"]},{container["rest"]},result="numerical"}}'
        first = wait_for(lambda: value(answer(agent, "/metrics")[1], errors), "errors are counted")
        assert first % 2 == 0
        wait_for(lambda: value(answer(agent, "/metrics")[1], errors) > first, "errors add up")


def test_what_is_scraped_is_what_the_dashboard_is_tried_on(host: Host, *, update_golden: bool) -> None:
    """The recorded scrape has the names that a real one has."""
    a_trainer(host)
    with measured(host, forever(a_report())) as agent:
        wait_for(lambda: "neuron_agent_executions_total{" in answer(agent, "/metrics")[1], "it is measured")
        recorded("neuron-agent", agent.address[1], update=update_golden)


def answer_of(host: Host) -> dict[str, str]:
    """The labels of the trainer's container, in the order of their names."""
    (pod,) = host.site.server.objects("pods")
    name = pod["spec"]["containers"][0]["name"]
    return {"first": f'container="{name}"', "rest": 'namespace="default",pod="trains"'}


def value(text: str, series: str) -> float:
    """A figure; 0 without one."""
    return next((float(each.rpartition(" ")[2]) for each in text.splitlines() if each.startswith(series)), 0.0)


def test_the_command_prints_what_plan_and_explain_take(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    a_trainer(host)
    with measured(host, forever(a_report())) as agent:
        url = "http://{}:{}".format(*agent.address)
        wait_for(lambda: '"processes":1' in answer(agent, "/usage")[1], "it is measured")
        capsys.readouterr()
        assert show_usage(url, form=Form.JSON, headers=True) == 0
        found = usage.decode(json.loads(capsys.readouterr().out))
        (container,) = found.containers
        assert (found.node, container.full_name, container.container) == ("n1", "default/trains", "main")
        (card,) = container.cards
        assert (card.card, card.allocated) == ("n1-AWSNeuron-1", 32 * GIB)
        assert card.utilization == pytest.approx(0.6)
        assert card.used is not None
        assert card.used.total == 5 * GIB
        assert show_usage(url, form=Form.TABLE, headers=True) == 0
        assert "n1-AWSNeuron-1" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="does the node's Neuron agent run"):
        show_usage(url, form=Form.TABLE, headers=True)
    with pytest.raises(ConfigError, match="not an address"):
        show_usage("n1", form=Form.TABLE, headers=True)


def test_a_torn_line_is_counted_and_the_next_one_read(host: Host) -> None:
    a_trainer(host)
    with measured(host, f'echo \'{{"neuron_runtime_data": [{{"pi\'; {forever(a_report())}') as agent:
        wait_for(lambda: '"processes":1' in answer(agent, "/usage")[1], "it is measured")
        assert "neuron_agent_monitor_lines_refused_total 1.0" in answer(agent, "/metrics")[1]


def test_a_monitor_that_ends_leaves_no_old_figures_and_is_started_again(host: Host) -> None:
    a_trainer(host)
    again = host.folder / "again"
    script = f"[ -e {again} ] && {{ {forever(a_report())}; }}; echo '{a_report()}'; exit 3"
    with measured(host, script) as agent:
        wait_for(lambda: "ended with exit code 3" in answer(agent, "/usage")[1], "the end is told")
        wait_for(lambda: "neuron_agent_monitor_reporting 0.0" in answer(agent, "/metrics")[1], "no old figure stays")
        status, _ = answer(agent, "/usage")
        assert status == 503
        assert not agent.trouble, "the node is described all the same"
        url = "http://{}:{}".format(*agent.address)
        with pytest.raises(ConfigError, match="HTTP 503"):
            show_usage(url, form=Form.TABLE, headers=True)
        again.touch()
        wait_for(lambda: '"processes":1' in answer(agent, "/usage")[1], "it reports again")


def test_a_monitor_that_is_not_there_is_told(host: Host) -> None:
    with measured(host, "true") as agent:
        (host.folder / "neuron-monitor").unlink()
        wait_for(lambda: "install aws-neuronx-tools" in answer(agent, "/usage")[1], "the cure is told")


def test_the_program_ends_with_the_agent(host: Host) -> None:
    with measured(host, f"echo $$ > {host.folder}/pid; {forever(a_line())}"):
        number = int(wait_for(lambda: read(host.folder / "pid"), "it runs"))
    wait_for(lambda: not alive(number), "it has ended")


def test_counters_that_the_driver_lacks_are_taken_from_the_monitor(host: Host) -> None:
    counters = [{"neuron_device_index": 1, "mem_ecc_uncorrected": 1}]
    line = a_line(system_data={"neuron_hw_counters": {"neuron_devices": counters}})
    with measured(host, forever(line)):
        wait_for(lambda: host.annotation("neuron-health") == {"devices": [1]}, "the device is broken")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
