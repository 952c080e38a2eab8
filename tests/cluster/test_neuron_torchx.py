"""Jobs of TorchX 0.7 at the real API server, with Volcano's definitions, webhooks, controllers and scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hami_plugins.wire import quantity
from neuron_topology.core.named_resources import NAMED
from neuron_topology.core.names import DEVICES, EFA
from tests.cluster.api import ApiError, Object
from tests.cluster.card_nodes import NODES
from tests.cluster.dry_runs import DRY_RUNS, NAMED_RESOURCES, as_they_are, patched, without_kubelets
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import Machines, Submissions
from tests.cluster.slices import jobs
from tests.cluster.volcano import Volcano, open_queue
from tests.cluster.waiting import wait_until

PODGROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
Read = Callable[[Path], dict[str, Object]]
both = pytest.mark.parametrize("read", [as_they_are, patched])


@pytest.fixture
def plane(control_plane: ControlPlane, volcano: Volcano) -> ControlPlane:
    """With Volcano, and the queues that the jobs are for."""
    assert volcano.webhooks.running
    for name in ("test", "neuron-prod"):
        open_queue(control_plane, name)
    return control_plane


@pytest.fixture
def submitted(plane: ControlPlane, namespace: str) -> Iterator[Submissions]:
    """On one machine, and no allocator: it is Volcano itself that counts."""
    machines = Machines(plane)
    with machines:
        machines.boot()
        yield Submissions(plane, machines, namespace)


def answered(plane: ControlPlane, job: Object) -> Object:
    """The job as it would be kept, with what webhooks put in and without what the definition does not know."""
    answer = plane.api.request("POST", jobs("default"), job, query={"dryRun": "All"})
    found: Object = json.loads(answer)
    return found


def containers(job: Object) -> list[Any]:
    return [each["template"]["spec"]["containers"][0] for each in job["spec"]["tasks"]]


def amounts(container: Any) -> dict[tuple[str, str], int]:
    """What a container asks for, however it is written, in billionths."""
    return {
        (kind, name): quantity.parse(text, key=name).nano
        for kind, each in container["resources"].items()
        for name, text in each.items()
    }


@both
def test_a_job_of_every_named_resource_is_taken_as_it_is_and_patched(plane: ControlPlane, read: Read) -> None:
    submitted = read(NAMED_RESOURCES)
    assert len(submitted) == len(NAMED) + 1
    for name, resource in NAMED.items():
        job = submitted[f"{resource.attribute.replace('_', '-')}-0"]
        (container,) = containers(answered(plane, job))
        assert amounts(container) == amounts(containers(job)[0]), name
        asked = container["resources"]["requests" if read is patched else "limits"]
        assert (asked[DEVICES], asked.get(EFA, "0")) == (
            str(resource.devices[DEVICES]),
            str(resource.devices.get(EFA, 0)),
        )


@both
def test_a_gang_is_taken_as_it_is_and_patched_with_its_part_of_the_network(plane: ControlPlane, read: Read) -> None:
    found = answered(plane, read(NAMED_RESOURCES)["gang-0"])["spec"]
    assert found["minAvailable"] == 4
    wanted = {"mode": "hard", "highestTierName": "network-layer-3"} if read is patched else None
    assert found.get("networkTopology") == wanted


@both
@pytest.mark.parametrize("path", DRY_RUNS, ids=lambda path: path.stem)
def test_every_other_job_of_torchx_is_taken_as_it_is_and_patched(plane: ControlPlane, path: Path, read: Read) -> None:
    (job,) = read(path).values()
    found = answered(plane, job)
    assert [*map(amounts, containers(found))] == [*map(amounts, containers(job))]


def test_what_the_definition_does_not_allow_is_refused(plane: ControlPlane) -> None:
    """So the answers above say something. Volcano's own discovery names tiers like this one."""
    job = patched(NAMED_RESOURCES)["gang-0"]
    job["spec"]["networkTopology"]["highestTierName"] = "topology.k8s.aws/network-node-layer-3"
    with pytest.raises(ApiError, match="highestTierName"):
        answered(plane, job)


@both
def test_volcano_counts_the_devices_of_a_job_once_it_is_patched(
    plane: ControlPlane, submitted: Submissions, read: Read
) -> None:
    """What it counts for queues and before it makes pods; the pods themselves ask for devices either way."""
    job = read(NAMED_RESOURCES)["trn1-32xlarge-0"]
    plane.api.create(jobs(submitted.namespace), without_kubelets(job))
    (bound,) = submitted.wait_bound("trn1-32xlarge-0", 1)
    asked = bound["spec"]["containers"][0]["resources"]["requests"]
    assert (asked[DEVICES], asked[EFA]) == ("16", "8")
    (group,) = plane.api.items(PODGROUPS.format(submitted.namespace))
    counted = group["spec"]["minResources"]
    assert {"cpu", "memory"} <= counted.keys()
    assert counted.get(DEVICES) == counted.get(f"requests.{DEVICES}") == ("16" if read is patched else None)


def test_a_patched_gang_starts_again_on_other_machines_when_one_fails(
    plane: ControlPlane, submitted: Submissions
) -> None:
    """Its pods are evicted, as from a machine that is gone for longer than they tolerate."""
    submitted.machines.boot(2)
    plane.api.create(jobs(submitted.namespace), without_kubelets(patched(NAMED_RESOURCES)["gang-0"]))
    before = submitted.wait_bound("gang-0", 4)
    failed = before[0]["spec"]["nodeName"]
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    plane.api.merge_patch(f"{NODES}/{failed}", {"spec": {"taints": [taint]}})
    known = {each["metadata"]["uid"] for each in before}

    def again() -> bool:
        found = submitted.members("gang-0")
        fresh = [each for each in found if each["metadata"]["uid"] not in known]
        return len(fresh) == 4 and all(each["spec"].get("nodeName", failed) != failed for each in fresh)

    wait_until(again, "the gang is on the other machines", 60, show=lambda: submitted.told("gang-0"))
