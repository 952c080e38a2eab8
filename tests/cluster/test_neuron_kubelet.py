"""The real kubelet with a device plugin as AWS's, the real Volcano and the allocator: which devices containers find.

The kubelet chooses ids of its own; the plugin hands out what the allocator has written on the pod.
"""

from __future__ import annotations

import time

from tests.cluster.agents import Numbers
from tests.cluster.neuron import NeuronAllocator
from tests.cluster.node import Node
from tests.cluster.objects import container, pod_spec, task, vcjob
from tests.cluster.slices import jobs
from tests.cluster.training import TrainingNode, check_handed_out
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until
from tests.device_plugins.neuron import DEVICES


def test_containers_of_a_gang_find_the_devices_that_the_allocator_chose(
    volcano: Volcano, node: Node, numbers: Numbers
) -> None:
    spec = pod_spec(container(limits={DEVICES: 4}), schedulerName="volcano")
    with NeuronAllocator(volcano), TrainingNode(node) as training:
        took = []
        for name in ("one", "two", "three"):
            began = time.monotonic()
            node.plane.api.create(jobs("default"), vcjob(name, task("worker", 2, spec)))
            training.wait_running(name, 2)
            took.append(f"{time.monotonic() - began:.1f}")
            check_handed_out(training.handed_out(name))
            node.plane.api.delete(f"{jobs('default')}/{name}")
            wait_until(lambda job=name: not training.pods(job), "its pods are gone", 60)  # type: ignore[misc]
        numbers.add("Neuron gang, from the job to both pods running", f"{', '.join(took)} s", "<= 15 s")
