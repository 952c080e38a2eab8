"""No user raises, forges or inflates an allocation, before the real API server with and without the admission policy.

The kubelet is the embedded one and the agent runs in this process, so that a container starts in milliseconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from hami_plugins.allocator.app import allocator_server
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect
from neuron_topology.server.extension import NeuronExtension
from tests.cluster.allocating import VOLCANO, a_site, installed
from tests.cluster.allocator import HOOKS, marks
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.slices import volcano_pod
from tests.cluster.waiting import wait_until
from tests.integration.attacks.forgeries import IDS, LEFT, NODE, VGPU_KEYS, WAYS, Forgery, Outcome, When
from tests.integration.attacks.stage import (
    CARDS,
    SICK,
    A,
    B,
    Stage,
    a_pod,
    changes_nothing_while_it_runs,
    does_not_start,
    is_not_created,
    of,
    starts_as_bound,
    webhooks,
)
from tests.integration.volcano_vgpu.machines import emulated_node
from tests.integration.web.certificates import a_certificate
from tests.unit.allocator.products import MARK, settings, vendors_of
from tests.waiting import wait_for

NODE_NAME = "forged-node"
NAMESPACE = "forgers"
SETTINGS = {
    "listen": {"host": "127.0.0.1", "port": 0},
    "webhooks": {"host": "127.0.0.1", "port": 0},
    "service": {"namespace": "default"},
    "lease": {"duration": 15.0, "deadline": 10.0, "retry": 1.0},
    "shutdownDelay": 0,
}


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The owner of the pods may do everything in their namespace, and writes as a ServiceAccount."""
    folder = tmp_path_factory.mktemp("site")
    a_certificate(folder)
    api = connect(kubeconfig=str(control_plane.admin_kubeconfig), component="test")
    root = Path(tempfile.mkdtemp(prefix="vg"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root)
        stack.callback(api.close)
        stack.enter_context(a_site(control_plane, NAMESPACE))
        stack.callback(control_plane.api.delete, f"/api/v1/nodes/{NODE_NAME}")
        node = stack.enter_context(emulated_node(api, NODE_NAME, NAMESPACE, root))
        # The cluster's own Volcano places no pod here: the tests send the Bindings.
        taint = {"key": "test/forged", "value": "", "effect": "NoSchedule"}
        wait_for(lambda: control_plane.api.find(f"/api/v1/nodes/{NODE_NAME}"), "the kubelet registers its node")
        api.merge_patch(paths.node(NODE_NAME), {"spec": {"taints": [taint]}})
        node.write_cards(*CARDS)
        told = settings(**SETTINGS, certificate={"directory": str(folder)})
        metrics = AllocatorMetrics()
        server = allocator_server(
            told, api, vendors_of(told), NeuronExtension, metrics=metrics, identity="one", linger=0.0
        )
        server.start()
        stack.callback(server.stop)
        owner = _owner(control_plane)
        stack.callback(owner.close)
        made = Stage(node=node, owner=owner, agent=node.start_agent(), server=server)
        stack.callback(made.stop)
        made.wait_ready()
        hooks = webhooks(server, folder / "tls.crt")
        control_plane.apply(HOOKS, hooks)
        stack.callback(control_plane.api.delete, f"{HOOKS}/{hooks['metadata']['name']}")
        wait_until(lambda: marks(control_plane, volcano_pod("probe"), MARK), "the API server asks the new webhooks")
        yield made


def _owner(plane: ControlPlane) -> KubeClient:
    token = plane.account("forger", EVERYTHING)
    return connect(kubeconfig=str(plane.kubeconfig("forger", token)), component="test")


@pytest.fixture
def name(stage: Stage) -> Iterator[str]:
    found = next(stage.names)
    yield found
    stage.remove(found)


@of(Outcome.REFUSED)
def test_a_pod_that_brings_its_node_and_an_allocation_is_not_created(stage: Stage, name: str, way: Forgery) -> None:
    is_not_created(stage, name, way)


@of(Outcome.NEVER)
def test_a_forged_allocation_does_not_start_and_the_pod_says_why(stage: Stage, name: str, way: Forgery) -> None:
    does_not_start(stage, name, way)


@of(Outcome.AS_BOUND)
def test_what_is_written_before_the_binding_has_no_effect(stage: Stage, name: str, way: Forgery) -> None:
    starts_as_bound(stage, name, way)


@of(Outcome.AS_BOUND, running=True)
def test_a_running_pod_changes_nothing_and_blocks_no_other(stage: Stage, name: str, way: Forgery) -> None:
    changes_nothing_while_it_runs(stage, name, way)


ALLOCATED = {IDS: f"{A},NVIDIA,1000,10:", LEFT: f"{A},NVIDIA,1000,10:", NODE: NODE_NAME}
REFUSAL = "only schedulers, the allocator, and node agents write|which only a scheduler writes"
"""Of the policy, or of the webhook where it is asked first."""


def test_the_policy_refuses_each_write(stage: Stage, control_plane: ControlPlane, subtests: pytest.Subtests) -> None:
    """With the policy as the command prints it; one test, because the policy holds for all pods while it is there."""
    command = [sys.executable, "-m", "hami_plugins.cli", "allocation-policy"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with a_site(control_plane, "probes") as site, installed(site, list(yaml.safe_load_all(printed)), *VOLCANO):
        for way in WAYS:
            name = next(stage.names)
            with subtests.test(msg=str(way)):
                _refused(stage, name, way)
            stage.remove(name)


def _refused(stage: Stage, name: str, way: Forgery) -> None:
    """A pod that is there carries an allocation, so that a way that removes one changes something."""
    written = way.written(own=A, other=B, sick=SICK, node=NODE_NAME)
    if way.when in (When.CREATION, When.TEMPLATE):
        body = a_pod(name, way)
        body["metadata"]["annotations"] = written
        if way.when is When.CREATION:
            body["spec"]["nodeName"] = NODE_NAME
        if way.when is When.TEMPLATE:  # the webhook is asked before the policy
            stage.create(body)
            assert not stage.annotations(name).keys() & written.keys()
            return
        with pytest.raises(KubeError, match=REFUSAL):
            stage.create(body)
        assert stage.node.find_pod(name) is None
        return
    stage.create(a_pod(name))
    stage.node.api.merge_patch(paths.pod(NAMESPACE, name), {"metadata": {"annotations": ALLOCATED}})
    before = stage.annotations(name)
    with pytest.raises(KubeError, match=REFUSAL):
        _write(stage, name, way, written)
    after = stage.annotations(name)  # with the group that Volcano's controllers write
    assert {key: after.get(key) for key in VGPU_KEYS} == {key: before.get(key) for key in VGPU_KEYS}


def _write(stage: Stage, name: str, way: Forgery, annotations: Mapping[str, str | None]) -> None:
    if way.when is When.BINDING:
        stage.bind_as_owner(name, annotations)
    else:
        stage.annotate(name, annotations, way.write)
